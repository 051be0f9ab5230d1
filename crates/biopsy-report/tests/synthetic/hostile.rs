//! Recordings in which everything may be wrong: handles to nowhere, times at the ends of the clock, names that want to
//! be markup, numbers that are none.

mod runtimes;

use super::{Dice, empty};
use biopsy_model::capture::{Capture, RedactionCount};
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind, ThreadInfo};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{Sample, StateSlice, ThreadLife, Timeline, Wait, WaitSample, WaitState};
use biopsy_model::{
    Avma, BootId, ClockPair, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, ProcessKey, Tid,
};

/// Names that mean something somewhere.
pub const NAMES: &[&str] = &[
    "",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!--",
    "]]>",
    "javascript:alert(3)",
    "a;b\nc\td\r",
    "\u{2028}\u{202e}\u{0}\u{feff}",
    "\x1b[31mred",
    "std::vec::Vec<T, A>::push",
    "| a | `b` | *c* |",
    "&lt;script&gt;",
    "${7*7}{{7*7}}",
    "ein sehr langer Name mit Umlauten: äöüß €",
    "\"quoted\" 'twice' \\",
];

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        (self.roll() * limit as f64) as usize % limit.max(1)
    }

    fn name(&mut self) -> String {
        let name = NAMES[self.below(NAMES.len())];
        if self.roll() < 0.02 { name.repeat(400) } else { name.to_owned() }
    }

    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(u32::MAX),
            3 => i64::MAX as u64,
            _ => (self.roll() * 1e11) as u64,
        }
    }

    fn small(&mut self) -> u32 {
        if self.roll() < 0.05 { u32::MAX } else { self.below(12) as u32 }
    }

    fn time(&mut self) -> MonoNanos {
        MonoNanos(self.number())
    }

    fn real(&mut self) -> f64 {
        match self.below(9) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => f64::MAX,
            4 => f64::MIN_POSITIVE,
            5 => -1.0,
            6 => 0.0,
            _ => self.roll() * 1e9,
        }
    }

    fn some<T>(&mut self, value: T) -> Option<T> {
        (self.roll() < 0.6).then_some(value)
    }
}

/// A recording from a seed.
pub fn hostile(seed: u64) -> Capture {
    let mut dice = Dice(seed);
    let dice = &mut dice;
    dice.roll();
    let mut capture = empty();
    let header = &mut capture.header;
    header.target_name = dice.name();
    header.tool = dice.name();
    header.command = vec![dice.name(), dice.name()];
    header.ended_by = dice.name().as_str().into();
    header.start = clock(dice);
    let end = clock(dice);
    header.end = dice.some(end);
    header.host.os = dice.name();
    header.host.cpus = dice.small();
    header.host.memory = dice.number();
    capture.processes = (0..dice.below(4)).map(|_| process(dice)).collect();
    let timeline = timeline(dice);
    capture.timeline = dice.some(timeline);
    capture.metrics = (0..dice.below(4)).map(|_| table(dice)).collect();
    capture.logs = (0..dice.below(3)).map(|_| log(dice)).collect();
    capture.context = (0..dice.below(3)).map(|_| (dice.name(), dice.name())).collect();
    capture.warnings = (0..dice.below(3))
        .map(|_| Warning {
            code: dice.name(),
            message: dice.name(),
            hint: Some(dice.name()),
            time: Some(dice.time()),
        })
        .collect();
    capture.redactions = (0..dice.below(3))
        .map(|_| RedactionCount { member: dice.name(), rule: dice.name(), count: dice.number() })
        .collect();
    capture.runtimes = (0..dice.below(4)).map(|_| dice.runtime()).collect();
    capture
}

fn clock(dice: &mut Dice) -> ClockPair {
    ClockPair {
        mono: dice.time(),
        wall_unix_nanos: [0, 1, -1, i128::MAX, i128::MIN, 1_763_720_823_000_000_000][dice.below(6)],
        utc_offset_seconds: [0, 3600, i32::MAX, i32::MIN][dice.below(4)],
        zone: dice.name(),
    }
}

fn process(dice: &mut Dice) -> ProcessInfo {
    ProcessInfo {
        key: ProcessKey { boot_id: BootId(dice.name()), pid: Pid(dice.small()), start_ticks: dice.number() },
        parent: Pid(dice.small()),
        name: dice.name(),
        exe: dice.name(),
        exe_deleted: true,
        command_line: vec![dice.name()],
        uid: dice.small(),
        runtime: Runtime { kind: RuntimeKind::Unknown, version: Some(dice.name()), entry: Some(dice.name()) },
        ns_pid: Some(dice.small()),
        cgroup: dice.name(),
        container_id: Some(dice.name()),
        unit: Some(dice.name()),
    }
}

