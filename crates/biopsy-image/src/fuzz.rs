//! Entry points for fuzzing: arbitrary bytes through every reader of this crate. Any panic, any answer that breaks the
//! contract of [`Image`](crate::Image) and any unbounded memory is a bug.

mod check;

pub use check::check_image;

use crate::{Limits, open_bytes};

/// Reads the bytes as a dump of any format, and all that is in it.
pub fn fuzz_dump(bytes: &[u8]) {
    if let Ok(opened) = open_bytes("fuzz", bytes, &Limits::small()) {
        check_image(&*opened.image);
    }
}

/// Reads the bytes as a core inside of a zstd file of several frames, whose sizes the first bytes say.
pub fn fuzz_packed(bytes: &[u8]) {
    // As they are: seek tables, frame headers, gzip.
    fuzz_dump(bytes);
    // And packed, so that mutations reach the core behind the frames.
    let Some((&size, rest)) = bytes.split_first() else { return };
    let mut packed = Vec::new();
    for chunk in rest.chunks((usize::from(size) + 1) * 16).take(64) {
        packed.extend(zstd::bulk::compress(chunk, 1).unwrap_or_default());
    }
    fuzz_dump(&packed);
}
