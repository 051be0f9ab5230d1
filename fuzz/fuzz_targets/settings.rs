//! Settings of `biopsy watch`, as JSON with comments and as TOML, and a value changed in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_watch::fuzz::fuzz_settings(bytes));
