//! Programs that run once for each thread of the machine, when they are asked to.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::program::TRACE_ITER;
use super::{Program, bpf, command};

#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    padding: u32,
}

#[repr(C)]
struct IterAttr {
    link_fd: u32,
    flags: u32,
}

/// A program of kind [`super::ProgramKind::TaskIterator`], ready to be run over all threads. Nothing of it runs in between.
#[derive(Debug)]
pub struct TaskIterator(OwnedFd);

impl TaskIterator {
    /// Makes the program ready. It lives on in this.
    ///
    /// # Errors
    /// EINVAL for programs of other kinds.
    pub fn new(program: &Program) -> io::Result<Self> {
        let mut attr = LinkAttr {
            prog_fd: program.as_fd().as_raw_fd().unsigned_abs(),
            attach_type: TRACE_ITER,
            ..LinkAttr::default()
        };
        owned(bpf(command::LINK_CREATE, &mut attr)?).map(Self)
    }

    /// Runs it for each thread, one after the other; `out` is overwritten with what it has written. Threads that begin or end meanwhile may be
    /// among them or not.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        let mut attr = IterAttr { link_fd: self.0.as_raw_fd().unsigned_abs(), flags: 0 };
        let mut file = File::from(owned(bpf(command::ITER_CREATE, &mut attr)?)?);
        file.read_to_end(out).map(drop)
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the caller hands on what bpf(2) has just returned for a command that makes a descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
