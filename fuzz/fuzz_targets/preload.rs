//! What a program that counts its allocations has written for biopsy: any words.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_preload::fuzz_preload(bytes));
