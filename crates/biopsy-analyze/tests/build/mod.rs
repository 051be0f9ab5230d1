//! Makes recordings for tests: what a recorder would have written about a program with a known behaviour.

#![allow(unreachable_pub, reason = "a module of a test is reachable from nowhere else")]
#![allow(dead_code, reason = "each test file uses its part of the builder")]

pub mod dotnet;

use biopsy_model::capture::{Capture, CaptureHeader, HostInfo};
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Sample, StateSlice, ThreadLife, Timeline, TraceSettings, Wait, WaitSample, WaitState,
};
use biopsy_model::{
    Avma, BootId, ClockPair, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, ProcessKey, Tid,
};
use std::collections::HashMap;

pub const START: u64 = 1_000_000_000_000;
pub const MS: u64 = 1_000_000;
pub const PID: u32 = 4711;

/// x86-64 system calls.
pub mod call {
    pub const READ: u32 = 0;
    pub const POLL: u32 = 7;
    pub const NANOSLEEP: u32 = 35;
    pub const RECVFROM: u32 = 45;
    pub const FSYNC: u32 = 74;
    pub const FUTEX: u32 = 202;
    pub const EPOLL_WAIT: u32 = 232;
}

/// How a thread waits, again and again over the whole recording.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    /// Outermost first: `module!function`, `k:function` for the kernel.
    pub stack: &'a [&'a str],
    pub syscall: u32,
    pub state: WaitState,
    /// Share of the recording.
    pub share: f64,
    /// Length of one wait.
    pub each_ms: f64,
    pub waker: Option<u32>,
}

pub struct Build {
    pub capture: Capture,
    pub timeline: Timeline,
    seconds: u64,
    frames: HashMap<String, FrameHandle>,
    modules: HashMap<String, ModuleHandle>,
    stacks: HashMap<(Option<StackHandle>, FrameHandle), StackHandle>,
    running: HashMap<u32, f64>,
    ready: HashMap<u32, f64>,
    switches: HashMap<u32, u64>,
}

impl Build {
    pub fn new(name: &str, seconds: u64, cpus: u32) -> Build {
        let clock = |at: u64| ClockPair {
            mono: MonoNanos(START + at),
            wall_unix_nanos: 1_700_000_000_000_000_000 + i128::from(at),
            ..ClockPair::default()
        };
        let header = CaptureHeader {
            tool: "biopsy test".to_owned(),
            start: clock(0),
            end: Some(clock(seconds * 1_000_000_000)),
            target: Some(ProcessKey { boot_id: BootId::default(), pid: Pid(PID), start_ticks: 1 }),
            target_name: name.to_owned(),
            host: HostInfo { cpus, architecture: "x86_64".to_owned(), ..HostInfo::default() },
            ended_by: "time".into(),
            ..CaptureHeader::default()
        };
        let settings = TraceSettings {
            frequency_hz: 999,
            sampling_event: "cpu-clock".into(),
            method: "bpf".into(),
            wait_threshold: Nanos(MS),
            wait_sample_period: Nanos(10 * MS),
            has_states: true,
            has_wakeups: true,
            has_kernel_stacks: true,
            follows_children: false,
        };
        Build {
            capture: Capture {
                header,
                processes: vec![],
                timeline: None,
                looks: Vec::new(),
                runtimes: Vec::new(),
                metrics: vec![],
                logs: vec![],
                context: vec![],
                warnings: vec![],
                redactions: vec![],
            },
            timeline: Timeline { settings, ..Timeline::default() },
            seconds,
            frames: HashMap::new(),
            modules: HashMap::new(),
            stacks: HashMap::new(),
            running: HashMap::new(),
            ready: HashMap::new(),
            switches: HashMap::new(),
        }
    }

    pub fn at(&self, share: f64) -> MonoNanos {
        MonoNanos(START + (self.seconds as f64 * 1e9 * share) as u64)
    }

    pub fn thread(&mut self, tid: u32, name: &str) -> &mut Self {
        self.life(tid, name, None, None)
    }

    pub fn life(&mut self, tid: u32, name: &str, born: Option<f64>, by: Option<u32>) -> &mut Self {
        let start = self.at(born.unwrap_or(0.0));
        self.timeline.threads.push(ThreadLife {
            info: ThreadInfo { tid: Tid(tid), pid: Pid(PID), name: name.to_owned() },
            start,
            born: born.is_some(),
            by: by.map(Tid),
            exit: None,
        });
        self
    }

    pub fn stack(&mut self, frames: &[&str]) -> Option<StackHandle> {
        let mut at = None;
        for text in frames {
            let frame = self.frame(text);
            let next = StackHandle(self.timeline.stacks.len() as u32);
            let handle = *self.stacks.entry((at, frame)).or_insert(next);
            if handle == next {
                self.timeline.stacks.push(StackNode { caller: at, frame });
            }
            at = Some(handle);
        }
        at
    }

