//! Any bytes as a sealed file: the header, and, where a key fits, the chunks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_seal::fuzz_sealed(bytes));
