//! The events of a trace, in the order they were written.
//!
//! Definitions come before their first use, so that a recording cut short at any moment is readable up to there.
//! Handles count up from 0 without holes.

use std::collections::HashMap;

use crate::loss::{Loss, Warning};
use crate::module::{Module, ModuleHandle};
use crate::process::ThreadInfo;
use crate::stack::{Frame, FrameHandle, StackEnd, StackHandle, StackNode};
use crate::symbol::FrameSymbols;
use crate::words::words;
use crate::{Avma, MonoNanos, Nanos, Pid, Tid};

/// One event of a trace.
#[derive(Clone, PartialEq, Debug)]
pub enum TimelineEvent {
    /// Defines the next module; its handle is the number of modules before it.
    Module(Module),
    /// Defines the next frame.
    Frame(Frame),
    /// Defines the next stack.
    Stack(StackNode),
    /// Names a frame; may come at any time after it, and again (the last one counts).
    Symbols(FrameSymbols),
    /// How the trace was taken.
    Settings(TraceSettings),
    /// A thread is there: at the start of the recording (`born` false) or new.
    ThreadStart {
        /// When.
        time: MonoNanos,
        /// Who.
        thread: ThreadInfo,
        /// It was created at `time`; otherwise it was there before.
        born: bool,
        /// The thread that created it, where known.
        by: Option<Tid>,
    },
    /// A thread has a new name.
    ThreadName {
        /// When.
        time: MonoNanos,
        /// Who.
        tid: Tid,
        /// New `comm`.
        name: String,
    },
    /// A thread ended.
    ThreadExit {
        /// When.
        time: MonoNanos,
        /// Who.
        tid: Tid,
        /// Of which process.
        pid: Pid,
    },
    /// A process was forked by a recorded one and is recorded too.
    ProcessStart {
        /// When.
        time: MonoNanos,
        /// The new process.
        pid: Pid,
        /// Its parent.
        parent: Pid,
    },
    /// A process executed another program.
    Exec {
        /// When.
        time: MonoNanos,
        /// Who.
        pid: Pid,
        /// New `comm`.
        name: String,
    },
    /// A process ended.
    ProcessExit {
        /// When.
        time: MonoNanos,
        /// Who.
        pid: Pid,
    },
    /// A CPU sample.
    Sample(Sample),
    /// A wait that was long enough to be written down by itself.
    Wait(Wait),
    /// A look at a waiting thread's stack.
    WaitSample(WaitSample),
    /// Times and counts of one thread over an interval.
    States(StateSlice),
    /// A sampled allocation of native memory.
    Allocation(Allocation),
    /// A sampled allocation was released.
    Release(Release),
    /// Allocations were watched for a time.
    AllocationWatch(AllocationWatch),
    /// What was allocated at one place by then, counted without exception.
    AllocationCount(AllocationCount),
    /// Something was lost.
    Loss(Loss),
    /// The user marked this moment.
    Mark {
        /// When.
        time: MonoNanos,
        /// What the user called it.
        label: String,
    },
    /// Something the reader should know.
    Warning(Warning),
}

/// How a trace was taken.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TraceSettings {
    /// Samples per second and CPU.
    pub frequency_hz: u32,
    /// What ticks.
    pub sampling_event: SamplingEvent,
    /// The method used.
    pub method: TraceMethod,
    /// Waits at least this long are written down by themselves; shorter ones are in `StateSlice` only.
    pub wait_threshold: Nanos,
    /// Time between two off-CPU samples; zero: wait stacks were not taken.
    pub wait_sample_period: Nanos,
    /// Thread states (running, ready, waiting) were recorded.
    pub has_states: bool,
    /// Wake-ups (ready time and the waking thread) were recorded.
    pub has_wakeups: bool,
    /// Kernel frames were recorded.
    pub has_kernel_stacks: bool,
    /// Child processes were followed.
    pub follows_children: bool,
}

words! {
    /// How a trace is taken, best first.
    TraceMethod {
        /// Programs in the kernel.
        Bpf = "bpf",
        /// Events of each CPU.
        PerfPerCpu = "perf-per-cpu",
        /// Events of each thread.
        PerfPerTask = "perf-per-task",
        /// Events of each thread, without the kernel.
        PerfUserOnly = "perf-user-only",
        /// By another tool.
        Imported = "imported",
    }
}

words! {
    /// What makes a CPU sample due, as `perf` calls it. Not known also where there are no samples.
    SamplingEvent {
        /// A counter of the CPU.
        Cycles = "cycles",
        /// A timer of the kernel, where there is no such counter.
        CpuClock = "cpu-clock",
    }
}