    fn frame(&mut self, text: &str) -> FrameHandle {
        if let Some(&frame) = self.frames.get(text) {
            return frame;
        }
        let (space, module, name) = match text.strip_prefix("k:") {
            Some(name) => (FrameSpace::Kernel, "[kernel.kallsyms]", name),
            None => {
                let (module, name) = text.split_once('!').expect("module!function");
                (FrameSpace::User, module, name)
            }
        };
        let module = self.module(module);
        let handle = FrameHandle(self.timeline.frames.len() as u32);
        self.timeline.frames.push(Frame {
            space,
            module: Some(module),
            address: LookupAddress(u64::from(handle.0) * 16 + 0x1000),
        });
        // `module!` alone is a frame without a name; `a<b` is `a` inlined into `b`.
        self.timeline.symbols.push((!name.is_empty()).then(|| {
            FrameSymbols {
                frame: handle,
                functions: name
                    .split('<')
                    .map(|name| Function { name: name.to_owned(), file: None, line: None })
                    .collect(),
                source: SymbolSource::ElfSymbols,
            }
        }));
        self.frames.insert(text.to_owned(), handle);
        handle
    }

    fn module(&mut self, name: &str) -> ModuleHandle {
        if let Some(&module) = self.modules.get(name) {
            return module;
        }
        let handle = ModuleHandle(self.timeline.modules.len() as u32);
        let kernel = name.starts_with("[kernel");
        self.timeline.modules.push(Module {
            pid: Pid(if kernel { 0 } else { PID }),
            kind: match name {
                _ if kernel => ModuleKind::Kernel,
                "jit" => ModuleKind::Jit,
                // Precompiled managed code is in a file that is no ELF file.
                _ if name.ends_with(".dll") => ModuleKind::OtherFile,
                _ => ModuleKind::Elf,
            },
            path: if kernel { name.to_owned() } else { format!("/usr/lib/{name}") },
            build_id: None,
            start: Avma(0),
            end: Avma(u64::MAX),
            offset: FileOffset(0),
            since: MonoNanos(START),
            deleted: false,
        });
        self.modules.insert(name.to_owned(), handle);
        handle
    }

    /// The thread is on a CPU for `share` of the recording, with this stack (outermost first).
    pub fn cpu(&mut self, tid: u32, share: f64, stack: &[&str]) -> &mut Self {
        let stack = self.stack(stack);
        let count = (self.seconds as f64 * 1_000.0 * share).round() as u64;
        for number in 0..count {
            let time = self.at((number as f64 + 0.5) / count as f64);
            let weight = Nanos(MS);
            self.timeline.samples.push(Sample {
                time,
                tid: Tid(tid),
                cpu: 0,
                stack,
                end: StackEnd::Root,
                weight,
            });
        }
        *self.running.entry(tid).or_default() += share;
        self
    }

    /// The thread is ready without a CPU for `share` of the recording.
    pub fn ready(&mut self, tid: u32, share: f64) -> &mut Self {
        *self.ready.entry(tid).or_default() += share;
        self
    }

    pub fn switches(&mut self, tid: u32, per_second: u64) -> &mut Self {
        *self.switches.entry(tid).or_default() += per_second;
        self
    }

    /// The thread waits.
    pub fn wait(&mut self, tid: u32, waiting: Waiting<'_>) -> &mut Self {
        let stack = self.stack(waiting.stack);
        let total = self.seconds as f64 * 1e3 * waiting.share;
        let count = (total / waiting.each_ms).round().max(1.0) as u64;
        let each = total / count as f64;
        for number in 0..count {
            let start = self.at((number as f64) / count as f64);
            let end = start + Nanos((each * 1e6) as u64);
            if each >= 1.0 {
                self.timeline.waits.push(Wait {
                    tid: Tid(tid),
                    start,
                    end,
                    ready: Some(end),
                    waker: waiting.waker.map(Tid),
                    state: waiting.state,
                    syscall: Some(waiting.syscall),
                    stack: None,
                });
            }
            self.timeline.wait_samples.push(WaitSample {
                time: end,
                tid: Tid(tid),
                stack,
                end: StackEnd::Root,
                weight: Nanos((each * 1e6) as u64),
                syscall: Some(waiting.syscall),
                state: waiting.state,
            });
        }
        self
    }

    /// Readings once a second: `value(second)` for each column.
    pub fn metric(
        &mut self,
        table: &str,
        keys: &[(&str, &str)],
        columns: &[(&str, &dyn Fn(f64) -> f64)],
    ) -> &mut Self {
        let names: Vec<String> = keys.iter().map(|key| key.0.to_owned()).collect();
        let mut made = MetricTable {
            name: table.to_owned(),
            keys: names,
            columns: columns
                .iter()
                .map(|(name, _)| Column { name: (*name).to_owned(), unit: Unit::Count })
                .collect(),
            rows: vec![],
        };
        for second in 1..=self.seconds {
            made.rows.push(MetricRow {
                time: MonoNanos(START + second * 1_000_000_000),
                keys: keys.iter().map(|key| key.1.to_owned()).collect(),
                values: columns.iter().map(|(_, value)| Some(value(second as f64))).collect(),
            });
        }
        match self.capture.metrics.iter_mut().find(|known| known.name == table) {
            // Said again of the same thing, the later counts.
            Some(known) if known.columns == made.columns => {
                let keys = made.rows.first().map(|row| row.keys.clone()).unwrap_or_default();
                known.rows.retain(|row| row.keys != keys);
                known.rows.extend(made.rows);
                known.rows.sort_by_key(|row| row.time);
            }
            _ => self.capture.metrics.push(made),
        }
        self
    }

