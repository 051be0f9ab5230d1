//! Members in a zip.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::loss::Warning;
use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::{CompressionMethod, ZipArchive};

use super::names::{checked_name, is_temporary, shown};
use crate::warn::{plural, warning};
use crate::{Limits, OpenError, layout};

/// Bytes that may be read while the directory of a zip is. Each member takes about 100 there; a directory of
/// millions of members would be held in memory whole before their number could be checked.
const DIRECTORY_BUDGET: u64 = 16 << 20;

/// What a zip is read from: a file, or memory.
pub(crate) trait Input: Read + Seek {}

impl<T: Read + Seek> Input for T {}

/// A zip's regular files with harmless names.
pub(crate) struct ZipSource {
    archive: ZipArchive<BufReader<Budgeted<Box<dyn Input>>>>,
    members: BTreeMap<String, u64>,
    indices: BTreeMap<String, usize>,
}

impl ZipSource {
    pub(crate) fn open(
        path: &Path,
        mut input: Box<dyn Input>,
        limits: &Limits,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, OpenError> {
        let claimed = claimed_members(&mut input).map_err(|e| OpenError::io(path, e))?;
        let file_bytes = input.seek(SeekFrom::End(0)).map_err(|e| OpenError::io(path, e))?;
        input.seek(SeekFrom::Start(0)).map_err(|e| OpenError::io(path, e))?;
        let over =
            |what, claimed, limit| OpenError::OverLimit { path: path.to_path_buf(), what, claimed, limit };
        if claimed > limits.members as u64 {
            return Err(over("members", claimed, limits.members as u64));
        }
        let budget = Rc::new(Cell::new(DIRECTORY_BUDGET));
        let reader = BufReader::new(Budgeted { inner: input, left: Rc::clone(&budget) });
        // Ours begin at the first byte; a search for zips behind something else would read the whole file.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let archive = ZipArchive::with_config(config, reader)
            .map_err(|source| OpenError::BadZip { path: path.to_path_buf(), source })?;
        budget.set(u64::MAX);
        if archive.len() > limits.members {
            return Err(over("members", archive.len() as u64, limits.members as u64));
        }
        let mut source = Self { archive, members: BTreeMap::new(), indices: BTreeMap::new() };
        source.list(limits, warnings);
        let total = source.total_unpacked();
        if total > limits.total_bytes {
            return Err(over("unpacked bytes", total, limits.total_bytes));
        }
        source
            .check_ratio(file_bytes, limits)
            .map_err(|(found, most)| over("unpacked bytes", found, most))?;
        source.strip_folder();
        Ok(source)
    }

    fn list(&mut self, limits: &Limits, warnings: &mut Vec<Warning>) {
        let mut duplicates = u64::from(self.archive.has_duplicate_names());
        let mut left_out: BTreeMap<&'static str, (u64, String)> = BTreeMap::new();
        for index in 0..self.archive.len() {
            let Ok(entry) = self.archive.by_index_data(index) else { continue };
            if entry.is_dir() {
                continue;
            }
            let raw = entry.name_raw();
            let reason = if entry.is_symlink() {
                "they are links"
            } else if entry.encrypted() {
                "they are encrypted"
            } else if entry.size() > limits.member_bytes && !is_stored_memory(&entry) {
                "they claim more bytes than the limit"
            } else if is_packed_twice(&entry) {
                "they are packed once more than biopsy packs"
            } else {
                match checked_name(raw) {
                    None => "their names lead elsewhere",
                    Some(name) if is_temporary(name) => continue,
                    Some(name) => {
                        if self.members.insert(name.to_owned(), entry.size()).is_some() {
                            duplicates += 1;
                        }
                        self.indices.insert(name.to_owned(), index);
                        continue;
                    }
                }
            };
            left_out.entry(reason).or_insert_with(|| (0, shown(raw))).0 += 1;
        }
        for (reason, (count, first)) in left_out {
            let message =
                format!("{} of the zip left out, first `{first}`: {reason}", plural(count, "member"));
            warnings.push(warning("recording.hostile-zip", message, None));
        }
        if duplicates > 0 {
            warnings.push(warning(
                "recording.duplicate-members",
                "the zip has several members of one name; the last of each is used".to_owned(),
                Some("biopsy never writes such a zip; do not trust it"),
            ));
        }
    }

    /// A folder that was zipped by hand has its name before those of the members.
    fn strip_folder(&mut self) {
        if self.members.contains_key(layout::HEADER) {
            return;
        }
        let inside = |name: &String| name.strip_suffix(layout::HEADER).map(str::to_owned);
        let mut prefixes =
            self.members.keys().filter_map(inside).filter(|prefix| prefix.matches('/').count() == 1);
        let (Some(prefix), None) = (prefixes.next(), prefixes.next()) else { return };
        let strip = |name: &String| name.strip_prefix(&prefix).map(str::to_owned);
        self.members = self.members.iter().filter_map(|(name, &size)| Some((strip(name)?, size))).collect();
        self.indices = self.indices.iter().filter_map(|(name, &index)| Some((strip(name)?, index))).collect();
    }

    /// Bytes of all members together. Memory that is stored as it is does not count: it is no larger than the file.
    fn total_unpacked(&self) -> u64 {
        let sizes = self.entries().filter(|entry| !is_stored_memory(entry)).map(|entry| entry.size());
        sizes.fold(0, u64::saturating_add)
    }

    /// Whether what is held in memory may come from so few bytes; what it is and what it may be, if not. Memory of processes
    /// is unpacked to files, and much of it is zeros.
    fn check_ratio(&self, file_bytes: u64, limits: &Limits) -> Result<(), (u64, u64)> {
        let (mut packed, mut unpacked) = (0_u64, 0_u64);
        let is_memory =
            |entry: &ZipFileEntry<'_>| checked_name(entry.name_raw()).is_some_and(layout::is_memory);
        for entry in self.entries().filter(|entry| !is_memory(entry)) {
            packed = packed.saturating_add(entry.compressed_size());
            unpacked = unpacked.saturating_add(entry.size());
        }
        // Members may lie one over another, or claim to be longer than the file: together they have no more bytes than it.
        let limit = limits.unpacked(packed.min(file_bytes));
        if unpacked > limit { Err((unpacked, limit)) } else { Ok(()) }
    }

    fn entries(&self) -> impl Iterator<Item = ZipFileEntry<'_>> {
        self.indices.values().filter_map(|&index| self.archive.by_index_data(index).ok())
    }

