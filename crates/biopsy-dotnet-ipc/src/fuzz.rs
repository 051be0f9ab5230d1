//! Entry point for fuzzing: any bytes as the answer of a runtime.

use crate::{info, reverse, wire};

/// Reads bytes as everything a runtime may send.
pub fn fuzz_answers(bytes: &[u8]) {
    if let Some((head, payload)) = bytes.split_first_chunk::<{ wire::HEADER_BYTES }>() {
        let _ = std::hint::black_box(wire::parse_head(head));
        let _ = std::hint::black_box(wire::parse_error(payload));
        for form in 1..=3 {
            let _ = std::hint::black_box(info::parse(form, payload));
        }
    }
    let _ = std::hint::black_box(reverse::parse_advertise(bytes));
}
