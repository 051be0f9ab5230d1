//! The bytes of a process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use biopsy_files::Mounts;
use biopsy_image::{Absence, ReadError};
use biopsy_model::{Avma, Pid};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::process::proc_root::{ProcRoot, ProcessDir};

/// The memory of one process, live or frozen, from the moment of opening on: after its end, or when it executed another
/// program, reads answer [`Absence::Gone`] and never the memory of another one.
#[derive(Debug)]
pub struct ProcessMemory {
    /// A thread that has the memory.
    tid: Pid,
    pub(super) process: ProcessDir,
    /// Where files that it maps can be.
    mounts: OnceLock<Mounts>,
    /// `/proc/PID/mem`: stays with this address space, whatever happens to the pid.
    mem: File,
    /// `/proc/PID/pagemap`: as `mem`.
    pub(super) pagemap: File,
    /// The kernel does not know PAGEMAP_SCAN.
    pub(super) no_scan: AtomicBool,
    /// process_vm_readv is refused altogether (a seccomp filter of ours), or must not be used.
    no_readv: AtomicBool,
}

/// Threads that are tried when the first thread has ended before the others.
const THREADS: usize = 64;

impl ProcessMemory {
    /// Opens the memory of the process that has this pid now. Check its identity afterwards.
    ///
    /// # Errors
    /// `NotFound` or ESRCH when it has ended or is a kernel thread, `PermissionDenied` without the right to trace it.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let process = ProcRoot::live().process(pid)?;
        let first = Self::open_thread(pid, pid);
        if first.is_ok() {
            return first;
        }
        // The first thread of a process may end before the others: then it has no memory any more, and they do.
        let others = process.tids(THREADS)?.into_iter().filter(|&tid| tid != pid.into());
        others.map(|tid| Self::open_thread(pid, Pid(tid.0))).find(Result::is_ok).unwrap_or(first)
    }

    fn open_thread(pid: Pid, tid: Pid) -> io::Result<Self> {
        let process = ProcRoot::live().process(tid)?;
        let memory = Self {
            tid,
            mem: process.file("mem")?,
            pagemap: process.file("pagemap")?,
            process,
            mounts: OnceLock::new(),
            no_scan: AtomicBool::new(false),
            no_readv: AtomicBool::new(false),
        };
        if memory.is_there() {
            return Ok(memory);
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has no memory (any more)")))
    }

    pub(super) fn mounts(&self) -> &Mounts {
        self.mounts.get_or_init(|| self.process.mounts())
    }

    /// For the copy that a fork made: reads through `mem` alone.
    ///
    /// process_vm_readv pins pages, and before the kernel pins a page that two processes share since a fork, it makes a copy
    /// of its own for the one that is read (`gup_must_unshare`, since Linux 5.19). Reading the whole copy doubled the memory
    /// of its control group that way, and took half of the time. `mem` does not pin.
    #[must_use]
    pub fn of_copy(self) -> Self {
        self.no_readv.store(true, Ordering::Relaxed);
        self
    }

    /// The thread whose files in `/proc` are used: the first one, where it has not ended.
    #[must_use]
    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Whether the address space is still there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        // Of an address space that is gone the kernel reads nothing, successfully. Nothing is ever mapped at the last
        // page that a program can have, so nothing is touched.
        const NOWHERE: u64 = 0x7fff_ffff_f000;
        !matches!(self.mem.read_at(&mut [0], NOWHERE), Ok(0))
    }

    /// Whether the page at `address` is in memory and in the page tables: reading it waits for nothing.
    #[must_use]
    pub fn is_present(&self, address: u64) -> bool {
        const PRESENT: u64 = 1 << 63;
        let mut entry = [0; 8];
        let read = self.pagemap.read_exact_at(&mut entry, address / biopsy_image::PAGE_SIZE * 8);
        read.is_ok() && u64::from_le_bytes(entry) & PRESENT != 0
    }

    /// Reads memory from `address` on, as [`biopsy_image::Image::read`] does. Only for pages that
    /// [`written`](Self::written) named, as far as a live process is concerned: others would be made by reading.
    ///
    /// # Errors
    /// [`Absence::Gone`] after the end of the process; [`Absence::Unmapped`] when the byte cannot be read (the caller
    /// knows the mappings and whether one is there).
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if !self.no_readv.load(Ordering::Relaxed) {
            match biopsy_sys::memory::read(self.tid, Avma(address), buffer) {
                // The pid may have been given to another process, or the process may have executed another program
                // meanwhile: what was read counts only if the address space that was opened is still there.
                Ok(read) if read > 0 => {
                    return if self.is_there() { Ok(read) } else { Err(missing(address, Absence::Gone)) };
                }
                Ok(_) => {}
                Err(error) => {
                    let refused = [Errno::PERM, Errno::NOSYS];
                    if refused.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
                        self.no_readv.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        // `mem` also reads what the process itself may not read (PROT_NONE).
        match retry_on_intr(|| pread(&self.mem, &mut *buffer, address)) {
            Ok(0) => Err(missing(address, Absence::Gone)),
            Ok(read) => Ok(read),
            Err(Errno::IO) => Err(missing(address, Absence::Unmapped)),
            Err(source) => Err(ReadError::Io { address, source: source.into() }),
        }
    }
}

pub(super) fn missing(address: u64, why: Absence) -> ReadError {
    ReadError::Missing { address, why }
}
