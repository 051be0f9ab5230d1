//! bpf(2) without a toolchain: programs are assembled here, checked by the kernel's verifier, and end with their
//! file descriptors, so that nothing stays behind when biopsy is killed.

pub mod asm;
pub mod btf;
mod iterator;
mod map;
mod program;
mod ringbuf;
mod shared;

pub use iterator::TaskIterator;
pub use map::{Map, MapKind};
pub use program::{At, Link, LoadError, Program, ProgramKind};
pub use ringbuf::RingBuf;
pub use shared::SharedBytes;

use std::io;

/// One bpf(2) call with an attribute struct.
fn bpf<T>(command: u32, attr: &mut T) -> io::Result<libc::c_long> {
    crate::fault::check("bpf")?;
    // SAFETY: `attr` is one of the repr(C) structs of this module, each laid out like the part of `union bpf_attr`
    // that its command reads; its size is passed, so the kernel reads no further. Pointers inside are set by the
    // callers to buffers that outlive this call.
    let ret = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    crate::check(ret)
}

/// Commands of `enum bpf_cmd` (include/uapi/linux/bpf.h).
mod command {
    pub(super) const MAP_CREATE: u32 = 0;
    pub(super) const MAP_LOOKUP_ELEM: u32 = 1;
    pub(super) const MAP_UPDATE_ELEM: u32 = 2;
    pub(super) const MAP_DELETE_ELEM: u32 = 3;
    pub(super) const PROG_LOAD: u32 = 5;
    pub(super) const PROG_TEST_RUN: u32 = 10;
    pub(super) const RAW_TRACEPOINT_OPEN: u32 = 17;
    pub(super) const MAP_FREEZE: u32 = 22;
    pub(super) const MAP_LOOKUP_BATCH: u32 = 24;
    pub(super) const LINK_CREATE: u32 = 28;
    pub(super) const ITER_CREATE: u32 = 33;
}
