//! BPF programs and where they are attached.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use biopsy_model::Pid;

use super::{bpf, command};

/// Kinds of `enum bpf_prog_type` that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// Runs at each sample of a perf event.
    PerfEvent,
    /// Runs where functions are entered or left; its context are the registers. Linux 6.6.
    Functions,
    /// Runs at a tracepoint, with its raw arguments. Needs no tracefs, and does not disturb other users of it.
    RawTracepoint,
    /// The same, but the arguments have the kernel's types: what they point to is loaded from, not copied by a call.
    TypedTracepoint {
        /// From [`super::btf::Btf::raw_tracepoint`].
        btf_id: u32,
    },
    /// Runs once for each thread of the machine when it is asked to (Linux 5.8); its context are two pointers, to what says where its
    /// output goes and to the thread.
    TaskIterator {
        /// Of the function `bpf_iter_task`, from [`super::btf::Btf::function`].
        btf_id: u32,
    },
}

impl ProgramKind {
    /// Of `enum bpf_prog_type` and `enum bpf_attach_type`.
    fn numbers(self) -> (u32, u32) {
        const TRACE_RAW_TP: u32 = 23;
        match self {
            Self::Functions => (2, UPROBE_MULTI),
            Self::PerfEvent => (7, 0),
            Self::RawTracepoint => (17, 0),
            Self::TypedTracepoint { .. } => (26, TRACE_RAW_TP),
            Self::TaskIterator { .. } => (26, TRACE_ITER),
        }
    }

