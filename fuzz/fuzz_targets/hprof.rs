//! Heap dumps of Java.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_import::hprof::fuzz(bytes));
