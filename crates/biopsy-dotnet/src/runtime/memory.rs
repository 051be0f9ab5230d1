//! Memory of the process, cached.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_image::{Absence, Image, ImageModule, InFile, MemoryExt, PAGE_SIZE, ReadError, in_file};
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::MissingFiles;
use super::local_files::begins_file;
use super::relocations::Relocations;

const PAGE: usize = PAGE_SIZE as usize;
/// Pages that are read at once when the first of them is missing in the cache: neighbours are asked for soon.
const AHEAD: usize = 4;
/// Files whose relocations are kept.
const RELOCATED: usize = 64;
/// Fewest pages that are kept, whatever is asked for.
const PAGES_MIN: usize = 64;

type Page = Arc<[u8; PAGE]>;

/// Memory of the process behind a cache of pages. Reads that are missing in the image come from the files that were mapped
/// there, where somebody provides them ([`super::Options::files`]).
pub(crate) struct Memory<'i> {
    image: Box<dyn Image + 'i>,
    files: Option<Arc<dyn MissingFiles>>,
    pages: Mutex<FxHashMap<u64, Page>>,
    /// Of files that were read from, by path.
    relocations: Mutex<FxHashMap<Vec<u8>, Arc<Relocations>>>,
    most: usize,
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<'i> Memory<'i> {
    /// `cached_bytes` bounds the cache.
    pub(crate) fn new(
        image: Box<dyn Image + 'i>,
        files: Option<Arc<dyn MissingFiles>>,
        cached_bytes: usize,
    ) -> Self {
        let most = (cached_bytes / PAGE).max(PAGES_MIN);
        let (pages, relocations) = (Mutex::default(), Mutex::default());
        Self { image, files, pages, relocations, most }
    }

    /// The image below.
    #[must_use]
    pub(crate) fn image(&self) -> &(dyn Image + 'i) {
        &*self.image
    }

    /// Fills all of `buffer`, through the cache: for small reads that are repeated.
    ///
    /// # Errors
    /// The address of the first byte that is missing, and why.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let within = (at % PAGE_SIZE) as usize;
            let count = (PAGE - within).min(buffer.len() - done);
            let part = &mut buffer[done..done + count];
            match self.page(at - within as u64) {
                Some(page) => part.copy_from_slice(&page[within..within + count]),
                // Part of the page only, or nothing of it.
                None => self.read_bulk(at, part)?,
            }
            done += count;
        }
        Ok(())
    }

    /// Fills `buffer` as far as there are bytes, through the cache, and says how many.
    pub(super) fn read_available(&self, address: u64, buffer: &mut [u8]) -> usize {
        match self.read(address, buffer) {
            Ok(()) => buffer.len(),
            Err(ReadError::Missing { address: missing, .. }) => {
                usize::try_from(missing.wrapping_sub(address)).unwrap_or(0).min(buffer.len())
            }
            Err(_) => 0,
        }
    }

    /// Fills all of `buffer`, past the cache: for large reads that are done once.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn read_bulk(&self, address: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            match self.image.read_exact(at, &mut buffer[done..]) {
                Ok(()) => return Ok(()),
                Err(ReadError::Missing { address: missing, why }) => {
                    // What came before the byte that is missing has been filled in.
                    done = usize::try_from(missing.wrapping_sub(address)).unwrap_or(done).max(done);
                    let rest = buffer.get_mut(done..).unwrap_or_default();
                    let more = self.read_file(missing, why, rest);
                    if more == 0 {
                        return Err(ReadError::Missing { address: missing, why });
                    }
                    done += more;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Up to `length` bytes, as many as there are in one piece. The caller bounds `length`.
    ///
    /// # Errors
    /// As [`Memory::read`], when the first byte is missing.
    pub(crate) fn read_up_to(&self, address: u64, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        match self.read_bulk(address, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(ReadError::Missing { address: missing, .. }) if missing > address => {
                bytes.truncate(usize::try_from(missing - address).unwrap_or(0));
                Ok(bytes)
            }
            Err(error) => Err(error),
        }
    }

    /// A number of 8 bytes.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn u64(&self, address: u64) -> Result<u64, ReadError> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// A number of 4 bytes.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn u32(&self, address: u64) -> Result<u32, ReadError> {
        self.array(address).map(u32::from_le_bytes)
    }

    /// A number of 2 bytes.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn u16(&self, address: u64) -> Result<u16, ReadError> {
        self.array(address).map(u16::from_le_bytes)
    }

    /// A byte.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn u8(&self, address: u64) -> Result<u8, ReadError> {
        self.array::<1>(address).map(|[byte]| byte)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// So many numbers of 8 bytes in a row.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn words<const N: usize>(&self, address: u64) -> Result<[u64; N], ReadError> {
        let mut words = [0; N];
        for (number, word) in words.iter_mut().enumerate() {
            *word = self.u64(address.wrapping_add(number as u64 * 8))?;
        }
        Ok(words)
    }

    /// Bytes up to the first zero byte (not included), at most `limit`.
    ///
    /// # Errors
    /// As [`Memory::read`], when the first byte is missing.
    pub(crate) fn c_string(&self, address: u64, limit: usize) -> Result<Vec<u8>, ReadError> {
        let mut text = Vec::new();
        while text.len() < limit {
            let at = address.wrapping_add(text.len() as u64);
            let step = (PAGE - (at % PAGE_SIZE) as usize).min(limit - text.len()).min(256);
            let start = text.len();
            text.resize(start + step, 0);
            if let Err(error) = self.read(at, &mut text[start..]) {
                text.truncate(start);
                if start == 0 {
                    return Err(error);
                }
                break;
            }
            if let Some(end) = text[start..].iter().position(|&byte| byte == 0) {
                text.truncate(start + end);
                break;
            }
        }
        Ok(text)
    }

    /// Forgets what was read: a process that goes on running may have changed it.
    pub(crate) fn forget(&self) {
        self.pages().clear();
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, FxHashMap<u64, Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A whole page, if all of it is there.
    fn page(&self, start: u64) -> Option<Page> {
        if let Some(page) = self.pages().get(&start) {
            return Some(Arc::clone(page));
        }
        // Not under the lock: reading may take long, and two who read the same do no harm.
        let mut buffer = [0u8; PAGE * AHEAD];
        let there = self.image.read(start, &mut buffer).unwrap_or(0);
        let whole = if there >= PAGE {
            there / PAGE
        } else {
            self.read_bulk(start, &mut buffer[..PAGE]).ok()?;
            1
        };
        let mut pages = self.pages();
        if pages.len() + whole > self.most {
            pages.clear();
        }
        let mut first = None;
        for (number, bytes) in buffer.as_chunks::<PAGE>().0.iter().take(whole).enumerate() {
            let page = Arc::new(*bytes);
            first.get_or_insert_with(|| Arc::clone(&page));
            pages.insert(start + (number * PAGE) as u64, page);
        }
        first
    }

    /// What the file that is mapped there has: how many bytes. Only of pages that the process cannot have changed since, as far
    /// as the image tells: what the file has of the others is old, and looks like memory.
    fn read_file(&self, address: u64, why: Absence, buffer: &mut [u8]) -> usize {
        let Some(files) = &self.files else { return 0 };
        let Some(InFile { path, offset, room }) = in_file(self.image.mappings(), Avma(address), why) else {
            return 0;
        };
        let room = room.min(buffer.len());
        let count = files.read(path, offset, &mut buffer[..room]).min(room);
        // A file may be mapped more than once, and an assembly inside of a program is not what the loader wrote to.
        let is_there = |module: &&ImageModule| {
            (module.start..module.end).contains(&address)
                && module.path == path
                && begins_file(&*self.image, module)
        };
        if let Some(module) = self.image.modules().iter().find(is_there) {
            let relocations = self.relocations(&**files, path);
            relocations.apply(module.start, address.wrapping_sub(module.start), &mut buffer[..count]);
        }
        count
    }

    fn relocations(&self, files: &dyn MissingFiles, path: &[u8]) -> Arc<Relocations> {
        let lock = || self.relocations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(path) {
            return Arc::clone(known);
        }
        let read = Arc::new(Relocations::read(files, path));
        let mut all = lock();
        if all.len() >= RELOCATED {
            all.clear();
        }
        all.insert(path.to_vec(), Arc::clone(&read));
        read
    }
}

