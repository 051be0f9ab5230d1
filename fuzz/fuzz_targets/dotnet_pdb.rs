//! Portable debug information of .NET, and assemblies that hold some.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::metadata::pdb::fuzz_pdb(bytes));
