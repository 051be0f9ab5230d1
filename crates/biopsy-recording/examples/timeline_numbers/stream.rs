//! A made-up stream with the rates and shapes that were measured on MariaDB under sysbench (`facts` of issue 3):
//! two CPUs sampled at 999 Hz, stacks 18 frames deep, waits of at least a millisecond, lock convoys on futexes.

use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Sample, StateSlice, TimelineEvent, Wait, WaitSample, WaitState};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};

pub(crate) const THREADS: u32 = 29;
const PERIOD: u64 = 1_001_001;
const WAITS_PER_SECOND: u64 = 3_000;
const LOOKS_PER_SECOND: u64 = 500;
const SLICES_PER_SECOND: u64 = 10;

pub(crate) struct Stream {
    pub(crate) events: Vec<TimelineEvent>,
    random: Random,
    /// Depth and caller of each stack.
    stacks: Vec<(u32, Option<StackHandle>)>,
    frames: u32,
    /// Stacks that are whole: what samples refer to.
    leaves: Vec<StackHandle>,
}

impl Stream {
    pub(crate) fn make(seconds: u64) -> Self {
        let mut stream = Self {
            events: Vec::new(),
            random: Random(0x9e37_79b9_7f4a_7c15),
            stacks: Vec::new(),
            frames: 0,
            leaves: Vec::new(),
        };
        for number in 0..7 {
            stream.events.push(TimelineEvent::Module(module(number)));
        }
        // A machine that has been up for five days.
        let start = 5 * 86_400 * 1_000_000_000;
        for second in 0..seconds {
            stream.second(start + second * 1_000_000_000);
        }
        stream
    }

    fn second(&mut self, start: u64) {
        let mut moments: Vec<(u64, u8, u32)> = Vec::new();
        for cpu in 0..2 {
            let phase = self.random.below(PERIOD);
            for tick in 0..999 {
                // Timer jitter of some microseconds; one tick in twenty finds another process.
                if self.random.below(20) != 0 {
                    moments.push((phase + tick * PERIOD + self.random.below(8_000), 0, cpu));
                }
            }
        }
        for (rate, kind) in [(WAITS_PER_SECOND, 1), (LOOKS_PER_SECOND, 2)] {
            for _ in 0..rate {
                moments.push((self.random.below(1_000_000_000), kind, 0));
            }
        }
        for slice in 0..SLICES_PER_SECOND {
            for thread in 0..THREADS {
                moments.push((slice * 100_000_000 + u64::from(thread) * 300, 3, thread));
            }
        }
        moments.sort_unstable();
        for (offset, kind, which) in moments {
            self.event(MonoNanos(start + offset), kind, which);
        }
    }

    fn event(&mut self, now: MonoNanos, kind: u8, which: u32) {
        let tid = self.thread();
        match kind {
            0 => {
                let stack = Some(self.stack());
                let end = if self.random.below(200) == 0 { StackEnd::FramePointers } else { StackEnd::Root };
                let weight = Nanos(PERIOD);
                self.events.push(TimelineEvent::Sample(Sample {
                    time: now,
                    tid,
                    cpu: which,
                    stack,
                    end,
                    weight,
                }));
            }
            1 => {
                let length = 1_000_000 + self.random.below(4) * self.random.below(20_000_000);
                let ready = Some(MonoNanos(now.0 - 2_000 - self.random.below(60_000)));
                let (state, syscall) = match self.random.below(10) {
                    0 => (WaitState::Disk, Some(74)),
                    1 => (WaitState::Sleep, Some(7)),
                    _ => (WaitState::Sleep, Some(202)),
                };
                let waker = Some(if self.random.below(5) == 0 { Tid(0) } else { self.thread() });
                let stack = (self.random.below(4) == 0).then(|| self.stack());
                let start = MonoNanos(now.0 - length);
                self.events.push(TimelineEvent::Wait(Wait {
                    tid,
                    start,
                    end: now,
                    ready,
                    waker,
                    state,
                    syscall,
                    stack,
                }));
            }
            2 => {
                let stack = Some(self.stack());
                let weight = Nanos(10_000_000 * (1 + self.random.below(3)));
                self.events.push(TimelineEvent::WaitSample(WaitSample {
                    time: now,
                    tid,
                    stack,
                    end: StackEnd::Root,
                    weight,
                    syscall: Some(202),
                    state: WaitState::Sleep,
                }));
            }
            _ => {
                let length = 100_000_000 + self.random.below(50_000);
                let running = self.random.below(9_000_000);
                let ready = self.random.below(9_000_000);
                let switches = self.random.below(200) as u32;
                self.events.push(TimelineEvent::States(StateSlice {
                    tid: Tid(40_000 + which),
                    from: MonoNanos(now.0 - length),
                    to: now,
                    running: Nanos(running),
                    ready: Nanos(ready),
                    waiting: Nanos(length - running - ready),
                    voluntary: switches,
                    involuntary: switches / 7,
                    wakeups: switches,
                }));
            }
        }
    }

