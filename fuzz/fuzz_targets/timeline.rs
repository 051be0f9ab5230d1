//! The timeline of a recording: chunks, and everything in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_recording::timeline::fuzz_timeline(bytes));
