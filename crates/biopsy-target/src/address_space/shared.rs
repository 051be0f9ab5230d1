//! Which pages of a shared mapping exist.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;

use biopsy_files::Mounts;
use biopsy_image::{Backing, Mapping, PAGE_SIZE};
use rustix::fs::{FileType, SeekFrom};

use super::files::locate_mapped;
use crate::process::proc_root::ProcessDir;

/// Where data is.
pub(super) enum Data {
    /// Here.
    At(Vec<Range<u64>>),
    /// It cannot be told from the file: what the process itself has touched has to do.
    AskPageTables,
}

/// Most pieces of data in one file that are told apart.
const PIECES: usize = 1 << 20;

/// Reading a page of shared memory that nobody has touched makes it, whoever reads, and it stays. So the file is asked
/// where its data is, by way of the mapping.
///
/// Whoever serves its file system is not asked: he may never answer.
pub(super) fn data(process: &ProcessDir, mounts: &Mounts, mapping: &Mapping) -> Data {
    let Backing::File { offset, .. } = &mapping.backing else { return Data::AskPageTables };
    let Ok(handle) = locate_mapped(process, mapping) else { return Data::AskPageTables };
    let Ok(found) = mounts.look_at(&handle) else { return Data::AskPageTables };
    if found.kind != FileType::RegularFile {
        // Memory of a device: reading it can have effects.
        return Data::At(Vec::new());
    }
    let size = found.bytes.next_multiple_of(PAGE_SIZE);
    let window = *offset..offset.saturating_add(mapping.size()).min(size);
    if window.is_empty() {
        return Data::At(Vec::new());
    }
    let pieces = match found.file_system.as_deref() {
        // memfd, `/dev/shm`, System V and shared anonymous memory.
        Some("tmpfs") => match biopsy_files::reopen(&handle).map(|file| pieces(&file, window)) {
            Ok(Some(pieces)) => pieces,
            _ => return Data::AskPageTables,
        },
        // It does not tell its holes, or nobody knows what it is.
        Some("hugetlbfs") | None => return Data::AskPageTables,
        // Reading holes of other files makes nothing that stays.
        Some(_) => vec![window],
    };
    let to_address = |at: u64| mapping.start.saturating_add(at.saturating_sub(*offset)).min(mapping.end);
    Data::At(pieces.into_iter().map(|piece| to_address(piece.start)..to_address(piece.end)).collect())
}

/// The parts of `window` that hold data (lseek(2), SEEK_DATA and SEEK_HOLE).
fn pieces(file: &File, window: Range<u64>) -> Option<Vec<Range<u64>>> {
    let mut pieces: Vec<Range<u64>> = Vec::new();
    let mut at = window.start;
    while at < window.end {
        let start = match rustix::fs::seek(file.as_fd(), SeekFrom::Data(at)) {
            Ok(start) if start < window.end => start,
            Ok(_) | Err(rustix::io::Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = rustix::fs::seek(file.as_fd(), SeekFrom::Hole(start)).ok()?.min(window.end);
        let end = end.next_multiple_of(PAGE_SIZE);
        if end <= start || pieces.len() >= PIECES {
            return None;
        }
        pieces.push(start - start % PAGE_SIZE..end);
        at = end;
    }
    Some(pieces)
}
