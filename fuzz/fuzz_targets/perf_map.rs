//! Perf maps, written by the target's own JIT compiler.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_stacks::fuzz::fuzz_perf_map(bytes));
