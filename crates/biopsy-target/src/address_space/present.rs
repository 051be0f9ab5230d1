//! How many pages there are: what a copy by fork costs.

use std::ops::Range;
use std::sync::atomic::Ordering;

use biopsy_image::{Backing, Mapping, PAGE_SIZE, ReadError};
use biopsy_sys::pagemap::{FILE, HUGE, PRESENT, Region, SWAPPED, ZERO};

use super::memory::ProcessMemory;
use super::written::BY_KIND;
use crate::process::proc_root::SMALL;

/// Bytes of a huge page on x86-64.
const HUGE_PAGE: u64 = 2 << 20;

/// Pages in the page tables that fork copies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PresentCounts {
    /// Private pages of 4 KiB that the process wrote.
    pub pages_4k: u64,
    /// Private huge pages of 2 MiB.
    pub huge_pages: u64,
    /// Private pages that are in swap, 4 KiB each.
    pub swapped: u64,
    /// Pages of files and pages of zeros, in mappings that fork copies because the process wrote other pages of them.
    pub others: u64,
    /// Mappings.
    pub mappings: u64,
    /// Counted page by page; else taken from the kernel's sums, which cannot tell `others`.
    pub exact: bool,
}

impl PresentCounts {
    /// Bytes of memory that are the process's own: what the rest of the machine pays for twice, if the process writes
    /// to all of it while a copy exists.
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        self.pages_4k
            .saturating_mul(PAGE_SIZE)
            .saturating_add(self.huge_pages.saturating_mul(HUGE_PAGE))
            .saturating_add(self.swapped.saturating_mul(PAGE_SIZE))
    }

    /// Entries of page tables of the lowest level that fork has to copy one by one.
    #[must_use]
    pub fn small_entries(&self) -> u64 {
        self.pages_4k.saturating_add(self.swapped).saturating_add(self.others)
    }
}

impl ProcessMemory {
    /// Counts the pages of private memory in these mappings that fork copies the entries of.
    ///
    /// The page tables are walked in parts, each well under a millisecond (some 30 ns for each page).
    ///
    /// # Errors
    /// As [`ProcessMemory::written`].
    pub fn present_counts(&self, mappings: &[Mapping]) -> Result<PresentCounts, ReadError> {
        let mut counts = PresentCounts { exact: true, ..PresentCounts::default() };
        for mapping in mappings {
            counts.mappings += 1;
            let memory = matches!(mapping.backing, Backing::Anonymous { .. } | Backing::File { .. });
            if mapping.shared || !memory || self.is_only_reserved(mapping) {
                continue;
            }
            let mut here = PresentCounts::default();
            self.regions(mapping.range(), BY_KIND, |region| add(&mut here, region))?;
            // Fork copies the tables of a mapping only where the process has pages of its own in it
            // (`vma_needs_copy` in `mm/memory.c`).
            if here.own_bytes() > 0 || (mapping.is_anonymous() && here.others > 0) {
                counts.pages_4k += here.pages_4k;
                counts.huge_pages += here.huge_pages;
                counts.swapped += here.swapped;
                counts.others += here.others;
            }
        }
        if self.no_scan.load(Ordering::Relaxed) {
            self.use_sums(&mut counts);
        }
        Ok(counts)
    }

    /// Whether it is not worth asking for: where the kernel tells of each page, there or not, terabytes that a program has
    /// reserved would take minutes.
    fn is_only_reserved(&self, mapping: &Mapping) -> bool {
        const LARGE: u64 = 256 << 20;
        let may = mapping.protection;
        self.no_scan.load(Ordering::Relaxed)
            && !(may.read || may.write || may.execute)
            && mapping.size() >= LARGE
    }

    /// Appends to `runs` the private pages of a mapping that are in memory and not part of huge pages.
    ///
    /// # Errors
    /// As [`ProcessMemory::written`].
    pub(crate) fn small_pages(&self, mapping: &Mapping, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.regions(mapping.range(), BY_KIND, |region| {
            if region.categories & (FILE | ZERO | HUGE | SWAPPED) == 0 {
                runs.push(region.start..region.end);
            }
        })
    }

    /// Before Linux 6.7 the page tables cannot be asked for huge pages; `smaps_rollup` sums them up.
    fn use_sums(&self, counts: &mut PresentCounts) {
        counts.exact = false;
        let huge = self
            .process
            .read("smaps_rollup", SMALL)
            .ok()
            .and_then(|text| kib(&text, "AnonHugePages"))
            .map_or(0, |kib| kib / (HUGE_PAGE >> 10));
        counts.huge_pages = huge;
        counts.pages_4k = counts.pages_4k.saturating_sub(huge.saturating_mul(HUGE_PAGE / PAGE_SIZE));
    }
}

fn add(counts: &mut PresentCounts, region: Region) {
    let pages = region.end.saturating_sub(region.start) / PAGE_SIZE;
    let is = |category| region.categories & category != 0;
    if is(FILE) || is(ZERO) {
        counts.others += if is(HUGE) { pages.div_ceil(512) } else { pages };
    } else if is(SWAPPED) && !is(PRESENT) {
        counts.swapped += pages;
    } else if is(HUGE) {
        counts.huge_pages += pages / 512;
        counts.pages_4k += pages % 512;
    } else {
        counts.pages_4k += pages;
    }
}

/// The number behind `name:` in a text of lines `Name:   12 kB`.
pub(crate) fn kib(text: &[u8], name: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then(|| value.split_ascii_whitespace().next()?.parse().ok())?
    })
}
