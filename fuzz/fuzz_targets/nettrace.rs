//! nettrace streams: blocks, descriptions and values, what the events mean, and what becomes of them as a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    biopsy_dotnet::nettrace::fuzz_nettrace(bytes);
    biopsy_dotnet::events::fuzz_events(bytes);
    biopsy_import::fuzz_nettrace(bytes);
});
