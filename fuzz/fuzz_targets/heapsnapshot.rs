//! Snapshots of V8.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_import::heapsnapshot::fuzz(bytes));