/// A CPU sample: the thread was on a CPU at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub time: MonoNanos,
    /// Who.
    pub tid: Tid,
    /// On which CPU.
    pub cpu: u32,
    /// Where; kernel frames are innermost. `None`: no frame at all was found.
    pub stack: Option<StackHandle>,
    /// How far the user part of the stack got.
    pub end: StackEnd,
    /// CPU time this sample stands for: the sampling period.
    pub weight: Nanos,
}

/// Why a thread left the CPU, as the scheduler saw it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitState {
    /// Interruptible sleep (`S`).
    Sleep,
    /// Uninterruptible sleep (`D`): usually disk.
    Disk,
    /// Stopped or traced (`T`, `t`).
    Stopped,
    /// Preempted: it was not waiting but ready, and found no CPU (`R`).
    Preempted,
    /// Not known.
    Other,
}

/// One interval in which a thread was not on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Who.
    pub tid: Tid,
    /// Switched out.
    pub start: MonoNanos,
    /// Switched in again.
    pub end: MonoNanos,
    /// Became ready (was woken); `None`: not recorded. From here to `end` it was ready and had no CPU.
    pub ready: Option<MonoNanos>,
    /// The thread whose action woke it ("activated by"). `Tid(0)`: an interrupt on an idle CPU (timer, disk,
    /// network). `None`: not recorded. It may be a thread of another process.
    pub waker: Option<Tid>,
    /// State it was in.
    pub state: WaitState,
    /// System call it waited in (number of the recorded architecture); `None`: not in one (page fault,
    /// preemption), or not recorded.
    pub syscall: Option<u32>,
    /// Its stack while it waited, when one was taken.
    pub stack: Option<StackHandle>,
}

/// Off-CPU samples are taken at regular times, so that each stands for a share of waiting time,
/// like a CPU sample stands for a share of CPU time. Several looks at one wait are one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitSample {
    /// The last look.
    pub time: MonoNanos,
    /// Who.
    pub tid: Tid,
    /// Where; kernel frames are innermost.
    pub stack: Option<StackHandle>,
    /// How far the user part of the stack got.
    pub end: StackEnd,
    /// Waiting time this stands for: looks x period.
    pub weight: Nanos,
    /// System call it waited in, as in [`Wait::syscall`].
    pub syscall: Option<u32>,
    /// State it was in.
    pub state: WaitState,
}

/// What one thread did in an interval, counted by the kernel: exact, unlike samples.
/// `running + ready + waiting` is the length of the interval, up to the length of one open stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateSlice {
    /// Who.
    pub tid: Tid,
    /// Start of the interval.
    pub from: MonoNanos,
    /// End of the interval.
    pub to: MonoNanos,
    /// Time on a CPU.
    pub running: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// Time waiting.
    pub waiting: Nanos,
    /// Times it was switched out because it waited.
    pub voluntary: u32,
    /// Times it was switched out while it could have gone on.
    pub involuntary: u32,
    /// Times it was woken.
    pub wakeups: u32,
}

/// An allocation of native memory (`malloc` and its like), sampled by bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// When it was made.
    pub time: MonoNanos,
    /// By whom.
    pub pid: Pid,
    /// By which thread.
    pub tid: Tid,
    /// From where.
    pub stack: Option<StackHandle>,
    /// How far the stack got.
    pub end: StackEnd,
    /// What was given out.
    pub address: Avma,
    /// Bytes asked for.
    pub size: u64,
    /// Allocated bytes that this one stands for: large ones are always taken and stand for themselves, of small ones some are taken.
    pub weight: u64,
}

/// A sampled allocation was given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// When.
    pub time: MonoNanos,
    /// By whom.
    pub pid: Pid,
    /// What [`Allocation::address`] was.
    pub address: Avma,
}

/// Allocations were watched: all of them counted, some of them sampled. Where watching all the time would slow the target down, there are
/// gaps between these, and what happened in them was not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationWatch {
    /// From.
    pub from: MonoNanos,
    /// Until.
    pub to: MonoNanos,
    /// Until then it was also watched what is given back.
    pub released_to: MonoNanos,
    /// Allocations, all.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Average number of bytes between two samples.
    pub interval: u64,
}

