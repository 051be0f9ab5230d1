//! Layouts shared by the programs and their reader.

use biopsy_model::timeline::WaitState;
use biopsy_runtimes::python::{RawFrame, RawStack};

/// A thread's place in the table of slots, which is looked into before the `threads` map: found by the last bits of the tid, without a call.
///
/// The reader gives a slot to one of the threads that have these bits; the entry moves there when the thread next leaves a CPU. The others
/// stay in the `threads` map.
pub(super) mod slot {
    /// u64: the tid, with [`GIVEN`] above it until the entry has moved here; 0: nobody's.
    pub(crate) const OWNER: i16 = 0;
    pub(crate) const GIVEN: u64 = 1 << 32;
    /// A [`super::thread`]. Where the value of an entry of a hash map lies too, seen from the beginning of a line of the cache.
    pub(crate) const TIMES: i16 = 56;
    /// Three lines.
    pub(crate) const SIZE: i32 = 192;
}

/// Offsets in the value of the `threads` map, and in a slot; u64 but where it says otherwise.
///
/// A thread is often woken on another CPU than the one it left and the one it will run on: each line of the cache that is written
/// on both travels between them. The kernel puts 56 bytes before the value (`struct htab_elem`, and the key), so that the first
/// word lies in a line that is only read, what a wake-up writes in the second, and the rest in the third.
pub(super) mod thread {
    pub(crate) const TGID: i16 = 0;

    pub(crate) const STATE: i16 = 8;
    pub(crate) const SINCE: i16 = 16;
    pub(crate) const READY: i16 = 24;
    pub(crate) const WAITING: i16 = 32;
    pub(crate) const WAKEUPS: i16 = 40;
    pub(crate) const READY_TIME: i16 = 48;
    pub(crate) const WAKER: i16 = 56;
    pub(crate) const OUT_TIME: i16 = 64;

    pub(crate) const RUNNING: i16 = 72;
    /// Counts each switch out and in: two equal readings say that the thread did not run between them.
    pub(crate) const SEQUENCE: i16 = 80;
    pub(crate) const VOLUNTARY: i16 = 88;
    pub(crate) const INVOLUNTARY: i16 = 96;
    /// u32.
    pub(crate) const OUT_STATE: i16 = 104;
    /// u32.
    pub(crate) const SYSCALL: i16 = 108;
    pub(crate) const IP: i16 = 112;
    pub(crate) const SP: i16 = 120;
    pub(crate) const BP: i16 = 128;
    pub(crate) const SIZE: i16 = 136;
}

/// Values of [`thread::STATE`]. 0: not known yet.
pub(crate) mod thread_state {
    pub(crate) const RUNNING: u64 = 1;
    pub(crate) const READY: u64 = 2;
    pub(crate) const WAITING: u64 = 3;
}

/// `struct pt_regs` of x86-64 (arch/x86/include/uapi/asm/ptrace.h).
pub(super) mod pt_regs {
    pub(crate) const BP: i16 = 32;
    pub(crate) const ORIG_AX: i16 = 120;
    pub(crate) const IP: i16 = 128;
    pub(crate) const CS: i16 = 136;
    pub(crate) const SP: i16 = 152;
    pub(crate) const SIZE: i16 = 168;
}

/// Words of the `config` memory.
pub(super) mod config {
    pub(crate) const WAIT_THRESHOLD: i32 = 0;
    pub(crate) const LOST_WAITS: i32 = 1;
    pub(crate) const LOST_SAMPLES: i32 = 2;
    pub(crate) const THREADS_FULL: i32 = 3;
    pub(crate) const LOST_ALLOCATIONS: i32 = 4;
    /// Where the registers of user mode lie, from the beginning of a thread's kernel stack.
    pub(crate) const REGISTERS_DISTANCE: i32 = 5;
    pub(crate) const ENTRIES: u32 = 6;
}

/// Value of the `hints` map: what user space has learned of a thread.
pub(super) mod hint {
    /// u64: address just above the thread's outermost frame.
    pub(crate) const STACK_BASE: i16 = 0;
    /// u64: 1: frame pointers suffice, do not copy.
    pub(crate) const FRAME_POINTERS: i16 = 8;
    pub(crate) const SIZE: u32 = 16;
}

