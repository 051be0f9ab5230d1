//! Tracks: processes, threads, their waits, counters, marks and log lines.

use super::packets::Packets;
use super::proto::{
    CounterDescriptor, DebugAnnotation, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor,
    TrackEvent,
};
use crate::export::stacks::Threads;
use crate::export::stacks::{calls, process_name};
use crate::export::waits::{wait_name, wait_state};
use crate::words;
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::metric::{MetricTable, Unit};
use biopsy_model::timeline::{Timeline, Wait};
use biopsy_model::{MonoNanos, Pid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};

const BEGIN: u32 = 1;
const END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;

/// Uuids of tracks: a family in the upper half, a number in the lower.
const PROCESS: u64 = 1 << 32;
const THREAD: u64 = 2 << 32;
const WAITS: u64 = 3 << 32;
const EVENTS: u64 = 4 << 32;
const COUNTERS: u64 = 5 << 32;

pub(super) fn write<W: Write>(
    capture: &Capture,
    timeline: &Timeline,
    threads: &Threads,
    packets: &mut Packets<W>,
) -> io::Result<()> {
    let mut pids: Vec<Pid> = capture.processes.iter().map(|process| process.key.pid).collect();
    pids.extend(threads.all.iter().map(|thread| thread.pid));
    let mut seen = FxHashSet::default();
    pids.retain(|pid| seen.insert(*pid));
    for pid in &pids {
        let process = capture.processes.iter().find(|process| process.key.pid == *pid);
        describe(
            packets,
            TrackDescriptor {
                uuid: Some(PROCESS | u64::from(pid.0)),
                process: Some(ProcessDescriptor {
                    pid: Some(signed(pid.0)),
                    cmdline: process.map(|process| process.command_line.clone()).unwrap_or_default(),
                    process_name: Some(process_name(capture, *pid)),
                }),
                ..TrackDescriptor::default()
            },
        )?;
    }
    waits(timeline, threads, packets)?;
    events(capture, timeline, packets)?;
    let mut next = 0;
    for table in capture.metrics.iter().filter(|table| table.name != "threads") {
        counters(table, &seen, &mut next, packets)?;
    }
    Ok(())
}

/// A thread's track, and below it one for its waits.
fn waits<W: Write>(timeline: &Timeline, threads: &Threads, packets: &mut Packets<W>) -> io::Result<()> {
    let mut of: FxHashMap<usize, Vec<&Wait>> = FxHashMap::default();
    for wait in &timeline.waits {
        if let Some(thread) = threads.at(wait.tid, wait.start) {
            of.entry(thread).or_default().push(wait);
        }
    }
    for (index, thread) in threads.all.iter().enumerate() {
        describe(
            packets,
            TrackDescriptor {
                uuid: Some(THREAD | index as u64),
                parent_uuid: Some(PROCESS | u64::from(thread.pid.0)),
                thread: Some(ThreadDescriptor {
                    pid: Some(signed(thread.pid.0)),
                    tid: Some(i64::from(thread.tid.0)),
                    thread_name: Some(thread.name.clone()),
                }),
                ..TrackDescriptor::default()
            },
        )?;
        let Some(list) = of.get_mut(&index) else { continue };
        let track = WAITS | index as u64;
        describe(
            packets,
            TrackDescriptor {
                uuid: Some(track),
                parent_uuid: Some(THREAD | index as u64),
                name: Some("waits".to_owned()),
                ..TrackDescriptor::default()
            },
        )?;
        list.sort_by_key(|wait| wait.start);
        let mut free = MonoNanos(0);
        for wait in list.iter().filter(|wait| wait.end > wait.start) {
            // A thread waits for one thing at a time; what overlaps is damaged, and would nest.
            if wait.start < free {
                continue;
            }
            free = wait.end;
            let ready = wait.ready.filter(|ready| *ready > wait.start && *ready < wait.end);
            let place = calls(timeline, wait.stack).last().map(|call| call.name.clone().into_owned());
            let mut notes = vec![note("state", wait_state(wait.state).to_owned())];
            notes.extend(place.map(|place| note("in", place)));
            notes.extend(wait.waker.map(|waker| note("woken by", threads.name(waker))));
            begin(packets, wait.start, track, wait_name(wait), notes)?;
            if let Some(ready) = ready {
                end(packets, ready, track)?;
                begin(packets, ready, track, "ready, no CPU".to_owned(), Vec::new())?;
            }
            end(packets, wait.end, track)?;
        }
    }
    Ok(())
}

