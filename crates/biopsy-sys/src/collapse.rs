//! Turns memory of another process into huge pages (process_madvise(2), MADV_COLLAPSE, Linux 6.1).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;
use crate::pidfd::PidFd;
use biopsy_model::Avma;

/// `MADV_COLLAPSE` of `asm-generic/mman-common.h`.
const MADV_COLLAPSE: libc::c_int = 25;

/// Collapses `len` bytes from `address` on, both multiples of 2 MiB. The process goes on meanwhile; whoever touches that
/// memory waits until it is done (milliseconds).
///
/// # Errors
/// EINVAL where the memory cannot be in huge pages, or before Linux 6.1; EAGAIN and EBUSY when pages are in use just now;
/// ENOMEM without a free huge page, or for what is not mapped; EPERM without CAP_SYS_NICE and the right to look into the
/// process; ESRCH when it is gone.
pub fn collapse(process: &PidFd, address: Avma, len: u64) -> io::Result<()> {
    crate::fault::check("process_madvise")?;
    let too_large = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let range = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(address.0).map_err(too_large)?),
        iov_len: usize::try_from(len).map_err(too_large)?,
    };
    // SAFETY: process_madvise reads one iovec, which `range` is; the address in it is of another address space, and the
    // kernel checks it there. The descriptor is borrowed and so open.
    check(unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_fd().as_raw_fd(),
            &raw const range,
            1usize,
            MADV_COLLAPSE,
            0u32,
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_refused() {
        let process = PidFd::open(biopsy_model::Pid(std::process::id())).unwrap();
        assert!(collapse(&process, Avma(0x20_0000), 0x20_0000).is_err());
    }
}
