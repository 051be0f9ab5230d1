//! Debug information: units, functions and inlined calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_dwarf(bytes));
