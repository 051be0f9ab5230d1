//! What a .NET runtime says to triggers: a stream of events, and payloads that are read by hand.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_record::triggers::fuzz_dotnet(bytes));
