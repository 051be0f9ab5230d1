//! Safe wrappers over the system calls biopsy uses. All unsafe code of the workspace is here.
//!
//! One system call is one small function that returns `io::Result` and owns what it opened. What to try, in which order, and
//! what to tell the user is decided by the callers. What a call needs to be whole is done here: it is made again after a signal,
//! and two guards ([`boost`], [`stop_bell`]) have a thread of their own.
//!
//! - [`perf`]: perf_event_open(2) and its ring buffer
//! - [`bpf`]: bpf(2): a small assembler, maps, programs, the ring buffer, and the kernel's type information
//! - [`memory`]: memory of other processes, by process_vm_readv(2)
//! - [`memory_folder`]: a folder in memory, without a name
//! - [`fanotify`]: programs about to be executed wait until we allow it, at a thread with a [`file_table`] of its own; [`job_control`]: Ctrl-Z must not stop us then
//! - [`ptrace`]: stop threads, read and set their registers; [`schedule`]: real-time priority for as long as they stand;
//!   [`xsave`]: where the parts of the extended state lie
//! - [`stop_bell`]: waiting for stops of traced threads and for descriptors at once
//! - [`pidfd`], [`launch`], [`clock`], [`limits`]: the rest
//! - [`allocator`]: what happens when there is no memory
//! - [`fault`]: makes a chosen call fail, for tests; `notify` (feature `testing`): the same from outside, for any program

#![expect(
    unsafe_code,
    reason = "the one crate for it; each block says what the callee needs and why it holds"
)]

pub mod allocator;
pub mod boost;
pub mod bpf;
pub mod clock;
pub mod collapse;
pub mod fanotify;
pub mod fault;
pub mod file_table;
pub mod job_control;
pub mod launch;
pub mod limits;
pub mod locked;
mod mapping;
pub mod memory;
pub mod memory_folder;
#[cfg(all(feature = "testing", target_arch = "x86_64"))]
pub mod notify;
pub mod pagemap;
pub mod perf;
pub mod pidfd;
pub mod ptrace;
pub mod schedule;
pub mod semaphore;
pub mod stop_bell;
pub mod xsave;

use std::io;

/// Turns the `-1` of a system call into the error that errno names.
fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
