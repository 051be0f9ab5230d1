//! Log files of any program, and the texts of `/proc` that metrics are read from.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    biopsy_record::logs::fuzz_records(bytes);
    biopsy_record::metrics::fuzz_parsers(bytes);
});
