//! A small recording with everything in it, for tests.

use biopsy_model::capture::{Capture, CaptureHeader, HostInfo, RedactionCount};
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind, ThreadInfo};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Sample, StateSlice, ThreadLife, Timeline, TimelineEvent, TraceSettings, Wait, WaitSample, WaitState,
};
use biopsy_model::{
    Avma, BootId, ClockPair, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, ProcessKey, Tid,
};

use crate::RecordingFolder;

/// The recording, as it is read back.
pub(crate) fn sample_capture() -> Capture {
    let pair = |mono| ClockPair {
        mono: MonoNanos(mono),
        wall_unix_nanos: 1_763_720_628_123_456_789,
        utc_offset_seconds: 3600,
        zone: "Europe/Berlin".to_owned(),
    };
    let key = ProcessKey { boot_id: BootId("b-1".to_owned()), pid: Pid(4711), start_ticks: 99 };
    Capture {
        header: CaptureHeader {
            tool: "biopsy 0.1.0".to_owned(),
            command: vec!["biopsy".to_owned(), "capture".to_owned()],
            start: pair(1_000),
            end: Some(pair(2_000)),
            target: Some(key.clone()),
            target_name: "mariadbd".to_owned(),
            host: HostInfo { hostname: "h".to_owned(), cpus: 2, memory: 8 << 30, ..HostInfo::default() },
            ended_by: "time".into(),
        },
        processes: vec![ProcessInfo {
            key,
            parent: Pid(1),
            name: "mariadbd".to_owned(),
            exe: "/usr/sbin/mariadbd".to_owned(),
            exe_deleted: true,
            command_line: vec!["mariadbd".to_owned(), String::new()],
            uid: 106,
            runtime: Runtime { kind: RuntimeKind::Native, version: None, entry: None },
            ns_pid: Some(7),
            cgroup: "/system.slice/mariadb.service".to_owned(),
            container_id: None,
            unit: Some("mariadb.service".to_owned()),
        }],
        timeline: Some(sample_timeline()),
        runtimes: Vec::new(),
        looks: Vec::new(),
        metrics: vec![MetricTable {
            name: "disks".to_owned(),
            keys: vec!["device".to_owned()],
            columns: vec![
                Column { name: "read.throughput".to_owned(), unit: Unit::BytesPerSecond },
                Column { name: "queue".to_owned(), unit: Unit::Count },
            ],
            rows: vec![
                MetricRow {
                    time: MonoNanos(1_100),
                    keys: vec!["sd \"a\",\n1".to_owned()],
                    values: vec![Some(0.1), None],
                },
                MetricRow {
                    time: MonoNanos(1_200),
                    keys: vec![String::new()],
                    values: vec![Some(-1e300), Some(4.0)],
                },
            ],
        }],
        logs: vec![LogFile {
            source: "/var/log/mysql/error.log".to_owned(),
            member: "logs/var_log_mysql_error.log.jsonl".to_owned(),
            assumed_zone: "UTC".to_owned(),
            lines: vec![
                LogLine { time: Some(MonoNanos(1_150)), level: LogLevel::Warning, text: "a\nb".to_owned() },
                LogLine { time: None, level: LogLevel::Unknown, text: String::new() },
            ],
        }],
        context: vec![("target/4711/limits.txt".to_owned(), "Max open files 1024\n".to_owned())],
        warnings: vec![Warning {
            code: "trace.no-bpf".to_owned(),
            message: "m".to_owned(),
            hint: Some("h".to_owned()),
            time: Some(MonoNanos(1_010)),
        }],
        redactions: vec![RedactionCount {
            member: "biopsy.json".to_owned(),
            rule: "jwt".to_owned(),
            count: 3,
        }],
    }
}

