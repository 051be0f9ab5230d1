//! Assemblies: PE headers, tables, names, signatures.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::metadata::fuzz::fuzz_metadata(bytes));