    /// A machine with nothing wrong, `busy` of its CPUs in use.
    pub fn machine(&mut self, busy: f64) -> &mut Self {
        self.metric(
            "system",
            &[],
            &[
                ("cpu.busy", &move |_| busy),
                ("cpu.steal", &|_| 0.0),
                ("memory.total", &|_| 16e9),
                ("memory.available", &|_| 9e9),
                ("pressure.memory.some", &|_| 0.0),
                ("pressure.io.some", &|_| 0.01),
                ("pressure.cpu.some", &|_| 0.02),
                ("swap.in", &|_| 0.0),
                ("swap.out", &|_| 0.0),
                ("tcp.listen.overflows", &|_| 0.0),
            ],
        )
    }

    pub fn log(&mut self, lines: &[(f64, LogLevel, &str)]) -> &mut Self {
        let lines = lines
            .iter()
            .map(|&(share, level, text)| LogLine { time: Some(self.at(share)), level, text: text.to_owned() })
            .collect();
        self.capture.logs.push(LogFile {
            source: "/var/log/server.log".to_owned(),
            member: "logs/server.log".to_owned(),
            assumed_zone: "UTC".to_owned(),
            lines,
        });
        self
    }

    /// The recording, with state slices of 100 ms that agree with what was said about each thread.
    pub fn done(mut self) -> Capture {
        let slice = 100 * MS;
        for life in &self.timeline.threads {
            let tid = life.info.tid;
            let running = self.running.get(&tid.0).copied().unwrap_or(0.0).min(1.0);
            let ready = self.ready.get(&tid.0).copied().unwrap_or(0.0).min(1.0 - running);
            let switches = self.switches.get(&tid.0).copied().unwrap_or(20) as u32 / 10;
            let part = |share: f64| Nanos((slice as f64 * share) as u64);
            for number in 0..self.seconds * 10 {
                let from = MonoNanos(START + number * slice);
                if from < life.start {
                    continue;
                }
                self.timeline.states.push(StateSlice {
                    tid,
                    from,
                    to: from + Nanos(slice),
                    running: part(running),
                    ready: part(ready),
                    waiting: part((1.0 - running - ready).max(0.0)),
                    voluntary: switches,
                    involuntary: 0,
                    wakeups: switches,
                });
            }
        }
        self.timeline.samples.sort_by_key(|sample| sample.time);
        self.timeline.waits.sort_by_key(|wait| wait.end);
        self.timeline.span = Some((MonoNanos(START), self.at(1.0)));
        self.capture.timeline = Some(self.timeline);
        self.capture
    }

    /// The recording without a trace.
    pub fn without_trace(self) -> Capture {
        self.capture
    }
}

pub const IDLE: Waiting<'static> = Waiting {
    stack: &[
        "libc.so.6!__libc_start_main",
        "server!main",
        "server!event_loop",
        "libc.so.6!epoll_wait",
        "k:do_syscall_64",
        "k:do_epoll_wait",
        "k:ep_poll",
        "k:schedule_hrtimeout_range",
        "k:schedule",
        "k:__schedule",
    ],
    syscall: call::EPOLL_WAIT,
    state: WaitState::Sleep,
    share: 0.95,
    each_ms: 20.0,
    waker: Some(0),
};

pub const IN_LOCK: Waiting<'static> = Waiting {
    stack: &[
        "libc.so.6!start_thread",
        "server!worker_main",
        "server!append_under_lock",
        "libc.so.6!pthread_mutex_lock",
        "libc.so.6!",
        "k:do_syscall_64",
        "k:do_futex",
        "k:futex_wait",
        "k:schedule",
        "k:__schedule",
    ],
    syscall: call::FUTEX,
    state: WaitState::Sleep,
    share: 0.85,
    each_ms: 7.0,
    waker: None,
};

pub const IN_CONDITION: Waiting<'static> = Waiting {
    stack: &[
        "libc.so.6!start_thread",
        "server!worker_main",
        "server!Queue::take",
        "libc.so.6!pthread_cond_wait",
        "k:do_syscall_64",
        "k:do_futex",
        "k:futex_wait",
        "k:schedule",
        "k:__schedule",
    ],
    syscall: call::FUTEX,
    state: WaitState::Sleep,
    share: 0.9,
    each_ms: 15.0,
    waker: None,
};
