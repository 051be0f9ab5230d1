//! What runtimes have in their memory: made-up processes, changed word by word.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_runtimes::fuzz::fuzz_heaps(bytes));
