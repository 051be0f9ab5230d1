//! A table of open files that one thread has for itself (close_range(2) with CLOSE_RANGE_UNSHARE, Linux 5.9).
//!
//! What a thread opens in a table of its own, no child of the process inherits: fork(2) copies the table of the thread that
//! calls it. And it is closed when that thread ends, whatever the other threads of the process hang in.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::check;

/// The first descriptor that is not a standard stream.
const FIRST: RawFd = 3;

/// Says that the calling thread has a table of its own, which threads that it starts share. Not `Send`: another thread has
/// another table.
#[derive(Debug)]
pub struct OwnTable(PhantomData<*const ()>);

impl OwnTable {
    /// The calling thread leaves the table of its process with copies of the standard streams and of `kept`, whose new owner
    /// it becomes. Everything else is closed in its table, and stays open for the others.
    ///
    /// # Errors
    /// ENOSYS before Linux 5.9, ENOMEM, EPERM of a seccomp filter.
    pub fn leave(kept: BorrowedFd<'_>) -> io::Result<(Self, OwnedFd)> {
        crate::fault::check("close_range")?;
        let kept = kept.as_raw_fd();
        // The first call takes the thread out of the table.
        close_range(FIRST, kept - 1, libc::CLOSE_RANGE_UNSHARE)?;
        close_range(kept + 1, RawFd::MAX, 0)?;
        // SAFETY: `kept` was open in the table that was copied (it is borrowed), neither call closed it in the copy, and in
        // this table nobody owns it yet.
        Ok((Self(PhantomData), unsafe { OwnedFd::from_raw_fd(kept) }))
    }
}

/// Closes what lies between the two, both included.
fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // An empty range is refused (EINVAL); the flag still counts.
    let (first, last) = if first <= last { (first, last) } else { (RawFd::MAX, RawFd::MAX) };
    // SAFETY: close_range takes three integers. What it closes is closed in a table that only this thread has, where nobody
    // owns a descriptor yet.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;
    use crate::schedule::this_thread;

    fn table(tid: biopsy_model::Tid) -> BTreeSet<String> {
        let entries = std::fs::read_dir(format!("/proc/self/task/{tid}/fd")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_one_thread_opens_no_other_has() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let other = File::open("/dev/null").unwrap();
        let number = |file: RawFd| file.to_string();
        let work = || {
            let (_table, copy) = OwnTable::leave(writer.as_fd()).unwrap();
            File::from(copy).write_all(b"x").unwrap();
            let opened = File::open("/dev/zero").unwrap();
            let place = std::fs::read_link(format!("/proc/thread-self/fd/{}", opened.as_raw_fd())).unwrap();
            assert_eq!(place.to_str(), Some("/dev/zero"));
            let within = table(this_thread());
            assert!(!within.contains(&number(other.as_raw_fd())), "{within:?}");
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        // What is closed there stays open here.
        let places = table(biopsy_model::Tid(std::process::id()));
        assert!(places.contains(&number(writer.as_raw_fd())), "{places:?}");
        assert!(places.contains(&number(other.as_raw_fd())), "{places:?}");
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }
}
