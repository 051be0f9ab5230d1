//! Which pages of a shared mapping exist.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;

use biopsy_image::{Backing, Mapping, PAGE_SIZE};
use rustix::fs::{FileType, SeekFrom};

use crate::proc_root::ProcessDir;

/// Where data is.
pub(super) enum Data {
    /// Here.
    At(Vec<Range<u64>>),
    /// It cannot be told from the file: what the process itself has touched has to do.
    AskPageTables,
}

/// `TMPFS_MAGIC` of `linux/magic.h`: memfd, `/dev/shm`, System V and shared anonymous memory.
const TMPFS: i64 = 0x0102_1994;
/// `HUGETLBFS_MAGIC`.
const HUGETLBFS: i64 = 0x9584_58f6;
/// Most pieces of data in one file that are told apart.
const PIECES: usize = 1 << 20;

/// Reading a page of shared memory that nobody has touched makes it, whoever reads, and it stays. So the file is asked
/// where its data is, through the link that the kernel has for each mapping.
pub(super) fn data(process: &ProcessDir, mapping: &Mapping) -> Data {
    let Backing::File { offset, .. } = &mapping.backing else { return Data::AskPageTables };
    let name = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    let Ok(found) = process.locate(&name) else { return Data::AskPageTables };
    let Ok(stat) = rustix::fs::fstat(&found) else { return Data::AskPageTables };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        // Memory of a device: reading it can have effects.
        return Data::At(Vec::new());
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0).next_multiple_of(PAGE_SIZE);
    let window = *offset..offset.saturating_add(mapping.size()).min(size);
    if window.is_empty() {
        return Data::At(Vec::new());
    }
    let pieces = match rustix::fs::fstatfs(&found).map(|kind| kind.f_type) {
        Ok(TMPFS) => match biopsy_files::reopen(&found).map(|file| pieces(&file, window)) {
            Ok(Some(pieces)) => pieces,
            _ => return Data::AskPageTables,
        },
        // It does not tell its holes.
        Ok(HUGETLBFS) | Err(_) => return Data::AskPageTables,
        // Reading holes of other files makes nothing that stays.
        Ok(_) => vec![window],
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
