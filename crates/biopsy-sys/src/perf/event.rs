//! Opening and controlling events.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use biopsy_model::Tid;
use perf_event_open_sys::bindings as raw;

use crate::bpf::Program;
use crate::check;

/// What an event counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Hardware CPU cycles. ENOENT where the machine has no usable PMU (many virtual machines).
    Cycles,
    /// The kernel's high-resolution timer.
    CpuClock,
    /// Nothing: carries side-band records only (mmap, comm, task, switches).
    Dummy,
}

/// Whom an event is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Everything that runs on this CPU. Needs CAP_PERFMON, or `kernel.perf_event_paranoid` 0 or lower.
    Cpu(u32),
    /// One thread, and the children it makes from now on, while on this CPU.
    ThreadOnCpu {
        /// The thread.
        tid: Tid,
        /// The CPU: inherited events can be mapped only per CPU.
        cpu: u32,
    },
}

/// What to open; the fields are those of `struct perf_event_attr` (include/uapi/linux/perf_event.h).
#[derive(Clone, Copy, Debug)]
pub struct EventConfig {
    /// What is counted.
    pub source: Source,
    /// Samples a second; 0: no samples.
    pub frequency_hz: u32,
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// User registers to sample, as a mask of `enum perf_event_x86_regs`.
    pub user_registers: u64,
    /// Bytes of user stack to copy with each sample, a multiple of 8, below 64 KiB.
    pub user_stack_bytes: u32,
    /// Leave the kernel out (needed at `perf_event_paranoid` 2 without privileges).
    pub exclude_kernel: bool,
    /// Side-band records: executable mappings, names, forks and exits.
    pub side_band: bool,
    /// Side-band records: context switches.
    pub switches: bool,
    /// Threads and processes made by the observed one are observed too.
    pub inherit: bool,
    /// Wake the reader when this many bytes are waiting; 0: never, the reader polls.
    pub wakeup_watermark: u32,
}

impl EventConfig {
    fn attr(&self) -> raw::perf_event_attr {
        let mut attr = raw::perf_event_attr {
            size: u32::try_from(size_of::<raw::perf_event_attr>()).expect("a small struct"),
            ..Default::default()
        };
        (attr.type_, attr.config) = match self.source {
            Source::Cycles => (raw::PERF_TYPE_HARDWARE, raw::PERF_COUNT_HW_CPU_CYCLES.into()),
            Source::CpuClock => (raw::PERF_TYPE_SOFTWARE, raw::PERF_COUNT_SW_CPU_CLOCK.into()),
            Source::Dummy => (raw::PERF_TYPE_SOFTWARE, raw::PERF_COUNT_SW_DUMMY.into()),
        };
        if self.frequency_hz > 0 {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = self.frequency_hz.into();
        }
        attr.sample_type = self.sample_type;
        attr.sample_regs_user = self.user_registers;
        attr.sample_stack_user = self.user_stack_bytes;
        attr.set_disabled(1);
        attr.set_exclude_kernel(self.exclude_kernel.into());
        attr.set_exclude_hv(1);
        attr.set_exclude_idle(1);
        attr.set_sample_id_all(1);
        attr.set_inherit(self.inherit.into());
        if self.side_band {
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.set_task(1);
        }
        attr.set_context_switch(self.switches.into());
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_watermark(1);
        // Nobody waits on the descriptor unless asked: a watermark that is never reached costs the target no wake-up.
        attr.__bindgen_anon_2.wakeup_watermark =
            if self.wakeup_watermark == 0 { u32::MAX } else { self.wakeup_watermark };
        attr
    }

    /// The bytes of the `perf_event_attr` this becomes: what parsers of its records need to know.
    #[must_use]
    pub fn attr_bytes(&self) -> Vec<u8> {
        let attr = self.attr();
        // SAFETY: perf_event_attr is a plain C struct that was fully initialised by `attr` (Default zeroes it,
        // padding included), and the slice covers exactly it while it lives.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const attr).cast::<u8>(), size_of::<raw::perf_event_attr>())
        };
        bytes.to_vec()
    }
}

/// An open event. It is disabled until [`Event::enable`], and ends when dropped.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Opens an event. It does not count yet.
    ///
    /// # Errors
    /// EACCES/EPERM without privileges (see `kernel.perf_event_paranoid`), ENOENT when the machine does not have the
    /// counter, ESRCH when the thread is gone, EMFILE when descriptors run out.
    pub fn open(config: &EventConfig, scope: Scope) -> io::Result<Self> {
        crate::fault::check("perf_event_open")?;
        let mut attr = config.attr();
        let (pid, cpu) = match scope {
            Scope::Cpu(cpu) => (-1, cpu),
            Scope::ThreadOnCpu { tid, cpu } => {
                (i32::try_from(tid.0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?, cpu)
            }
        };
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let flags = u64::from(raw::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: the kernel reads `attr.size` bytes of `attr` (and may write `size` back on E2BIG); `size` is that of
        // the struct, and the struct outlives the call.
        let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, pid, cpu, -1, flags) };
        let fd = i32::try_from(check(fd.into())?).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Starts counting.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        self.ioctl(raw::ENABLE, 0)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable(&self) -> io::Result<()> {
        self.ioctl(raw::DISABLE, 0)
    }

    /// Runs `program` at each sample; the sample is written to the ring only where it returns non-zero.
    ///
    /// # Errors
    /// EACCES/EPERM without CAP_PERFMON.
    pub fn set_bpf(&self, program: &Program) -> io::Result<()> {
        self.ioctl(raw::SET_BPF, program.as_fd().as_raw_fd().into())
    }

    /// Sends this event's records to the ring of `other`, which must be on the same CPU.
    ///
    /// # Errors
    /// EINVAL when the two do not fit.
    pub fn set_output(&self, other: &Event) -> io::Result<()> {
        self.ioctl(raw::SET_OUTPUT, other.0.as_raw_fd().into())
    }

    fn ioctl(&self, request: raw::perf_event_ioctls, argument: libc::c_long) -> io::Result<()> {
        crate::fault::check("perf_ioctl")?;
        // SAFETY: the requests used here take an integer argument and touch no memory of ours.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), argument) }.into()).map(drop)
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
