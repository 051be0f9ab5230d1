//! Mangled names of C++ and Rust.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_demangle(bytes));