    /// What of the kernel's types it is attached to; 0: nothing.
    fn btf_id(self) -> u32 {
        match self {
            Self::TypedTracepoint { btf_id } | Self::TaskIterator { btf_id } => btf_id,
            Self::PerfEvent | Self::Functions | Self::RawTracepoint => 0,
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// `BPF_TRACE_ITER` of `enum bpf_attach_type`.
pub(super) const TRACE_ITER: u32 = 28;
/// `BPF_TRACE_UPROBE_MULTI` of `enum bpf_attach_type`.
const UPROBE_MULTI: u32 = 48;

/// Where in a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Before its first instruction.
    Entry,
    /// Behind its return: the caller's registers, with the result.
    Return,
}

#[repr(C)]
struct UprobeMultiAttr {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    link_flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    count: u32,
    flags: u32,
    pid: u32,
    padding: u32,
}

#[repr(C)]
struct RawTracepointAttr {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
}

/// A program that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refused the BPF program `{name}`{}", log_tail(.log))]
pub struct LoadError {
    /// Name of the program.
    pub name: String,
    /// Why.
    #[source]
    pub source: io::Error,
    /// What the verifier said.
    pub log: String,
}

/// The last line of the verifier's log says what was wrong.
fn log_tail(log: &str) -> String {
    let mut lines = log.lines().rev().filter(|line| !line.starts_with("processed "));
    lines.next().map(|line| format!(": {line}")).unwrap_or_default()
}

/// A verified program. It ends with its last descriptor or attachment.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program. Its licence is given to the kernel as `Dual MIT/GPL`: the helpers that read stacks and
    /// memory are for GPL-compatible programs.
    ///
    /// # Errors
    /// EPERM without CAP_BPF and CAP_PERFMON; EINVAL or EACCES when the verifier rejects it, with its log.
    pub fn load(kind: ProgramKind, name: &str, instructions: &[u64]) -> Result<Self, LoadError> {
        const LOG_BYTES: usize = 1 << 20;
        // First without a log, which is faster and needs no buffer; again with one to say why it failed.
        match Self::try_load(kind, name, instructions, &mut []) {
            Ok(program) => Ok(program),
            Err(source) if source.raw_os_error() == Some(libc::EPERM) => {
                Err(LoadError { name: name.to_owned(), source, log: String::new() })
            }
            Err(_) => {
                let mut log = vec![0; LOG_BYTES];
                Self::try_load(kind, name, instructions, &mut log).map_err(|source| {
                    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                    let log = String::from_utf8_lossy(&log[..end]).into_owned();
                    LoadError { name: name.to_owned(), source, log }
                })
            }
        }
    }

    fn try_load(kind: ProgramKind, name: &str, instructions: &[u64], log: &mut [u8]) -> io::Result<Self> {
        const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";
        let (prog_type, expected_attach_type) = kind.numbers();
        let mut attr = LoadAttr {
            prog_type,
            expected_attach_type,
            attach_btf_id: kind.btf_id(),
            insn_cnt: u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            insns: instructions.as_ptr().expose_provenance() as u64,
            license: LICENCE.as_ptr().expose_provenance() as u64,
            ..LoadAttr::default()
        };
        if !log.is_empty() {
            attr.log_level = 1;
            attr.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            attr.log_buf = log.as_mut_ptr().expose_provenance() as u64;
        }
        for (to, from) in attr.prog_name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        let fd = i32::try_from(bpf(command::PROG_LOAD, &mut attr)?).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Runs the program where functions of a file are entered or left, in one process and its threads, until the link is dropped. The kernel
    /// writes breakpoints into that process's copies of the pages, and takes them out again with the link, by us or by the end of biopsy.
    /// `offsets`: of the functions, in the file.
    ///
    /// # Errors
    /// EINVAL before Linux 6.6 and where there is no instruction that can be replaced, ENOENT where the file is gone, ESRCH when the
    /// process is, EPERM without CAP_BPF and CAP_PERFMON.
    pub fn attach_functions(&self, path: &Path, offsets: &[u64], at: At, pid: Pid) -> io::Result<Link> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut attr = UprobeMultiAttr {
            prog_fd: self.0.as_raw_fd().unsigned_abs(),
            target_fd: 0,
            attach_type: UPROBE_MULTI,
            link_flags: 0,
            path: path.as_ptr().expose_provenance() as u64,
            offsets: offsets.as_ptr().expose_provenance() as u64,
            ref_ctr_offsets: 0,
            cookies: 0,
            count: u32::try_from(offsets.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            flags: u32::from(at == At::Return),
            pid: pid.0,
            padding: 0,
        };
        let fd = i32::try_from(bpf(command::LINK_CREATE, &mut attr)?).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Runs a program of kind [`ProgramKind::RawTracepoint`], that looks at no argument, once, here and now (Linux 5.10).
    ///
    /// # Errors
    /// EINVAL for other programs.
    pub fn run_once(&self) -> io::Result<()> {
        let mut attr = TestRunAttr { prog_fd: self.0.as_raw_fd().unsigned_abs(), ..TestRunAttr::default() };
        bpf(command::PROG_TEST_RUN, &mut attr).map(drop)
    }

    /// Runs the program at a raw tracepoint such as `sched_switch`, until the link is dropped.
    ///
    /// # Errors
    /// ENOENT when the kernel has no such tracepoint.
    pub fn attach_raw_tracepoint(&self, tracepoint: &str) -> io::Result<Link> {
        let name = CString::new(tracepoint)?;
        self.open_raw_tracepoint(name.as_ptr().expose_provenance() as u64)
    }

    /// Runs a program of kind [`ProgramKind::TypedTracepoint`] at the tracepoint that it was loaded for, until the link is dropped.
    ///
    /// # Errors
    /// EINVAL for programs of other kinds.
    pub fn attach_typed_tracepoint(&self) -> io::Result<Link> {
        self.open_raw_tracepoint(0)
    }

    fn open_raw_tracepoint(&self, name: u64) -> io::Result<Link> {
        let mut attr = RawTracepointAttr { name, prog_fd: self.0.as_raw_fd().unsigned_abs(), padding: 0 };
        let fd =
            i32::try_from(bpf(command::RAW_TRACEPOINT_OPEN, &mut attr)?).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An attachment: the program runs while this lives.
#[derive(Debug)]
pub struct Link(#[expect(dead_code, reason = "held for its Drop")] OwnedFd);
