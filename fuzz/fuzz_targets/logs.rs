//! Log lines: time stamps, levels, records of several lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_record::logs::fuzz_records(bytes));