/// A sample in the ring buffer: header, kernel addresses, then bytes of the user stack from SP on (or, with
/// [`sample::FLAG_FRAME_POINTERS`], the user's return addresses).
pub(super) mod sample {
    pub(crate) const KIND: u32 = 1;
    pub(crate) const CPU: i16 = 4;
    pub(crate) const TID: i16 = 8;
    pub(crate) const TGID: i16 = 12;
    pub(crate) const TIME: i16 = 16;
    pub(crate) const IP: i16 = 24;
    pub(crate) const SP: i16 = 32;
    pub(crate) const BP: i16 = 40;
    pub(crate) const KERNEL_BYTES: i16 = 48;
    pub(crate) const STACK_BYTES: i16 = 52;
    pub(crate) const FLAGS: i16 = 56;
    pub(crate) const KERNEL: i16 = 64;
    /// 48 kernel frames.
    pub(crate) const KERNEL_MAX: i32 = 48 * 8;
    pub(crate) const STACK: i32 = KERNEL as i32 + KERNEL_MAX;
    /// Deepest part of a stack that is copied. One record must stay far below the ring's size.
    pub(crate) const STACK_MAX: i32 = 60 * 1024;
    pub(crate) const FLAG_FRAME_POINTERS: i32 = 1;
    pub(crate) const SIZE: u32 = (STACK + STACK_MAX) as u32;
}

/// A sampled allocation in the ring buffer: a sample without kernel frames, in whose place are what was handed out and its size.
pub(super) mod allocation {
    pub(crate) const KIND: u32 = 4;
    pub(crate) const ADDRESS: i16 = super::sample::KERNEL;
    pub(crate) const SIZE: i16 = super::sample::KERNEL + 8;
}

/// A sampled allocation is released.
pub(super) mod release {
    pub(crate) const KIND: u32 = 5;
    pub(crate) const TGID: i16 = 4;
    pub(crate) const TIME: i16 = 8;
    pub(crate) const ADDRESS: i16 = 16;
    pub(crate) const SIZE: i32 = 24;
}

/// Value of the `languages` map: where a process's interpreter has the frames of a thread. Words.
pub(super) mod language_place {
    pub(crate) const THREAD: i16 = 0;
    pub(crate) const FIRST: i16 = 8;
    /// All bits set: the thread itself has the pointer to its first frame.
    pub(crate) const FIRST_INNER: i16 = 16;
    pub(crate) const PREVIOUS: i16 = 24;
    pub(crate) const CODE: i16 = 32;
    pub(crate) const INSTRUCTION: i16 = 40;
    pub(crate) const MARKS: i16 = 48;
    pub(crate) const BYTES: i16 = 56;
    pub(crate) const SIZE: u32 = 64;
}

/// Frames of a language in the ring buffer, directly before the sample of the same CPU: header, then four words for each frame.
pub(super) mod language {
    pub(crate) const KIND: u32 = 3;
    pub(crate) const TID: i16 = 4;
    pub(crate) const CPU: i16 = 8;
    /// u64.
    pub(crate) const COUNT: i16 = 16;
    pub(crate) const HOLDER: i16 = 24;
    /// The frame that did not fit any more, or could not be read; 0 at the end.
    pub(crate) const NEXT: i16 = 32;
    pub(crate) const FRAMES: i16 = 40;
    /// Frame, code, instruction, marks.
    pub(crate) const FRAME: i32 = 32;
    /// Deeper stacks are cut; each frame costs the target the reading of it.
    pub(crate) const MOST: i32 = 256;
    /// A frame as it was read, behind the last one of the record.
    pub(crate) const BUFFER: i32 = FRAMES as i32 + FRAME * MOST;
    pub(crate) const BUFFER_BYTES: i32 = 128;
    pub(crate) const SIZE: u32 = (BUFFER + BUFFER_BYTES) as u32;
}

/// A wait in the ring buffer.
pub(super) mod wait {
    pub(crate) const KIND: u32 = 2;
    pub(crate) const TID: i16 = 4;
    pub(crate) const START: i16 = 8;
    pub(crate) const END: i16 = 16;
    pub(crate) const READY: i16 = 24;
    pub(crate) const WAKER: i16 = 32;
    pub(crate) const STATE: i16 = 40;
    pub(crate) const SYSCALL: i16 = 48;
    pub(crate) const SEQUENCE: i16 = 56;
    pub(crate) const SIZE: i32 = 64;
}

