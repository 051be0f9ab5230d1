//! Blocks of a program, what they are and who holds them: a made-up process, changed word by word.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_blocks::fuzz::fuzz_blocks(bytes));
