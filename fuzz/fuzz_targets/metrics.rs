//! Files of /proc and cgroups that the metrics recorder reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_record::metrics::fuzz_parsers(bytes));
