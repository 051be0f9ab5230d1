//! Memory that is there before it is needed: touched, and locked where that is allowed.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A buffer whose every page exists, so that writing to it never waits for the kernel to find one. It is left out of
/// core dumps of ourselves and is not shared with children: it holds what another process had in memory.
#[derive(Debug)]
pub struct LockedBuffer {
    start: NonNull<u8>,
    len: usize,
    locked: bool,
}

// SAFETY: the mapping is plain memory that belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for LockedBuffer {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for LockedBuffer {}

impl LockedBuffer {
    /// A buffer of `len` bytes, all zero. Takes some 0.3 ms for each MiB.
    ///
    /// # Errors
    /// ENOMEM when there is not so much; EINVAL for no bytes at all.
    pub fn new(len: usize) -> io::Result<Self> {
        crate::fault::check("mmap")?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a null hint lets the kernel choose unused addresses, so no existing memory is affected.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::Other))?;
        let mut buffer = Self { start, len, locked: false };
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
            // Refused by kernels without it: the buffer is good all the same.
            // SAFETY: start and length are those of the mapping made above, which these do not take away.
            unsafe { libc::madvise(address, len, advice) };
        }
        buffer.fill(0);
        // SAFETY: as above; locking changes nothing in the contents.
        buffer.locked = unsafe { libc::mlock(address, len) } == 0;
        Ok(buffer)
    }
}

impl Deref for LockedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes, readable, initialised (anonymous memory is zero), and lives as long as
        // `self`; who writes has `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for LockedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for LockedBuffer {
    fn drop(&mut self) {
        // SAFETY: start and length are those of one mmap call, and nothing refers to the memory any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_written_and_read() {
        let mut buffer = LockedBuffer::new(3 << 20).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[(3 << 20) - 1] = 7;
        assert_eq!(buffer.last(), Some(&7));
        assert_eq!(LockedBuffer::new(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
