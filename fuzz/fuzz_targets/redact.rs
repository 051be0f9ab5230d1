//! Text of any encoding through the redactor and its verification.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_redact::fuzz_redact(bytes));
