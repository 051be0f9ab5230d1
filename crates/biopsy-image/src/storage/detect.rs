//! What a file is packed with, by its content, never by its name.

use std::path::Path;
use std::sync::Arc;

use biopsy_model::loss::Warning;

use super::frames::FramedZstd;
use super::packing::{Encoding, Unpacked};
use super::{Storage, seek_table, unpack, walk};
use crate::Limits;
use crate::problem::OpenProblem;

const ZSTD: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// What is known not to be read, and what unpacks it.
const OTHERS: [(&[u8], &str, &str); 2] = [(b"BZh", "bzip2", "bzip2 -dk"), (b"PK\x03\x04", "zip", "unzip")];
/// What has to be unpacked from its start.
const FROM_THE_START: [(&[u8], Encoding); 3] = [
    (&[0x1f, 0x8b], Encoding::Gzip),
    (&[0x04, 0x22, 0x4d, 0x18], Encoding::Lz4),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Encoding::Xz),
];

/// Makes `file` readable at any offset. `folder` is where it lies, for the temporary file that some need.
pub(crate) fn open_storage(
    file: Arc<dyn Storage>,
    folder: Option<&Path>,
    limits: &Limits,
) -> Result<Unpacked, OpenProblem> {
    let mut start = [0; 8];
    let read = file.read_full(0, &mut start)?;
    let start = &start[..read];
    if start.starts_with(&ZSTD) || is_skippable(start) {
        return open_zstd(file, folder, limits);
    }
    if let Some((_, encoding)) = FROM_THE_START.iter().find(|(magic, _)| start.starts_with(magic)) {
        return unpack::unpack(file, *encoding, folder, limits);
    }
    if let Some((_, format, command)) = OTHERS.iter().find(|(magic, _, _)| start.starts_with(magic)) {
        return Err(OpenProblem::OtherPacking { format, command });
    }
    Ok(Unpacked { storage: file, encoding: Encoding::Plain, warnings: Vec::new(), cut: false })
}

fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50)
}

fn open_zstd(
    file: Arc<dyn Storage>,
    folder: Option<&Path>,
    limits: &Limits,
) -> Result<Unpacked, OpenProblem> {
    let framed = |frames| FramedZstd::new(Arc::clone(&file), frames, limits.frame_bytes, limits.cached_bytes);
    if let Some(storage) = seek_table::read(&*file, limits)?.and_then(framed) {
        return Ok(Unpacked {
            storage: Arc::new(storage),
            encoding: Encoding::SeekableZstd,
            warnings: Vec::new(),
            cut: false,
        });
    }
    if let Some(walked) = walk::walk(&*file, limits)?.filter(|walked| !walked.frames.is_empty()) {
        let cut = walked.ends_early_at;
        if let Some(storage) = framed(walked.frames) {
            let warnings = cut.map(|at| {
                let message = format!(
                    "the compressed file is cut off or damaged at {at:#x} of {:#x} bytes; what is before is read",
                    file.len()
                );
                Warning::new("dump.cut-off", message)
            });
            return Ok(Unpacked {
                storage: Arc::new(storage),
                encoding: Encoding::FramedZstd,
                warnings: warnings.into_iter().collect(),
                cut: cut.is_some(),
            });
        }
    }
    unpack::unpack(file, Encoding::Zstd, folder, limits)
}