/// All allocations from one stack up to a moment, counted one by one from the start of the program. A later count of the same stack
/// takes the place of an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationCount {
    /// Up to when.
    pub time: MonoNanos,
    /// By whom.
    pub pid: Pid,
    /// From where; `None`: all of the process together.
    pub stack: Option<StackHandle>,
    /// Allocations; a block that is given another size counts again.
    pub calls: u64,
    /// Their bytes, as they were asked for.
    pub bytes: u64,
    /// Of the calls, those that were given back.
    pub released: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Those that were given back before the same thread allocated anything else.
    pub temporary: u64,
    /// The most bytes that were there at one time.
    pub peak: u64,
}

/// A whole trace in memory, as the read half sees it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timeline {
    /// How it was taken.
    pub settings: TraceSettings,
    /// Modules by handle.
    pub modules: Vec<Module>,
    /// Frames by handle.
    pub frames: Vec<Frame>,
    /// Stacks by handle; a caller's handle is always smaller than its callee's.
    pub stacks: Vec<StackNode>,
    /// Names by frame handle; same length as `frames`.
    pub symbols: Vec<Option<FrameSymbols>>,
    /// Threads in order of their start. Tids may repeat when reused.
    pub threads: Vec<ThreadLife>,
    /// Process starts, execs and exits, in order.
    pub process_events: Vec<TimelineEvent>,
    /// CPU samples in order of time.
    pub samples: Vec<Sample>,
    /// Long waits in order of their end.
    pub waits: Vec<Wait>,
    /// Off-CPU samples.
    pub wait_samples: Vec<WaitSample>,
    /// State slices.
    pub states: Vec<StateSlice>,
    /// Sampled allocations in order of time.
    pub allocations: Vec<Allocation>,
    /// What of them was given back, in order of time.
    pub releases: Vec<Release>,
    /// When allocations were watched.
    pub allocation_watches: Vec<AllocationWatch>,
    /// What was allocated, counted without exception, in order of time.
    pub allocation_counts: Vec<AllocationCount>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// The user's marks.
    pub marks: Vec<(MonoNanos, String)>,
    /// First and last time of any event.
    pub span: Option<(MonoNanos, MonoNanos)>,
}

/// A thread and when it lived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadLife {
    /// Who, with its last name.
    pub info: ThreadInfo,
    /// Start: of the thread if `born`, else of its recording.
    pub start: MonoNanos,
    /// It began during the recording.
    pub born: bool,
    /// The thread that created it.
    pub by: Option<Tid>,
    /// Its end, if it ended during the recording.
    pub exit: Option<MonoNanos>,
}

