//! Memory of another process, read without stopping it, or written while it stands still.

use std::io;

use biopsy_model::{Avma, Tid};

use crate::check;

/// Copies memory of the process of a thread from `address` on into `out` and returns the number of bytes that could be
/// read: fewer than asked for where an unmapped page follows (process_vm_readv(2)).
///
/// The process runs on: the bytes are a copy of something that may change while it is copied. Callers compare a
/// version before and after where they need a consistent view.
///
/// # Errors
/// EPERM without the right to trace the process, ESRCH when it is gone, EFAULT when `address` is not mapped.
pub fn read(of: impl Into<Tid>, address: Avma, out: &mut [u8]) -> io::Result<usize> {
    crate::fault::check("process_vm_readv")?;
    let pid = libc::pid_t::try_from(of.into().0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let address = usize::try_from(address.0).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: out.len() };
    // SAFETY: `local` describes `out`, exclusively borrowed for the call; `remote` is an address in another address
    // space that the kernel checks; both arrays have the one element that is claimed.
    let ret = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    check(ret.try_into().expect("isize is c_long on Linux")).map(|n| usize::try_from(n).unwrap_or(0))
}

/// Copies all of `bytes` into the memory of the process of a thread at `address` (process_vm_writev(2)). The pages must be writable
/// for the process itself. Only for processes that stand still.
///
/// # Errors
/// EPERM without the right to trace the process, ESRCH when it is gone, EFAULT when a part is not mapped or not
/// writable: then a part may have been written.
pub fn write(of: impl Into<Tid>, address: Avma, bytes: &[u8]) -> io::Result<()> {
    crate::fault::check("process_vm_writev")?;
    let pid = libc::pid_t::try_from(of.into().0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let address = usize::try_from(address.0).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which the kernel only reads; `remote` is an address in another address space that
    // the kernel checks (in our own, where tests write, it is checked as any user address is); both arrays have the one
    // element that is claimed.
    let ret = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    let written = check(ret.try_into().expect("isize is c_long on Linux"))?;
    if usize::try_from(written) == Ok(bytes.len()) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EFAULT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_own_memory_and_refuses_unmapped() {
        let text = *b"patient";
        let mut out = [0; 7];
        let address = Avma(text.as_ptr().expose_provenance() as u64);
        assert_eq!(read(Tid(std::process::id()), address, &mut out).unwrap(), 7);
        assert_eq!(out, text);
        assert_eq!(
            read(Tid(std::process::id()), Avma(8), &mut out).unwrap_err().raw_os_error(),
            Some(libc::EFAULT)
        );
    }
}
