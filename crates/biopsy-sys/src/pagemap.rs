//! Which pages of an address space exist: the ioctl PAGEMAP_SCAN of `/proc/PID/pagemap` (Linux 6.7).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::check;

/// A page of a file, or of memory shared with others.
pub const FILE: u64 = 1 << 2;
/// It is in memory.
pub const PRESENT: u64 = 1 << 3;
/// It is in swap.
pub const SWAPPED: u64 = 1 << 4;
/// The page of zeros that reading untouched memory maps.
pub const ZERO: u64 = 1 << 5;
/// Mapped as part of a huge page.
pub const HUGE: u64 = 1 << 6;

/// `PAGEMAP_SCAN` of `linux/fs.h`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Neighbouring pages of the same categories (`struct page_region` of `linux/fs.h`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Which of the asked categories it has: [`FILE`], [`PRESENT`] ...
    pub categories: u64,
}

/// What to look for. A page matches when it has none of `without`, and at least one of `any`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// At least one of these; 0: whatever it has.
    pub any: u64,
    /// None of these.
    pub without: u64,
    /// Regions say these categories, and end where one of them changes.
    pub told: u64,
    /// At most so many matching pages in one call: a bound on how long the lock of the address space is held.
    pub pages: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[derive(Debug)]
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Looks for pages in `range` (page aligned) of the address space that `pagemap` was opened of. Returns how many of
/// `regions` were written, and where to go on: `range.end` when all was seen.
///
/// # Errors
/// ENOTTY before Linux 6.7; EINVAL for a range that is not aligned or not of user space.
pub fn scan(
    pagemap: &File,
    range: Range<u64>,
    wanted: Wanted,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    crate::fault::check("PAGEMAP_SCAN")?;
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        flags: 0,
        start: range.start,
        end: range.end,
        walk_end: 0,
        vec: regions.as_mut_ptr().expose_provenance() as u64,
        vec_len: regions.len() as u64,
        max_pages: wanted.pages,
        category_inverted: wanted.without,
        category_mask: wanted.without,
        category_anyof_mask: wanted.any,
        return_mask: wanted.told,
    };
    loop {
        // SAFETY: PAGEMAP_SCAN reads and writes one `pm_scan_arg`, which `arguments` is and whose size it says, and
        // writes at most `vec_len` regions to `vec`: `regions` has that many, is exclusively borrowed for the call,
        // and any bytes are a valid `Region`.
        let found = check(unsafe {
            libc::syscall(libc::SYS_ioctl, pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments)
        });
        match found {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(found) => {
                let found = usize::try_from(found).unwrap_or(0).min(regions.len());
                return Ok((found, arguments.walk_end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_found() {
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let memory = vec![1u8; 64 * 4096];
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(4096);
        let range = start..start + 32 * 4096;
        let wanted =
            Wanted { any: PRESENT | SWAPPED, without: FILE | ZERO, told: PRESENT | SWAPPED, pages: 0 };
        let mut regions = [Region::default(); 8];
        match scan(&pagemap, range.clone(), wanted, &mut regions) {
            Ok((found, end)) => {
                assert_eq!(end, range.end);
                let pages: u64 = regions[..found].iter().map(|one| (one.end - one.start) / 4096).sum();
                assert_eq!(pages, 32);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "a kernel before 6.7"),
        }
        drop(memory);
    }
}
