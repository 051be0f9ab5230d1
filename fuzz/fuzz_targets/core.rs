//! ELF cores: program headers, notes, memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_image::fuzz::fuzz_dump(bytes));
