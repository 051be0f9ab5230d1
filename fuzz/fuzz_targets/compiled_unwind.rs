//! Unwind information and code that a runtime compiled.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_compiled(bytes));
