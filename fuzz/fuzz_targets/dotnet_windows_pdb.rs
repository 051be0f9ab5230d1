//! Debug information of .NET in the form of Windows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::metadata::pdb::fuzz_windows_pdb(bytes));