fn timeline(dice: &mut Dice) -> Timeline {
    let mut timeline = Timeline::default();
    let settings = &mut timeline.settings;
    settings.frequency_hz = [0, 1, 999, u32::MAX][dice.below(4)];
    settings.sampling_event = dice.name().as_str().into();
    settings.method = dice.name().as_str().into();
    settings.has_states = dice.roll() < 0.7;
    settings.has_wakeups = dice.roll() < 0.7;
    for _ in 0..dice.below(6) {
        let kinds =
            [ModuleKind::Elf, ModuleKind::Kernel, ModuleKind::Vdso, ModuleKind::Jit, ModuleKind::OtherFile];
        timeline.modules.push(Module {
            pid: Pid(dice.small()),
            kind: kinds[dice.below(5)],
            path: dice.name(),
            build_id: Some(vec![0xff; dice.below(40)]),
            start: Avma(dice.number()),
            end: Avma(dice.number()),
            offset: FileOffset(dice.number()),
            since: dice.time(),
            deleted: true,
        });
    }
    for number in 0..dice.below(30) {
        let module = ModuleHandle(dice.small());
        let space = if dice.roll() < 0.5 { FrameSpace::User } else { FrameSpace::Kernel };
        timeline.frames.push(Frame {
            space,
            module: dice.some(module),
            address: LookupAddress(dice.number()),
        });
        let function = Function { name: dice.name(), file: Some(dice.name()), line: Some(dice.small()) };
        let functions = vec![function; dice.below(3)];
        let frame = FrameHandle(number as u32);
        timeline.symbols.push(dice.some(FrameSymbols { frame, functions, source: SymbolSource::Imported }));
    }
    // Fewer or more names than frames are possible in a damaged file.
    timeline.symbols.truncate(dice.below(40));
    for _ in 0..dice.below(60) {
        let caller = StackHandle(dice.below(60) as u32);
        timeline
            .stacks
            .push(StackNode { caller: dice.some(caller), frame: FrameHandle(dice.below(32) as u32) });
    }
    for _ in 0..dice.below(10) {
        timeline.threads.push(ThreadLife {
            info: ThreadInfo { tid: Tid(dice.small()), pid: Pid(dice.small()), name: dice.name() },
            start: dice.time(),
            born: dice.roll() < 0.5,
            by: Some(Tid(dice.small())),
            exit: Some(dice.time()),
        });
    }
    let stack = |dice: &mut Dice| {
        let handle = StackHandle(dice.below(70) as u32);
        dice.some(handle)
    };
    for _ in 0..dice.below(80) {
        timeline.samples.push(Sample {
            time: dice.time(),
            tid: Tid(dice.small()),
            cpu: dice.small(),
            stack: stack(dice),
            end: StackEnd::Root,
            weight: Nanos(dice.number()),
        });
        timeline.wait_samples.push(WaitSample {
            time: dice.time(),
            tid: Tid(dice.small()),
            stack: stack(dice),
            end: StackEnd::Truncated,
            weight: Nanos(dice.number()),
            syscall: Some(dice.small()),
            state: WaitState::Sleep,
        });
        let states =
            [WaitState::Sleep, WaitState::Disk, WaitState::Stopped, WaitState::Preempted, WaitState::Other];
        timeline.waits.push(Wait {
            tid: Tid(dice.small()),
            start: dice.time(),
            end: dice.time(),
            ready: Some(dice.time()),
            waker: Some(Tid(dice.small())),
            state: states[dice.below(5)],
            syscall: Some(dice.small()),
            stack: stack(dice),
        });
        timeline.states.push(StateSlice {
            tid: Tid(dice.small()),
            from: dice.time(),
            to: dice.time(),
            running: Nanos(dice.number()),
            ready: Nanos(dice.number()),
            waiting: Nanos(dice.number()),
            voluntary: dice.small(),
            involuntary: dice.small(),
            wakeups: dice.small(),
        });
    }
    if dice.roll() < 0.3 {
        timeline.wait_samples.clear();
    }
    for _ in 0..dice.below(5) {
        timeline.losses.push(Loss {
            kind: LossKind::Samples,
            from: dice.time(),
            to: dice.time(),
            count: dice.number(),
            pid: None,
            tid: Some(Tid(dice.small())),
        });
        timeline.marks.push((dice.time(), dice.name()));
    }
    let span = (dice.time(), dice.time());
    timeline.span = dice.some(span);
    timeline
}

fn table(dice: &mut Dice) -> MetricTable {
    let names = ["system", "disks", "network", "processes", "threads", "cgroups", "<b>"];
    let columns = [
        "cpu.user",
        "cpu.system",
        "memory.rss",
        "memory.total",
        "busy",
        "throttled.ratio",
        "cpu.quota",
        "cpu.usage",
    ];
    MetricTable {
        name: names[dice.below(7)].into(),
        keys: vec!["pid".into(), "name".into()],
        columns: (0..dice.below(8))
            .map(|index| Column {
                name: columns[index].into(),
                unit: [Unit::Cores, Unit::Bytes, Unit::Ratio][dice.below(3)],
            })
            .collect(),
        rows: (0..dice.below(50))
            .map(|_| MetricRow {
                time: dice.time(),
                keys: (0..dice.below(3)).map(|_| dice.small().to_string()).collect(),
                values: (0..dice.below(9))
                    .map(|_| {
                        let value = dice.real();
                        dice.some(value)
                    })
                    .collect(),
            })
            .collect(),
    }
}

fn log(dice: &mut Dice) -> LogFile {
    LogFile {
        source: dice.name(),
        member: dice.name(),
        assumed_zone: dice.name(),
        lines: (0..dice.below(30))
            .map(|_| {
                let time = dice.time();
                let levels =
                    [LogLevel::Unknown, LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error];
                LogLine { time: dice.some(time), level: levels[dice.below(5)], text: dice.name() }
            })
            .collect(),
    }
}