    /// Where in the file the bytes of a member are, if they are stored as they are.
    pub(crate) fn place(&mut self, name: &str) -> io::Result<Option<Range<u64>>> {
        let Some(&index) = self.indices.get(name) else { return Err(io::ErrorKind::NotFound.into()) };
        let file = self.archive.by_index(index).map_err(io::Error::from)?;
        let stored = file.compression() == CompressionMethod::Stored && !file.encrypted();
        let range = |start: u64| Some(start..start.checked_add(file.compressed_size())?);
        Ok(file.data_start().filter(|_| stored).and_then(range))
    }

    pub(crate) fn members(&self) -> &BTreeMap<String, u64> {
        &self.members
    }

    /// Hands a member's unpacked bytes and claimed size to `read`.
    pub(crate) fn with<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut dyn Read, u64) -> T,
    ) -> io::Result<T> {
        let Some(&index) = self.indices.get(name) else { return Err(io::ErrorKind::NotFound.into()) };
        let mut file = self.archive.by_index(index).map_err(io::Error::from)?;
        let size = file.size();
        Ok(read(&mut file, size))
    }
}

/// Memory of a process that takes as many bytes of the file as it claims to have.
fn is_stored_memory(entry: &ZipFileEntry<'_>) -> bool {
    entry.compression() == CompressionMethod::Stored
        && entry.compressed_size() == entry.size()
        && checked_name(entry.name_raw()).is_some_and(layout::is_memory)
}

/// A member that is packed in itself, and packs well once more: each packing would multiply what the other allows. What
/// zstd has written does not get smaller.
fn is_packed_twice(entry: &ZipFileEntry<'_>) -> bool {
    const FREE: u64 = 64 << 10;
    checked_name(entry.name_raw()).is_some_and(layout::is_compressed)
        && entry.size() > FREE.saturating_add(entry.compressed_size().saturating_mul(2))
}

/// The highest number of members that any 64-bit end record of the zip claims. The zip library takes memory for that
/// many before it reads the first. (A plain end record cannot claim more than 65,535.)
///
/// Layout, by APPNOTE 6.3.10: a locator (20 bytes: signature, disk, offset of the end record, disks) stands before the
/// plain end record, which is in the last 22 + 65,535 bytes. The end record has the number of members at 32.
fn claimed_members(input: &mut (impl Input + ?Sized)) -> io::Result<u64> {
    const LOCATOR: [u8; 4] = *b"PK\x06\x07";
    const TAIL: u64 = 20 + 22 + 65_535;
    let length = input.seek(SeekFrom::End(0))?;
    input.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    input.take(TAIL).read_to_end(&mut tail)?;
    let offsets = tail.windows(LOCATOR.len()).enumerate().filter(|(_, window)| *window == LOCATOR);
    let mut most = 0;
    for (at, _) in offsets {
        let Ok(offset) = end_record_offset(tail.get(at..).unwrap_or_default()) else { continue };
        let mut record = Vec::new();
        input.seek(SeekFrom::Start(offset))?;
        input.take(56).read_to_end(&mut record)?;
        most = most.max(members_of_end_record(&record).unwrap_or_default());
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(most)
}

fn end_record_offset(locator: &[u8]) -> Result<u64, ReadError> {
    let mut cursor = Cursor::new(locator);
    cursor.skip("locator signature and disk", 8)?;
    cursor.u64("offset of the end record")
}

fn members_of_end_record(record: &[u8]) -> Result<u64, ReadError> {
    let mut cursor = Cursor::new(record);
    cursor.skip("end record up to the number of members", 32)?;
    cursor.u64("number of members")
}

/// Reads until a budget is spent.
struct Budgeted<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Budgeted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.get().checked_sub(count as u64) {
            Some(left) => self.left.set(left),
            None => {
                let problem = format!("its directory has more than {DIRECTORY_BUDGET} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        Ok(count)
    }
}

impl<R: Seek> Seek for Budgeted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
