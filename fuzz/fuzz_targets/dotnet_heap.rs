//! A .NET heap in damaged memory: segments, objects, references, handles.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_dotnet::heap::fuzz::fuzz_heap(bytes));
