//! Profiles of pprof, packed or not.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_import::pprof::fuzz(bytes));
