//! The diagnostics protocol of .NET: whatever a runtime may answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet_ipc::fuzz_answers(bytes));