/// One thread's entry of the `threads` map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ThreadTimes {
    pub(crate) since: u64,
    pub(crate) state: u64,
    pub(crate) running: u64,
    pub(crate) ready: u64,
    pub(crate) waiting: u64,
    pub(crate) sequence: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) wakeups: u64,
    pub(crate) out_time: u64,
    pub(crate) out_state: u64,
    pub(crate) syscall: u64,
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    pub(crate) tgid: u32,
}

impl ThreadTimes {
    pub(crate) const BYTES: usize = thread::SIZE as usize;

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |offset: i16| word(bytes, usize::try_from(offset).ok()?);
        let half = |offset: i16| Some(field(offset & !7)? >> (8 * (offset & 7)) & 0xffff_ffff);
        Some(Self {
            since: field(thread::SINCE)?,
            state: field(thread::STATE)?,
            running: field(thread::RUNNING)?,
            ready: field(thread::READY)?,
            waiting: field(thread::WAITING)?,
            sequence: field(thread::SEQUENCE)?,
            voluntary: field(thread::VOLUNTARY)?,
            involuntary: field(thread::INVOLUNTARY)?,
            wakeups: field(thread::WAKEUPS)?,
            out_time: field(thread::OUT_TIME)?,
            out_state: half(thread::OUT_STATE)?,
            syscall: half(thread::SYSCALL)?,
            ip: field(thread::IP)?,
            sp: field(thread::SP)?,
            bp: field(thread::BP)?,
            tgid: u32::try_from(field(thread::TGID)? & 0xffff_ffff).ok()?,
        })
    }

    /// The thread has ended: the scheduler saw `TASK_DEAD` when it left the CPU for the last time.
    pub(crate) fn is_dead(&self) -> bool {
        const TASK_DEAD: u64 = 0x80;
        self.state == thread_state::WAITING && self.out_state & TASK_DEAD != 0
    }

    pub(crate) fn wait_state(&self) -> WaitState {
        wait_state(self.out_state)
    }

    pub(crate) fn syscall_number(&self) -> Option<u32> {
        syscall_number(self.syscall)
    }
}

/// State bits of include/linux/sched.h.
pub(super) fn wait_state(bits: u64) -> WaitState {
    const INTERRUPTIBLE: u64 = 1;
    const UNINTERRUPTIBLE: u64 = 2;
    const STOPPED_OR_TRACED: u64 = 4 | 8;
    const NOLOAD: u64 = 0x400;
    if bits == 0 {
        WaitState::Preempted
    } else if bits & STOPPED_OR_TRACED != 0 {
        WaitState::Stopped
    } else if bits & UNINTERRUPTIBLE != 0 && bits & NOLOAD == 0 {
        WaitState::Disk
    } else if bits & (INTERRUPTIBLE | NOLOAD) != 0 {
        WaitState::Sleep
    } else {
        WaitState::Other
    }
}

/// The lower half of `orig_ax` is the system call's number, or -1 outside of one (faults, preemption in user code).
pub(super) fn syscall_number(orig_ax: u64) -> Option<u32> {
    u32::try_from(orig_ax).ok().filter(|&number| number < 1024)
}

/// What woke a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wakened {
    /// When it became ready.
    pub(crate) at: u64,
    /// The waking thread; 0: an interrupt.
    pub(crate) by: u32,
}

