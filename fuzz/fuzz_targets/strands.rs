//! Goroutines of Go, threads and tasks of Python, threads of Java, JavaScript of Node: made-up processes, changed word by word.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_runtimes::fuzz::fuzz_strands(bytes));