#[cfg(test)]
mod tests {
    use biopsy_image::{Backing, Mapping, ProcessFacts, Protection, Thread};

    use super::*;

    /// A mapping of a file that lacks all of its bytes, for one reason.
    struct Lacking(Absence, [Mapping; 1], ProcessFacts);

    impl Image for Lacking {
        fn read(&self, address: u64, _: &mut [u8]) -> Result<usize, ReadError> {
            Err(ReadError::Missing { address, why: self.0 })
        }

        fn mappings(&self) -> &[Mapping] {
            &self.1
        }

        fn threads(&self) -> &[Thread] {
            &[]
        }

        fn modules(&self) -> &[ImageModule] {
            &[]
        }

        fn process(&self) -> &ProcessFacts {
            &self.2
        }
    }

    /// The same, but each second page is there and filled with ones.
    struct Striped(Lacking);

    impl Image for Striped {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
            if (address / PAGE_SIZE).is_multiple_of(2) {
                return self.0.read(address, buffer);
            }
            let count = buffer.len().min((PAGE_SIZE - address % PAGE_SIZE) as usize);
            buffer[..count].fill(1);
            Ok(count)
        }

        fn mappings(&self) -> &[Mapping] {
            self.0.mappings()
        }

        fn threads(&self) -> &[Thread] {
            &[]
        }

