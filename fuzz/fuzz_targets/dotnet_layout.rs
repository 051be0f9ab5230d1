//! Descriptors of .NET runtimes, and layout files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::layout::fuzz::fuzz_layout(bytes));
