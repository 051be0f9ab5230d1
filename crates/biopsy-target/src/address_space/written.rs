//! Which pages a process has made.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use biopsy_image::{Absence, Backing, Mapping, PAGE_SIZE, ReadError};
use biopsy_sys::pagemap::{self, FILE, HUGE, PRESENT, Region, SWAPPED, Wanted, ZERO};
use rustix::io::{pread, retry_on_intr};

use super::memory::{ProcessMemory, missing};
use super::shared;

/// Most matching pages in one call: 64 MiB, for which the lock of the address space is held about half a millisecond.
pub(super) const PAGES: u64 = 16 << 10;
/// Most of an address space that is walked in one call where somebody waits: a million entries, some 20 ms if all are there.
const WALK: u64 = 4 << 30;
/// Regions in one call; the kernel gathers no more than 512 at a time.
const REGIONS: usize = 512;

impl ProcessMemory {
    /// Appends to `runs` the parts of `range`, a part of `mapping`, whose bytes may differ from zero or from the mapped
    /// file, by address and not touching each other, cut to `range`:
    ///
    /// - private memory: pages that the process has written (swapped ones too). Of a private mapping of a file, these
    ///   are its own copies; the others are as in the file. Pages of zeros that were only ever read do not count.
    /// - shared memory (`memfd`, `/dev/shm`, System V, shared anonymous): all pages that exist, whoever made them.
    ///   A frozen copy made by fork does not have them in its page tables, they are found all the same where the
    ///   kernel lets us look (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE); else ask the live process.
    /// - shared mappings of other files: up to the end of the file.
    /// - what the kernel made: `[vdso]`; the rest cannot be read. Devices: nothing.
    ///
    /// # Errors
    /// [`Absence::Gone`] after the end of the process; `Io` when `/proc` fails otherwise.
    pub fn written(
        &self,
        mapping: &Mapping,
        range: Range<u64>,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), ReadError> {
        let range = range.start.max(mapping.start)..range.end.min(mapping.end);
        if range.is_empty() {
            return Ok(());
        }
        match &mapping.backing {
            Backing::Kernel { label } => {
                if label == "[vdso]" {
                    push(runs, range);
                }
                Ok(())
            }
            Backing::Unknown => {
                push(runs, range);
                Ok(())
            }
            Backing::File { .. } if mapping.shared => {
                match shared::data(&self.process, self.mounts(), mapping) {
                    shared::Data::At(data) => {
                        for part in data {
                            push_cut(runs, part, &range);
                        }
                        Ok(())
                    }
                    shared::Data::AskPageTables => {
                        self.present(range, Wanted { without: 0, ..WRITTEN }, runs)
                    }
                }
            }
            Backing::Anonymous { .. } | Backing::File { .. } => self.present(range, WRITTEN, runs),
        }
    }

    /// [`Self::written`] of private memory, for no longer than until `deadline`: terabytes may be reserved, and kernels before
    /// 6.7 tell of each page. Returns how far it saw: to the end of the mapping, if there was time.
    pub(crate) fn written_until(
        &self,
        mapping: &Mapping,
        runs: &mut Vec<Range<u64>>,
        deadline: Instant,
    ) -> Result<u64, ReadError> {
        let range = mapping.range();
        if matches!(mapping.backing, Backing::Kernel { .. } | Backing::Unknown) {
            return self.written(mapping, range, runs).map(|()| mapping.end);
        }
        let push = |region: Region| push_cut(runs, region.start..region.end, &range);
        self.regions_until(range.clone(), WRITTEN, Some(deadline), push)
    }

    fn present(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), ReadError> {
        self.regions(range.clone(), wanted, |region| push_cut(runs, region.start..region.end, &range))
    }

    /// Calls `each` for all regions of matching pages that `range` touches.
    pub(super) fn regions(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        each: impl FnMut(Region),
    ) -> Result<(), ReadError> {
        self.regions_until(range, wanted, None, each).map(drop)
    }

