//! ELF files: sections, symbols, unwind tables, build ids.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_elf(bytes));
