//! The counters that HotSpot keeps in memory that it shares, as the context recorder reads them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_record::context::fuzz_hsperf(bytes));
