//! Names of methods: as the runtime's events and perf maps give them, and as they are shown.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::methods::fuzz_methods(bytes));