        fn modules(&self) -> &[ImageModule] {
            &[]
        }

        fn process(&self) -> &ProcessFacts {
            self.0.process()
        }
    }

    struct Sevens;

    impl MissingFiles for Sevens {
        fn read(&self, _: &[u8], _: u64, buffer: &mut [u8]) -> usize {
            buffer.fill(7);
            buffer.len()
        }
    }

    fn mapping(write: bool) -> Mapping {
        Mapping {
            start: 0x10_0000,
            end: 0x20_0000,
            protection: Protection { read: true, write, execute: !write },
            shared: false,
            backing: Backing::File {
                path: b"/lib/a.so".to_vec(),
                offset: 0,
                deleted: false,
                identity: (0, 0),
            },
            not_frozen: false,
        }
    }

    /// What the process wrote is not in the file: the file's bytes would be old, and look like memory.
    #[test]
    fn only_pages_that_were_not_changed_are_read_from_files() {
        let filled = |why, write| {
            let image = Lacking(why, [mapping(write)], ProcessFacts::default());
            let memory = Memory::new(Box::new(image), Some(Arc::new(Sevens)), 0);
            match memory.u8(0x10_0010) {
                Ok(byte) => byte == 7,
                Err(ReadError::Missing { why: told, .. }) => {
                    assert_eq!(told, why);
                    false
                }
                Err(error) => panic!("{error}"),
            }
        };
        let both = |why| (filled(why, false), filled(why, true));
        assert_eq!(both(Absence::LeftOut), (true, true));
        assert_eq!(both(Absence::NotOfKind), (true, false));
        for why in [Absence::OverLimit, Absence::NoTime, Absence::Truncated, Absence::Gone] {
            assert_eq!(both(why), (false, false), "{why}");
        }
    }

    /// A large read goes over pages of both kinds.
    #[test]
    fn a_file_stands_in_for_missing_pages_only() {
        let image = Striped(Lacking(Absence::LeftOut, [mapping(true)], ProcessFacts::default()));
        let memory = Memory::new(Box::new(image), Some(Arc::new(Sevens)), 0);
        let mut bytes = vec![0; 4 * PAGE];
        memory.read_bulk(0x10_0010, &mut bytes).expect("all of it is there");
        let expected = |at: usize| if ((at + 0x10) / PAGE).is_multiple_of(2) { 7 } else { 1 };
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
    }
}
