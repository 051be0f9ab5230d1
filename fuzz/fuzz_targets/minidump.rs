//! Minidumps of Windows and Breakpad.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_image::fuzz::fuzz_dump(bytes));
