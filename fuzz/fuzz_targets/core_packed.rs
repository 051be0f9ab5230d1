//! Cores that are packed: seek tables, frames of zstd, gzip, and what is in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_image::fuzz::fuzz_packed(bytes));
