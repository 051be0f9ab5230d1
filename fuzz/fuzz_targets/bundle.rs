//! A whole recording as one `.zip`, from a stranger.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| biopsy_recording::fuzz_bundle(bytes));
