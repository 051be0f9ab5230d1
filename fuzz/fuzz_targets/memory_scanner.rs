//! Memory of any content through the scanner for secrets, whole and in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_redact::memory::fuzz_memory(bytes));