    /// A stack: usually a known one, the early ones more often; new ones ever more rarely.
    fn stack(&mut self) -> StackHandle {
        let known = self.leaves.len() as u64;
        if self.random.below(known + 800) < 800 {
            return self.new_stack();
        }
        let skewed = self.random.unit().powi(3);
        self.leaves[((skewed * known as f64) as usize).min(self.leaves.len() - 1)]
    }

    /// A stack that branches off a known one near its innermost end.
    fn new_stack(&mut self) -> StackHandle {
        let mut caller = match self.leaves.len() as u64 {
            0 => None,
            known => {
                let mut node = Some(self.leaves[self.random.below(known) as usize]);
                for _ in 0..self.random.below(5) {
                    node = node.and_then(|handle| self.caller(handle)).or(node);
                }
                node
            }
        };
        let depth =
            |stream: &Self, node: Option<StackHandle>| node.map_or(0, |n| stream.stacks[n.0 as usize].0);
        let wanted = 10 + self.random.below(16) as u32;
        loop {
            let frame = self.frame();
            let handle = StackHandle(self.stacks.len() as u32);
            self.stacks.push((depth(self, caller) + 1, caller));
            self.events.push(TimelineEvent::Stack(StackNode { caller, frame }));
            caller = Some(handle);
            if depth(self, caller) >= wanted {
                self.leaves.push(handle);
                return handle;
            }
        }
    }

    fn caller(&self, handle: StackHandle) -> Option<StackHandle> {
        self.stacks[handle.0 as usize].1
    }

    fn frame(&mut self) -> FrameHandle {
        if self.random.below(u64::from(self.frames) + 1_500) < 1_500 {
            let kernel = self.random.below(4) == 0;
            let (space, module, base) = if kernel {
                (FrameSpace::Kernel, 0, 0xffff_ffff_8100_0000)
            } else {
                (FrameSpace::User, 1 + self.random.below(6) as u32, 0x40_0000)
            };
            let address = base + self.random.below(20 << 20);
            self.events.push(TimelineEvent::Frame(Frame {
                space,
                module: Some(ModuleHandle(module)),
                address: LookupAddress(address),
            }));
            self.frames += 1;
            return FrameHandle(self.frames - 1);
        }
        FrameHandle(self.random.below(u64::from(self.frames)) as u32)
    }

    /// Eight of the threads do nearly everything.
    fn thread(&mut self) -> Tid {
        let few = self.random.below(10) != 0;
        Tid(40_000 + self.random.below(if few { 8 } else { u64::from(THREADS) }) as u32)
    }
}

fn module(number: u32) -> Module {
    Module {
        pid: Pid(if number == 0 { 0 } else { 40_000 }),
        kind: if number == 0 { ModuleKind::Kernel } else { ModuleKind::Elf },
        path: format!("/usr/lib/x86_64-linux-gnu/lib{number}.so"),
        build_id: Some(vec![number as u8; 20]),
        start: Avma(0x40_0000),
        end: Avma(0x200_0000),
        offset: FileOffset(0),
        since: MonoNanos(0),
        deleted: false,
    }
}

/// xorshift64*: the same stream every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