impl Timeline {
    /// The frames of a stack, innermost first. Stops at a handle that is not there (hostile input).
    pub fn frames_of(&self, stack: Option<StackHandle>) -> impl Iterator<Item = FrameHandle> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let handle = next?;
            let node = self.stacks.get(handle.0 as usize)?;
            // A caller is defined before its callee; anything else would be a cycle.
            next = node.caller.filter(|caller| caller.0 < handle.0);
            Some(node.frame)
        })
    }

    /// The sampled allocations, each with whether it was kept: it was not given back, and nothing else was handed out at its address later.
    pub fn allocations_kept(&self) -> impl Iterator<Item = (&Allocation, bool)> + '_ {
        let mut kept = vec![true; self.allocations.len()];
        let mut open: HashMap<(Pid, Avma), usize> = HashMap::new();
        let mut lose = |index: Option<usize>| {
            if let Some(slot) = index.and_then(|index| kept.get_mut(index)) {
                *slot = false;
            }
        };
        let mut releases = self.releases.iter().peekable();
        for (index, allocation) in self.allocations.iter().enumerate() {
            while let Some(one) = releases.next_if(|one| one.time < allocation.time) {
                lose(open.remove(&(one.pid, one.address)));
            }
            lose(open.insert((allocation.pid, allocation.address), index));
        }
        for one in releases {
            lose(open.remove(&(one.pid, one.address)));
        }
        self.allocations.iter().zip(kept)
    }

    /// The module of a frame.
    #[must_use]
    pub fn module_of(&self, frame: FrameHandle) -> Option<(ModuleHandle, &Module)> {
        let handle = self.frames.get(frame.0 as usize)?.module?;
        self.modules.get(handle.0 as usize).map(|module| (handle, module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LookupAddress;
    use crate::stack::{Frame, FrameSpace, StackNode};

    fn timeline(callers: &[Option<u32>]) -> Timeline {
        let stacks = (0..).zip(callers).map(|(number, caller)| StackNode {
            caller: caller.map(StackHandle),
            frame: FrameHandle(number),
        });
        Timeline { stacks: stacks.collect(), ..Timeline::default() }
    }

    #[test]
    fn frames_of_a_stack_are_innermost_first() {
        let timeline = timeline(&[None, Some(0), Some(1), Some(0)]);
        let frames = |stack| timeline.frames_of(stack).map(|frame| frame.0).collect::<Vec<_>>();
        assert_eq!(frames(Some(StackHandle(2))), [2, 1, 0]);
        assert_eq!(frames(Some(StackHandle(3))), [3, 0]);
        assert_eq!(frames(None), []);
        assert_eq!(frames(Some(StackHandle(4))), [], "of a stack that is not there");
    }

    #[test]
    fn callers_that_lead_in_a_circle_or_nowhere_end_the_stack() {
        let timeline = timeline(&[Some(2), Some(1), Some(0), Some(9)]);
        for (stack, expected) in [(0, vec![0]), (1, vec![1]), (2, vec![2, 0]), (3, vec![3])] {
            let frames: Vec<u32> =
                timeline.frames_of(Some(StackHandle(stack))).map(|frame| frame.0).collect();
            assert_eq!(frames, expected, "stack {stack}");
        }
    }

    #[test]
    fn what_was_given_back_or_handed_out_again_is_not_kept() {
        let allocation = |(time, pid, address): (u64, u32, u64)| Allocation {
            time: MonoNanos(time),
            pid: Pid(pid),
            tid: Tid(pid),
            stack: None,
            end: crate::stack::StackEnd::Root,
            address: Avma(address),
            size: 8,
            weight: 8,
        };
        let release = |(time, pid, address): (u64, u32, u64)| Release {
            time: MonoNanos(time),
            pid: Pid(pid),
            address: Avma(address),
        };
        for (allocations, releases, kept) in [
            (&[(1, 1, 16)][..], &[][..], &[true][..]),
            (&[(1, 1, 16)], &[(2, 1, 16)], &[false]),
            // Before it was made, of another process, of another address.
            (&[(5, 1, 16)], &[(2, 1, 16), (6, 2, 16), (7, 1, 32)], &[true]),
            // The address again: the first has gone, seen or not.
            (&[(1, 1, 16), (5, 1, 16)], &[], &[false, true]),
            (&[(1, 1, 16), (5, 1, 16)], &[(3, 1, 16)], &[false, true]),
            (&[(1, 1, 16), (5, 1, 16)], &[(3, 1, 16), (9, 1, 16)], &[false, false]),
            (&[(1, 1, 16), (1, 2, 16)], &[(2, 2, 16)], &[true, false]),
            (&[(1, 1, 16)], &[(2, 1, 16), (2, 1, 16)], &[false]),
        ] {
            let timeline = Timeline {
                allocations: allocations.iter().copied().map(allocation).collect(),
                releases: releases.iter().copied().map(release).collect(),
                ..Timeline::default()
            };
            let found: Vec<bool> = timeline.allocations_kept().map(|(_, kept)| kept).collect();
            assert_eq!(found, kept, "{allocations:?} {releases:?}");
        }
    }

    #[test]
    fn a_frame_has_the_module_that_is_there() {
        let frame = |module: Option<u32>| Frame {
            space: FrameSpace::User,
            module: module.map(ModuleHandle),
            address: LookupAddress(1),
        };
        let timeline = Timeline { frames: vec![frame(None), frame(Some(7))], ..Timeline::default() };
        for handle in 0..3 {
            assert!(timeline.module_of(FrameHandle(handle)).is_none(), "frame {handle}");
        }
    }

    /// Frames of two modules that are the same file: each has the one that it names.
    #[test]
    fn a_frame_has_the_module_that_it_names_and_no_namesake() {
        let module = |start| Module {
            pid: Pid(7),
            kind: crate::module::ModuleKind::Elf,
            path: "/usr/lib/libc.so.6".to_owned(),
            build_id: None,
            start: Avma(start),
            end: Avma(start + 0x1000),
            offset: crate::FileOffset(0),
            since: MonoNanos(0),
            deleted: false,
        };
        let frame = |module| Frame {
            space: FrameSpace::User,
            module: Some(ModuleHandle(module)),
            address: LookupAddress(1),
        };
        let timeline = Timeline {
            modules: vec![module(0x1000), module(0x8000)],
            frames: vec![frame(1), frame(0), frame(2)],
            ..Timeline::default()
        };
        let found =
            |number| timeline.module_of(FrameHandle(number)).map(|(handle, one)| (handle.0, one.start.0));
        assert_eq!([0, 1, 2].map(found), [Some((1, 0x8000)), Some((0, 0x1000)), None]);
    }
}