/// Marks, losses, and lines of logs.
fn events<W: Write>(capture: &Capture, timeline: &Timeline, packets: &mut Packets<W>) -> io::Result<()> {
    if !timeline.marks.is_empty() {
        named(packets, EVENTS, "marks")?;
        for (time, label) in &timeline.marks {
            instant(packets, *time, EVENTS, label.clone(), Vec::new())?;
        }
    }
    if !timeline.losses.is_empty() {
        named(packets, EVENTS | 1, "lost")?;
        for loss in &timeline.losses {
            let name = format!("{} lost", words::loss_for_people(loss.kind));
            // 0: how many is not known.
            let count =
                Some(loss.count).filter(|count| *count > 0).map(|count| note("count", count.to_string()));
            let mut notes = Vec::from_iter(count);
            notes.push(note("until", format!("{} ns", loss.to.0)));
            instant(packets, loss.from, EVENTS | 1, name, notes)?;
        }
    }
    for (index, log) in capture.logs.iter().enumerate() {
        let track = EVENTS | (index as u64 + 2);
        named(packets, track, &log.source)?;
        // Most logs do not say how bad a line is.
        for line in log.lines.iter().filter(|line| line.level != LogLevel::Debug) {
            if let Some(time) = line.time {
                let notes = vec![note("level", words::level(line.level).to_owned())];
                instant(packets, time, track, line.text.clone(), notes)?;
            }
        }
    }
    Ok(())
}

fn counters<W: Write>(
    table: &MetricTable,
    processes: &FxHashSet<Pid>,
    next: &mut u64,
    packets: &mut Packets<W>,
) -> io::Result<()> {
    let mut tracks: FxHashMap<(&[String], usize), u64> = FxHashMap::default();
    for row in &table.rows {
        for (index, column) in table.columns.iter().enumerate() {
            let Some(value) = row.values.get(index).copied().flatten().filter(|value| value.is_finite())
            else {
                continue;
            };
            let key = (row.keys.as_slice(), index);
            let track = if let Some(track) = tracks.get(&key) {
                *track
            } else {
                let track = COUNTERS | *next;
                *next += 1;
                let pid = row.keys.first().and_then(|key| key.parse().ok()).map(Pid);
                let pid = pid.filter(|pid| table.name == "processes" && processes.contains(pid));
                let name = match (pid, row.keys.is_empty()) {
                    (Some(_), _) => column.name.clone(),
                    (None, true) => format!("{} {}", table.name, column.name),
                    (None, false) => format!("{} {} {}", table.name, row.keys.join(" "), column.name),
                };
                describe(
                    packets,
                    TrackDescriptor {
                        uuid: Some(track),
                        name: Some(name),
                        parent_uuid: pid.map(|pid| PROCESS | u64::from(pid.0)),
                        counter: Some(unit(column.unit)),
                        ..TrackDescriptor::default()
                    },
                )?;
                tracks.insert(key, track);
                track
            };
            event(
                packets,
                row.time,
                TrackEvent {
                    kind: Some(COUNTER),
                    track_uuid: Some(track),
                    double_counter_value: Some(value),
                    ..TrackEvent::default()
                },
            )?;
        }
    }
    Ok(())
}

fn unit(unit: Unit) -> CounterDescriptor {
    // `UNIT_COUNT` and `UNIT_SIZE_BYTES`; others by name.
    let (number, name) = match unit {
        Unit::Count => (Some(2), None),
        Unit::Bytes => (Some(3), None),
        Unit::PerSecond => (None, Some("1/s")),
        Unit::Cores => (None, Some("cores")),
        Unit::Ratio => (None, Some("share")),
        Unit::BytesPerSecond => (None, Some("bytes/s")),
        Unit::Milliseconds => (None, Some("ms")),
    };
    CounterDescriptor { unit: number, unit_name: name.map(str::to_owned) }
}

fn describe<W: Write>(packets: &mut Packets<W>, track: TrackDescriptor) -> io::Result<()> {
    packets.push(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
}

fn named<W: Write>(packets: &mut Packets<W>, uuid: u64, name: &str) -> io::Result<()> {
    describe(
        packets,
        TrackDescriptor { uuid: Some(uuid), name: Some(name.to_owned()), ..TrackDescriptor::default() },
    )
}

fn event<W: Write>(packets: &mut Packets<W>, time: MonoNanos, event: TrackEvent) -> io::Result<()> {
    packets.push(TracePacket { timestamp: Some(time.0), track_event: Some(event), ..TracePacket::default() })
}

fn begin<W: Write>(
    packets: &mut Packets<W>,
    time: MonoNanos,
    track: u64,
    name: String,
    debug_annotations: Vec<DebugAnnotation>,
) -> io::Result<()> {
    event(
        packets,
        time,
        TrackEvent {
            kind: Some(BEGIN),
            track_uuid: Some(track),
            name: Some(name),
            categories: vec!["wait".to_owned()],
            debug_annotations,
            ..TrackEvent::default()
        },
    )
}

fn end<W: Write>(packets: &mut Packets<W>, time: MonoNanos, track: u64) -> io::Result<()> {
    event(packets, time, TrackEvent { kind: Some(END), track_uuid: Some(track), ..TrackEvent::default() })
}

fn instant<W: Write>(
    packets: &mut Packets<W>,
    time: MonoNanos,
    track: u64,
    name: String,
    debug_annotations: Vec<DebugAnnotation>,
) -> io::Result<()> {
    event(
        packets,
        time,
        TrackEvent {
            kind: Some(INSTANT),
            track_uuid: Some(track),
            name: Some(name),
            debug_annotations,
            ..TrackEvent::default()
        },
    )
}

fn note(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), string_value: Some(value), double_value: None }
}

fn signed(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}
