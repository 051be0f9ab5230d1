//! `perf.data` files: header, features, records, copied stacks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_import::fuzz_perf_data(bytes));
