//! A shared memory mapping that is unmapped when dropped.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// A shared mapping of a kernel object. Gives out raw pointers only: the kernel writes to it at any time, so a
/// Rust reference into it would be wrong.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that belongs to this value; nothing in it is tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset` on, shared, readable and on request writable.
    pub(crate) fn shared(fd: BorrowedFd<'_>, len: usize, offset: i64, writable: bool) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        crate::fault::check("mmap")?;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a null hint lets the kernel choose unused addresses, so no existing memory is affected; `fd` is
        // borrowed and so open.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::Other))?;
        Ok(Self { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Pointer to `offset`, which must lie inside the mapping.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len, "offset {offset} is outside the mapping of {} bytes", self.len);
        // SAFETY: `offset < len` was checked, so the result stays inside this one mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Copies `out.len()` bytes from `offset` on.
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        let end = offset.checked_add(out.len()).expect("lengths of mappings do not overflow");
        assert!(end <= self.len, "end {end} is outside the mapping of {} bytes", self.len);
        // SAFETY: source range was checked against the mapping, `out` is exclusively ours, and they cannot overlap
        // because the kernel chose fresh addresses for the mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset).cast_const(), out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of one mmap call, and nothing refers to the memory any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
