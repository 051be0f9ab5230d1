//! Programs that run where a function of a file is entered or left, in one process (uprobes). The kernel writes a breakpoint into that
//! process's copy of the page, and takes it out again when the descriptor is closed, by us or by the end of biopsy.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use biopsy_model::Pid;
use perf_event_open_sys::bindings as raw;

use super::Event;
use crate::bpf::Program;
use crate::check;

/// Where in a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeAt {
    /// Before its first instruction.
    Entry,
    /// Behind its return: the caller's registers, with the result.
    Return,
}

/// A breakpoint with a program. It ends when this is dropped, which takes a tenth of a second: the kernel waits for whoever is in it.
#[derive(Debug)]
pub struct Probe(#[expect(dead_code, reason = "held for its Drop")] Event);

impl Probe {
    /// Sets it, in one process and its threads. `offset`: of the function, in the file.
    ///
    /// # Errors
    /// EACCES/EPERM without CAP_PERFMON, ENOENT on a kernel without uprobes or where the file is gone, EINVAL where there is no instruction
    /// that can be replaced, ESRCH when the process is gone.
    pub fn set(program: &Program, path: &Path, offset: u64, at: ProbeAt, pid: Pid) -> io::Result<Self> {
        crate::fault::check("perf_event_open")?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut attr = raw::perf_event_attr {
            type_: source_type()?,
            size: u32::try_from(size_of::<raw::perf_event_attr>()).expect("a small struct"),
            ..Default::default()
        };
        attr.config = match at {
            ProbeAt::Entry => 0,
            ProbeAt::Return => 1 << return_bit()?,
        };
        attr.__bindgen_anon_3.uprobe_path = path.as_ptr().expose_provenance() as u64;
        attr.__bindgen_anon_4.probe_offset = offset;
        attr.set_disabled(1);
        let pid = i32::try_from(pid.0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let flags = u64::from(raw::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: the kernel reads `attr.size` bytes of `attr`, whose size that is, and the string that it points to, which ends with a
        // zero byte; both outlive the call.
        let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, pid, -1, -1, flags) };
        let fd = i32::try_from(check(fd.into())?).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        let event = Event(unsafe { OwnedFd::from_raw_fd(fd) });
        event.set_bpf(program)?;
        event.enable()?;
        Ok(Self(event))
    }
}

/// Uprobes are a source of events like processors are; its number differs between kernels.
fn source_type() -> io::Result<u32> {
    number(&std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?)
}

/// Which bit says that the return is meant: `config:0`.
fn return_bit() -> io::Result<u32> {
    let format = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/format/retprobe")?;
    number(format.strip_prefix("config:").unwrap_or_default()).map(|bit| bit & 63)
}

fn number(text: &str) -> io::Result<u32> {
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}
