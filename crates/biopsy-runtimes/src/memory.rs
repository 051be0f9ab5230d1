//! Memory of the process behind a cache of pages, and numbers and texts in it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use biopsy_image::{Absence, Image, InFile, MemoryExt, PAGE_SIZE, ReadError, in_file, mapping};
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

const PAGE: usize = PAGE_SIZE as usize;
/// Bytes that are searched at once.
const PIECE: usize = 1 << 20;
/// Fewest pages that are kept, whatever is asked for.
const PAGES_MIN: usize = 64;

/// Files in place of what a dump left out. Who implements it has made sure that they are the files that were mapped.
pub trait MissingFiles: Send + Sync {
    /// Fills `buffer` from `offset` of the file that the process knew by `path` on, and says how many bytes it were; 0 when there
    /// is no such file.
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize;
}

type Page = Arc<[u8; PAGE]>;

/// Memory of the process, with what a dump left out of files taken from the files where somebody provides them. What cannot be
/// read is `None`: to a reader of structures it is all the same why.
pub struct Memory<'i> {
    image: &'i dyn Image,
    files: Option<&'i dyn MissingFiles>,
    pages: RefCell<FxHashMap<u64, Option<Page>>>,
    most: usize,
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<'i> Memory<'i> {
    /// `cached_bytes` bounds the cache.
    #[must_use]
    pub fn new(image: &'i dyn Image, files: Option<&'i dyn MissingFiles>, cached_bytes: usize) -> Self {
        Self { image, files, pages: RefCell::default(), most: (cached_bytes / PAGE).max(PAGES_MIN) }
    }

    /// The image below.
    #[must_use]
    pub fn image(&self) -> &'i dyn Image {
        self.image
    }

    /// Fills `buffer` as far as there are bytes, through the cache, and says how many: for small reads that are repeated.
    #[must_use]
    pub fn read_available(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else { break };
            let within = (at % PAGE_SIZE) as usize;
            let count = (PAGE - within).min(rest.len());
            let Some(part) = rest.get_mut(..count) else { break };
            match self.page(at - within as u64) {
                Some(page) => part.copy_from_slice(page.get(within..within + count).unwrap_or_default()),
                // Part of the page only, or nothing of it.
                None => {
                    let read = self.fill(at, part);
                    if read < count {
                        return done + read;
                    }
                }
            }
            done += count;
        }
        done
    }

    /// Fills all of `buffer`, through the cache.
    #[must_use]
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.read_available(address, buffer) == buffer.len()
    }

    /// Up to `length` bytes, as many as there are in one piece, past the cache: for large reads that are done once. The caller
    /// bounds `length`.
    #[must_use]
    pub fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.fill(address, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    /// A number of 8 bytes.
    #[must_use]
    pub fn u64(&self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// A number of 4 bytes.
    #[must_use]
    pub fn u32(&self, address: u64) -> Option<u32> {
        self.array(address).map(u32::from_le_bytes)
    }

    /// A number of 4 bytes, with a sign.
    #[must_use]
    pub fn i32(&self, address: u64) -> Option<i32> {
        self.array(address).map(i32::from_le_bytes)
    }

    /// A number of 2 bytes.
    #[must_use]
    pub fn u16(&self, address: u64) -> Option<u16> {
        self.array(address).map(u16::from_le_bytes)
    }

    /// A byte.
    #[must_use]
    pub fn u8(&self, address: u64) -> Option<u8> {
        self.array::<1>(address).map(|[byte]| byte)
    }

    /// So many bytes.
    #[must_use]
    pub fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// A pointer that is not null.
    #[must_use]
    pub fn pointer(&self, address: u64) -> Option<u64> {
        self.u64(address).filter(|pointer| *pointer != 0)
    }

    /// `length` bytes as text, `None` when they are not all there; bytes that are no text are replaced. The caller bounds
    /// `length`.
    #[must_use]
    pub fn text(&self, address: u64, length: usize) -> Option<String> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Text up to the first zero byte, at most `limit` bytes; `None` when its first byte is not there.
    #[must_use]
    pub fn c_string(&self, address: u64, limit: usize) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < limit {
            let at = address.checked_add(text.len() as u64)?;
            let step = (PAGE - (at % PAGE_SIZE) as usize).min(limit - text.len()).min(128);
            let mut part = vec![0; step];
            let read = self.read_available(at, &mut part);
            let part = part.get(..read).unwrap_or_default();
            if read == 0 && text.is_empty() {
                return None;
            }
            match memchr::memchr(0, part) {
                Some(end) => {
                    text.extend_from_slice(part.get(..end).unwrap_or_default());
                    break;
                }
                None => text.extend_from_slice(part),
            }
            if read < step {
                break;
            }
        }
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// All of a range in pieces that overlap by `overlap` bytes, at most `most` bytes of it; what is missing is left out. `found` is
    /// given the address and the bytes of each piece, and ends the search with an answer.
    pub fn search<T>(
        &self,
        range: Range<u64>,
        overlap: usize,
        most: u64,
        mut found: impl FnMut(u64, &[u8]) -> Option<T>,
    ) -> Option<T> {
        let end = range.end.min(range.start.saturating_add(most));
        let mut at = range.start;
        while at < end {
            // A byte first: most of what a core lacks is whole files.
            if self.u8(at).is_none() {
                at = (at / PAGE_SIZE + 1).saturating_mul(PAGE_SIZE);
                continue;
            }
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let piece = self.bytes(at, length);
            if !piece.is_empty()
                && let Some(answer) = found(at, &piece)
            {
                return Some(answer);
            }
            let read = piece.len() as u64;
            if piece.len() < length {
                // On with the page behind what is missing.
                at = ((at + read) / PAGE_SIZE + 1).saturating_mul(PAGE_SIZE);
            } else if at + read >= end {
                break;
            } else {
                at += read.saturating_sub(overlap as u64).max(1);
            }
        }
        None
    }

    /// The first address in a range, a multiple of `align`, where `bytes` stand and `accept` has an answer.
    pub fn find<T>(
        &self,
        range: Range<u64>,
        bytes: &[u8],
        align: u64,
        most: u64,
        mut accept: impl FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        let finder = memchr::memmem::Finder::new(bytes);
        self.search(range, bytes.len(), most, |start, piece| {
            let mut hits = finder.find_iter(piece).map(|at| start + at as u64);
            hits.by_ref().filter(|at| at % align == 0).find_map(&mut accept)
        })
    }

    /// Whether something is mapped there.
    #[must_use]
    pub fn is_mapped(&self, address: u64) -> bool {
        mapping::find(self.image.mappings(), address).is_some()
    }

    /// Bytes of a range that the process may write.
    #[must_use]
    pub fn writable(&self, range: &Range<u64>) -> u64 {
        let mappings = self.image.mappings();
        let first = mappings.partition_point(|one| one.end <= range.start);
        let within = mappings.iter().skip(first).take_while(|one| one.start < range.end);
        within
            .filter(|one| one.protection.write)
            .map(|one| one.end.min(range.end).saturating_sub(one.start.max(range.start)))
            .fold(0, u64::saturating_add)
    }

    fn page(&self, start: u64) -> Option<Page> {
        if let Some(known) = self.pages.borrow().get(&start) {
            return known.clone();
        }
        let mut bytes = [0; PAGE];
        let page = (self.fill(start, &mut bytes) == PAGE).then(|| Arc::new(bytes));
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= self.most {
            pages.clear();
        }
        pages.insert(start, page.clone());
        page
    }

    /// Past the cache.
    fn fill(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.image.read_exact(at, rest) {
                Ok(()) => return buffer.len(),
                Err(ReadError::Missing { address: missing, why }) => {
                    // What came before the byte that is missing has been filled in.
                    done = usize::try_from(missing.wrapping_sub(address)).unwrap_or(done).max(done);
                    let rest = buffer.get_mut(done..).unwrap_or_default();
                    let more = self.read_file(missing, why, rest);
                    if more == 0 {
                        break;
                    }
                    done += more;
                }
                Err(_) => break,
            }
        }
        done.min(buffer.len())
    }

    /// What the dump left out and the file still has: text and constants. What the process wrote is in the dump or lost.
    fn read_file(&self, address: u64, why: Absence, buffer: &mut [u8]) -> usize {
        let Some(files) = self.files else { return 0 };
        let Some(InFile { path, offset, room }) = in_file(self.image.mappings(), Avma(address), why) else {
            return 0;
        };
        let room = room.min(buffer.len());
        let Some(part) = buffer.get_mut(..room) else { return 0 };
        files.read(path, offset, part).min(room)
    }
}

#[cfg(test)]
mod tests;
