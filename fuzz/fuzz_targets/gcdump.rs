//! `.gcdump` files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = biopsy_dotnet::gcdump::read(bytes);
});
