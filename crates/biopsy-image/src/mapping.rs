//! Mappings of an address space.

use std::ops::Range;

/// The most that lies between two mappings of one module whose program headers are not there, in bytes: linkers align
/// segments to 2 MiB at the most, and what a loader leaves free between them is smaller than this.
pub const MODULE_GAP: u64 = 16 << 20;

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Protection {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

/// What is behind a mapping.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Backing {
    /// Nothing but memory: heaps, stacks. The label is the kernel's (`[heap]`, `[stack]`, `[anon:name]`), or empty.
    Anonymous {
        /// As in `/proc/PID/maps`, without more.
        label: String,
    },
    /// A file. Memory shared by `memfd_create` and System V is one too.
    File {
        /// As the process saw it, bytes as they are; without ` (deleted)`.
        path: Vec<u8>,
        /// Offset in bytes of the mapping's start in the file.
        offset: u64,
        /// The name was gone when it was looked at.
        deleted: bool,
        /// Device and inode, where known (0, 0 where not).
        identity: (u64, u64),
    },
    /// Made by the kernel: `[vdso]`, `[vvar]`, `[vsyscall]`.
    Kernel {
        /// The kernel's name for it.
        label: String,
    },
    /// A dump that does not say.
    Unknown,
}

/// One range of addresses with one kind of memory behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What is allowed.
    pub protection: Protection,
    /// Writes are seen by others who map the same (`MAP_SHARED`).
    pub shared: bool,
    /// What is behind it.
    pub backing: Backing,
    /// A copy made by fork does not have it as it is (`MADV_DONTFORK`, `MADV_WIPEONFORK`): it was, or is to be, read
    /// from the running process and is not of the same moment as the rest.
    pub not_frozen: bool,
}

impl Mapping {
    /// Its addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the address is inside.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Path of the file behind it, if one is.
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        match &self.backing {
            Backing::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether only memory is behind it.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        matches!(self.backing, Backing::Anonymous { .. })
    }
}

/// Whether a path in `/proc/PID/maps` or NT_FILE is of memory that no disk has: memfd, System V, shared anonymous memory,
/// `/dev/shm`, huge pages (`mm/shmem.c`, `mm/memfd.c`, `ipc/shm.c`, `fs/hugetlbfs` of the kernel).
#[must_use]
pub fn is_memory_file(path: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 5] = [b"/memfd:", b"/SYSV", b"/dev/zero", b"/dev/shm/", b"/anon_hugepage"];
    BEGINNINGS.iter().any(|beginning| path.starts_with(beginning))
}

/// The mapping that holds `address`, in a list by address.
#[must_use]
pub fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = mappings.partition_point(|one| one.start <= address);
    mappings.get(after.checked_sub(1)?).filter(|one| one.contains(address))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_mapping_that_is_found_is_the_one_that_holds_the_address(
            rows in prop::collection::vec((0..6_u64, 1..9_u64), 0..12), last in any::<bool>(), asked in 0..200_u64,
        ) {
            let mut end = 0;
            let mut mappings: Vec<Mapping> = rows.into_iter().map(|(gap, length)| {
                let start = end + gap;
                end = start + length;
                Mapping {
                    start,
                    end,
                    protection: Protection::default(),
                    shared: false,
                    backing: Backing::Unknown,
                    not_frozen: false,
                }
            }).collect();
            if let Some(mapping) = mappings.last_mut().filter(|_| last) {
                mapping.end = u64::MAX;
            }
            for address in [asked, u64::MAX - asked, u64::MAX] {
                let held = mappings.iter().find(|one| one.start <= address && address < one.end);
                prop_assert_eq!(find(&mappings, address), held, "address {}", address);
            }
        }
    }

    #[test]
    fn files_that_no_disk_has_are_known_by_how_their_names_begin() {
        for path in ["/memfd:x (deleted)", "/SYSV00000000", "/dev/zero", "/dev/shm/a", "/anon_hugepage"] {
            assert!(is_memory_file(path.as_bytes()), "{path}");
        }
        for path in ["", "/", "memfd:x", "/dev/shm", "/dev/null", "/home/dev/zero", "/usr/lib/libc.so.6"] {
            assert!(!is_memory_file(path.as_bytes()), "{path}");
        }
    }
}
