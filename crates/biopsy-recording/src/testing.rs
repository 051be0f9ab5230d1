//! A small recording with everything in it, for tests.

use biopsy_model::capture::{Capture, CaptureHeader, HostInfo, RedactionCount};
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::Warning;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind, ThreadInfo};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Sample, ThreadLife, Timeline, TimelineEvent};
use biopsy_model::{BootId, ClockPair, MonoNanos, Nanos, Pid, ProcessKey, Tid};

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
    let thread = ThreadInfo { tid: Tid(4711), pid: Pid(4711), name: "a (b) \"c\"\n,d".to_owned() };
    let sample = Sample {
        time: MonoNanos(1_500),
        tid: Tid(4711),
        cpu: 3,
        stack: Some(StackHandle(0)),
        end: StackEnd::Root,
        weight: Nanos(1_001_001),
    };
    Capture {
        header: CaptureHeader {
            tool: "biopsy 0.1.0".to_owned(),
            command: vec!["biopsy".to_owned(), "capture".to_owned()],
            start: pair(1_000),
            end: Some(pair(2_000)),
            target: Some(key.clone()),
            target_name: "mariadbd".to_owned(),
            host: HostInfo { hostname: "h".to_owned(), cpus: 2, memory: 8 << 30, ..HostInfo::default() },
            ended_by: "time".to_owned(),
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
        timeline: Some(Timeline {
            frames: vec![Frame { space: FrameSpace::User, module: None, address: 0x1234 }],
            stacks: vec![StackNode { caller: None, frame: FrameHandle(0) }],
            symbols: vec![None],
            threads: vec![ThreadLife {
                info: thread,
                start: MonoNanos(1_001),
                born: false,
                by: None,
                exit: None,
            }],
            samples: vec![sample],
            span: Some((MonoNanos(1_001), MonoNanos(1_500))),
            ..Timeline::default()
        }),
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

/// The same as events.
pub(crate) fn sample_events() -> Vec<TimelineEvent> {
    let timeline = sample_capture().timeline.unwrap();
    let thread = timeline.threads[0].clone();
    vec![
        TimelineEvent::Settings(timeline.settings),
        TimelineEvent::ThreadStart { time: thread.start, thread: thread.info, born: false, by: None },
        TimelineEvent::Frame(timeline.frames[0]),
        TimelineEvent::Stack(timeline.stacks[0]),
        TimelineEvent::Sample(timeline.samples[0]),
    ]
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