/// A record from the kernel.
#[derive(Debug)]
pub(crate) enum KernelRecord<'a> {
    /// A CPU sample.
    Sample {
        cpu: u32,
        tid: u32,
        tgid: u32,
        time: u64,
        ip: u64,
        sp: u64,
        bp: u64,
        /// Kernel addresses, innermost first.
        kernel: &'a [u8],
        /// Bytes of the user stack from `sp` on, or return addresses.
        stack: &'a [u8],
        /// `stack` is a list of user addresses found by frame pointers.
        frame_pointers: bool,
    },
    /// A sampled allocation: as a sample.
    Allocation {
        tid: u32,
        tgid: u32,
        time: u64,
        ip: u64,
        sp: u64,
        bp: u64,
        address: u64,
        size: u64,
        stack: &'a [u8],
        frame_pointers: bool,
    },
    /// A sampled allocation is released.
    Release { tgid: u32, time: u64, address: u64 },
    /// Functions of an interpreted language that the thread of the next sample of this CPU is in.
    Language { cpu: u32, tid: u32, stack: RawStack },
    /// A long wait that has ended.
    Wait {
        tid: u32,
        start: u64,
        end: u64,
        wakened: Option<Wakened>,
        state: WaitState,
        syscall: Option<u32>,
        /// The thread's sequence number while it waited.
        sequence: u64,
    },
}

impl<'a> KernelRecord<'a> {
    /// Parses one record of the ring buffer. `None`: not one of ours, which cannot happen.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let half = |offset: i16| {
            let at = usize::try_from(offset).ok()?;
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let field = |offset: i16| word(bytes, usize::try_from(offset).ok()?);
        match half(0)? {
            sample::KIND => {
                let kernel_start = usize::try_from(sample::KERNEL).ok()?;
                let kernel_len = half(sample::KERNEL_BYTES)? as usize;
                let stack_start = usize::try_from(sample::STACK).ok()?;
                let stack_len = half(sample::STACK_BYTES)? as usize;
                Some(Self::Sample {
                    cpu: half(sample::CPU)?,
                    tid: half(sample::TID)?,
                    tgid: half(sample::TGID)?,
                    time: field(sample::TIME)?,
                    ip: field(sample::IP)?,
                    sp: field(sample::SP)?,
                    bp: field(sample::BP)?,
                    kernel: bytes.get(kernel_start..kernel_start + kernel_len)?,
                    stack: bytes.get(stack_start..stack_start + stack_len)?,
                    frame_pointers: half(sample::FLAGS)? != 0,
                })
            }
            allocation::KIND => {
                let stack_start = usize::try_from(sample::STACK).ok()?;
                let stack_len = half(sample::STACK_BYTES)? as usize;
                Some(Self::Allocation {
                    tid: half(sample::TID)?,
                    tgid: half(sample::TGID)?,
                    time: field(sample::TIME)?,
                    ip: field(sample::IP)?,
                    sp: field(sample::SP)?,
                    bp: field(sample::BP)?,
                    address: field(allocation::ADDRESS)?,
                    size: field(allocation::SIZE)?,
                    stack: bytes.get(stack_start..stack_start + stack_len)?,
                    frame_pointers: half(sample::FLAGS)? != 0,
                })
            }
            release::KIND => Some(Self::Release {
                tgid: half(release::TGID)?,
                time: field(release::TIME)?,
                address: field(release::ADDRESS)?,
            }),
            language::KIND => {
                let frames = bytes.get(usize::try_from(language::FRAMES).ok()?..)?;
                Some(Self::Language {
                    cpu: half(language::CPU)?,
                    tid: half(language::TID)?,
                    stack: language_frames(field(language::HOLDER)?, field(language::NEXT)?, frames),
                })
            }
            wait::KIND => {
                let at = field(wait::READY)?;
                let by = u32::try_from(field(wait::WAKER)? & 0xffff_ffff).ok()?;
                let state = wait_state(field(wait::STATE)?);
                Some(Self::Wait {
                    tid: half(wait::TID)?,
                    start: field(wait::START)?,
                    end: field(wait::END)?,
                    // A preempted thread was ready all the time; nobody woke it.
                    wakened: (at != 0 && state != WaitState::Preempted).then_some(Wakened { at, by }),
                    state,
                    syscall: syscall_number(field(wait::SYSCALL)?),
                    sequence: field(wait::SEQUENCE)?,
                })
            }
            _ => None,
        }
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Frames from the bytes of a record, behind its head.
fn language_frames(holder: u64, next: u64, bytes: &[u8]) -> RawStack {
    let frame = |words: &[u8]| {
        let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().expect("8 bytes"));
        RawFrame { at: word(0), code: word(8), instruction: word(16), marks: word(24) }
    };
    let frames = bytes.chunks_exact(language::FRAME as usize).map(frame).collect();
    RawStack { holder, frames, cut: next != 0 }
}
