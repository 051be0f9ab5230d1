//! The kernel's symbol list.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_kallsyms(bytes));
