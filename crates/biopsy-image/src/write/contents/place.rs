//! What kind of memory a mapping is, as far as the writer is concerned.

use crate::mapping::is_memory_file;
use crate::{Backing, Mapping};

/// Where the bytes of a mapping are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the process only.
    Memory,
    /// In a file that is memory: memfd, System V, `/dev/shm`, shared anonymous memory. Nobody else will have it.
    MemoryFile,
    /// In a file that may be there elsewhere.
    File,
    /// In the kernel's own code for processes, readable.
    Kernel,
    /// In a device: reading it may do something.
    Device,
    /// Nowhere: the process may not read it.
    Unreadable,
}

impl Place {
    pub(super) fn of(mapping: &Mapping) -> Self {
        if !mapping.protection.read {
            return Self::Unreadable;
        }
        match &mapping.backing {
            Backing::Anonymous { .. } | Backing::Unknown => Self::Memory,
            // [vvar] belongs to the kernel's clock and cannot be read from outside; [vsyscall] is not the process's.
            Backing::Kernel { label } if label == "[vdso]" => Self::Kernel,
            Backing::Kernel { .. } => Self::Unreadable,
            Backing::File { path, .. } if is_memory_file(path) => Self::MemoryFile,
            Backing::File { path, .. } if path.starts_with(b"/dev/") => Self::Device,
            // io_uring, perf rings, dma-buf: `anon_inode:[name]`, with a slash in front on some kernels.
            Backing::File { path, .. }
                if path.starts_with(b"anon_inode:") || path.starts_with(b"/anon_inode:") =>
            {
                Self::Device
            }
            Backing::File { deleted: true, .. } if mapping.shared => Self::MemoryFile,
            Backing::File { .. } => Self::File,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protection;

    #[test]
    fn memory_with_a_name_is_memory_and_devices_are_left_alone() {
        let place = |path: &[u8], shared, deleted, read| {
            Place::of(&Mapping {
                start: 0,
                end: 0x1000,
                protection: Protection { read, write: true, execute: false },
                shared,
                backing: Backing::File { path: path.to_vec(), offset: 0, deleted, identity: (0, 1) },
                not_frozen: false,
            })
        };
        assert_eq!(place(b"/memfd:doublemapper", true, true, true), Place::MemoryFile);
        assert_eq!(place(b"/memfd:doublemapper", true, true, false), Place::Unreadable);
        assert_eq!(place(b"/dev/zero", true, true, true), Place::MemoryFile);
        assert_eq!(place(b"/dev/shm/postgres", true, false, true), Place::MemoryFile);
        assert_eq!(place(b"/dev/dri/card0", true, false, true), Place::Device);
        assert_eq!(place(b"anon_inode:[io_uring]", true, false, true), Place::Device);
        assert_eq!(place(b"/usr/lib/libc.so.6", false, false, true), Place::File);
        assert_eq!(place(b"/tmp/gone", true, true, true), Place::MemoryFile, "nobody else has it");
        assert_eq!(place(b"/usr/lib/old.so", false, true, true), Place::File);
    }
}