    /// The same until the time is over, where there is one; returns how far it saw.
    fn regions_until(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        deadline: Option<Instant>,
        mut each: impl FnMut(Region),
    ) -> Result<u64, ReadError> {
        let end = range.end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(range.end);
        let mut at = range.start - range.start % PAGE_SIZE;
        let mut regions = vec![Region::default(); REGIONS];
        while at < end {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(at);
            }
            let end = deadline.map_or(end, |_| end.min(at.saturating_add(WALK)));
            if self.no_scan.load(Ordering::Relaxed) {
                at = self.entries(at..end, wanted, &mut each)?;
                continue;
            }
            match pagemap::scan(&self.pagemap, at..end, wanted, &mut regions) {
                Ok((found, seen_to)) => {
                    regions.iter().take(found).copied().for_each(&mut each);
                    if seen_to <= at {
                        break;
                    }
                    at = seen_to;
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTTY.raw_os_error()) => {
                    self.no_scan.store(true, Ordering::Relaxed);
                }
                Err(_) if !self.is_there() => return Err(missing(range.start, Absence::Gone)),
                // Whatever the kernel has against it this time, the other way tells the same.
                Err(_) => at = self.entries(at..end, wanted, &mut each)?,
            }
        }
        // The tables of an address space that is gone are empty, and no error.
        if self.is_there() { Ok(end) } else { Err(missing(range.start, Absence::Gone)) }
    }

    /// The same by reading `pagemap`, eight bytes for each page (Documentation/admin-guide/mm/pagemap.rst), a part at a
    /// time; returns where it stopped. Cannot tell pages of zeros and huge pages: they are told as others are.
    fn entries(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        each: &mut impl FnMut(Region),
    ) -> Result<u64, ReadError> {
        const ENTRIES: u64 = 16 << 10;
        let pages = ((range.end - range.start) / PAGE_SIZE).min(ENTRIES);
        let mut bytes = vec![0; usize::try_from(pages * 8).unwrap_or(0)];
        let io = |source| ReadError::Io { address: range.start, source };
        let from = range.start / PAGE_SIZE * 8;
        let read =
            retry_on_intr(|| pread(&self.pagemap, &mut *bytes, from)).map_err(|error| io(error.into()))?;
        let mut at = range.start;
        let mut region = Region::default();
        for entry in bytes.get(..read).unwrap_or_default().as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*entry);
            let bit = |bit: u32, category| if entry >> bit & 1 == 1 { category } else { 0 };
            let has = bit(63, PRESENT) | bit(62, SWAPPED) | bit(61, FILE);
            let next = at.saturating_add(PAGE_SIZE);
            if has & wanted.without == 0 && has & wanted.any != 0 {
                let categories = has & wanted.told;
                if region.end == at && region.categories == categories && region.start < region.end {
                    region.end = next;
                } else {
                    if region.start < region.end {
                        each(region);
                    }
                    region = Region { start: at, end: next, categories };
                }
            }
            at = next;
        }
        if region.start < region.end {
            each(region);
        }
        // At the end of user space the kernel reads less, or nothing: the rest is not there.
        Ok(if at == range.start { range.end } else { at })
    }
}

/// Pages of private memory that the process made.
pub(super) const WRITTEN: Wanted =
    Wanted { any: PRESENT | SWAPPED, without: FILE | ZERO, told: PRESENT | SWAPPED, pages: PAGES };
/// All pages of private memory, by kind.
pub(super) const BY_KIND: Wanted =
    Wanted { any: PRESENT | SWAPPED, without: 0, told: PRESENT | SWAPPED | FILE | ZERO | HUGE, pages: PAGES };

fn push_cut(runs: &mut Vec<Range<u64>>, part: Range<u64>, range: &Range<u64>) {
    push(runs, part.start.max(range.start)..part.end.min(range.end));
}

fn push(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    if run.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}
