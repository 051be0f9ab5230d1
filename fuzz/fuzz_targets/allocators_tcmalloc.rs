//! Memory of tcmalloc: a made-up process, changed word by word.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_allocators::fuzz::fuzz_tcmalloc(bytes));