/// One of each.
fn sample_timeline() -> Timeline {
    let (pid, tid) = (Pid(4711), Tid(4712));
    let frame = |space, module, address| Frame { space, module, address: LookupAddress(address) };
    let function =
        |name: &str, line| Function { name: name.to_owned(), file: Some("sql/lock.cc".to_owned()), line };
    Timeline {
        settings: TraceSettings {
            frequency_hz: 999,
            sampling_event: "cpu-clock".into(),
            method: "bpf".into(),
            wait_threshold: Nanos(1_000_000),
            wait_sample_period: Nanos(20_000_000),
            has_states: true,
            has_wakeups: true,
            has_kernel_stacks: true,
            follows_children: false,
        },
        modules: vec![Module {
            pid,
            kind: ModuleKind::Elf,
            path: "/usr/sbin/mariadbd".to_owned(),
            build_id: Some(vec![0xab; 20]),
            start: Avma(0x5555_0000_0000),
            end: Avma(0x5555_0100_0000),
            offset: FileOffset(0x1000),
            since: MonoNanos(1_000),
            deleted: true,
        }],
        frames: vec![
            frame(FrameSpace::User, Some(ModuleHandle(0)), 0x1234),
            frame(FrameSpace::Kernel, None, 0xffff_ffff_8100_0000),
        ],
        stacks: vec![
            StackNode { caller: None, frame: FrameHandle(0) },
            StackNode { caller: Some(StackHandle(0)), frame: FrameHandle(1) },
        ],
        symbols: vec![
            Some(FrameSymbols {
                frame: FrameHandle(0),
                functions: vec![function("inlined<ü>", Some(7)), function("MDL_lock::wait", None)],
                source: SymbolSource::Dwarf,
            }),
            None,
        ],
        threads: vec![ThreadLife {
            info: ThreadInfo { tid, pid, name: "a (b) \"c\"\n,d".to_owned() },
            start: MonoNanos(1_001),
            born: true,
            by: Some(Tid(4711)),
            exit: Some(MonoNanos(1_900)),
        }],
        process_events: vec![TimelineEvent::Exec {
            time: MonoNanos(1_002),
            pid,
            name: "mariadbd".to_owned(),
        }],
        samples: vec![Sample {
            time: MonoNanos(1_500),
            tid,
            cpu: 3,
            stack: Some(StackHandle(0)),
            end: StackEnd::Root,
            weight: Nanos(1_001_001),
        }],
        waits: vec![Wait {
            tid,
            start: MonoNanos(1_510),
            end: MonoNanos(1_600),
            ready: Some(MonoNanos(1_590)),
            waker: Some(Tid(0)),
            state: WaitState::Disk,
            syscall: Some(202),
            stack: Some(StackHandle(1)),
        }],
        wait_samples: vec![WaitSample {
            time: MonoNanos(1_550),
            tid,
            stack: Some(StackHandle(1)),
            end: StackEnd::FramePointers,
            weight: Nanos(20_000_000),
            syscall: None,
            state: WaitState::Sleep,
        }],
        states: vec![StateSlice {
            tid,
            from: MonoNanos(1_001),
            to: MonoNanos(1_700),
            running: Nanos(400),
            ready: Nanos(100),
            waiting: Nanos(190),
            voluntary: 3,
            involuntary: 1,
            wakeups: 4,
        }],
        // What came later than the first version is in none of its recordings; the property tests have them.
        allocations: Vec::new(),
        releases: Vec::new(),
        allocation_watches: Vec::new(),
        allocation_counts: Vec::new(),
        losses: vec![Loss {
            kind: LossKind::Samples,
            from: MonoNanos(1_700),
            to: MonoNanos(1_710),
            count: 9,
            pid: Some(pid),
            tid: None,
        }],
        marks: vec![(MonoNanos(1_720), "here".to_owned())],
        span: Some((MonoNanos(1_001), MonoNanos(1_900))),
    }
}

/// The same as events, as a recorder writes them.
pub(crate) fn sample_events() -> Vec<TimelineEvent> {
    let timeline = sample_timeline();
    let thread = timeline.threads[0].clone();
    let (tid, pid) = (thread.info.tid, thread.info.pid);
    let old_name = ThreadInfo { name: "old name".to_owned(), ..thread.info.clone() };
    let mut events = vec![
        TimelineEvent::Settings(timeline.settings),
        TimelineEvent::Module(timeline.modules[0].clone()),
        TimelineEvent::ThreadStart { time: thread.start, thread: old_name, born: true, by: thread.by },
        TimelineEvent::ThreadName { time: MonoNanos(1_400), tid, name: thread.info.name },
    ];
    events.extend(timeline.process_events);
    events.extend(timeline.frames.into_iter().map(TimelineEvent::Frame));
    events.extend(timeline.stacks.into_iter().map(TimelineEvent::Stack));
    events.extend(timeline.samples.into_iter().map(TimelineEvent::Sample));
    events.extend(timeline.waits.into_iter().map(TimelineEvent::Wait));
    events.extend(timeline.wait_samples.into_iter().map(TimelineEvent::WaitSample));
    events.extend(timeline.states.into_iter().map(TimelineEvent::States));
    events.extend(timeline.losses.into_iter().map(TimelineEvent::Loss));
    events.extend(timeline.marks.into_iter().map(|(time, label)| TimelineEvent::Mark { time, label }));
    events.push(TimelineEvent::ThreadExit { time: MonoNanos(1_900), tid, pid });
    events.extend(timeline.symbols.into_iter().flatten().map(TimelineEvent::Symbols));
    events
}

/// Writes a recording as the recorders do.
pub(crate) fn write_capture(folder: &RecordingFolder, capture: &Capture) {
    folder.header(&CaptureHeader { end: None, ..capture.header.clone() }).unwrap();
    folder.processes(&capture.processes).unwrap();
    let mut timeline = folder.timeline().unwrap();
    for event in sample_events() {
        timeline.push(&event).unwrap();
    }
    timeline.finish().unwrap();
    for table in &capture.metrics {
        let keys: Vec<&str> = table.keys.iter().map(String::as_str).collect();
        let mut writer = folder.metric_table(&table.name, &keys, &table.columns).unwrap();
        for row in &table.rows {
            writer.append_row(row).unwrap();
            writer.flush().unwrap();
        }
    }
    for log in &capture.logs {
        let mut writer = folder.log(&log.source, &log.assumed_zone).unwrap();
        assert_eq!(writer.member(), log.member);
        for line in &log.lines {
            writer.push(line).unwrap();
        }
        writer.finish().unwrap();
    }
    for (name, text) in &capture.context {
        folder.write_text(name, text).unwrap();
    }
    for warning in &capture.warnings {
        folder.warn(warning).unwrap();
    }
    folder.redactions(&capture.redactions).unwrap();
    folder.header(&capture.header).unwrap();
}
