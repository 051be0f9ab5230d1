//! From events to a timeline.

use biopsy_model::loss::Warning;
use biopsy_model::module::ModuleHandle;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackHandle};
use biopsy_model::symbol::{FrameSymbols, SymbolSource};
use biopsy_model::timeline::{TimelineEvent, Wait, WaitState};
use biopsy_model::{LookupAddress, MonoNanos, Pid, Tid};

use super::super::read;
use super::{sample, stack_node, start, timeline_of, user_frame, write};
use crate::Limits;

#[test]
fn threads_have_lives() {
    let exit = |time, tid| TimelineEvent::ThreadExit { time: MonoNanos(time), tid: Tid(tid), pid: Pid(1) };
    let rename = |time, tid, name: &str| TimelineEvent::ThreadName {
        time: MonoNanos(time),
        tid: Tid(tid),
        name: name.to_owned(),
    };
    let (timeline, warnings) = timeline_of(&[
        start(100, 7, "seen", false),
        start(110, 7, "seen again", false),
        start(95, 8, "listed", false),
        start(90, 8, "and born a little before", true),
        rename(120, 7, "worker"),
        exit(200, 7),
        start(300, 7, "reused", true),
        start(400, 7, "exit was lost", true),
        exit(500, 9),
    ]);
    let lives: Vec<_> = timeline
        .threads
        .iter()
        .map(|life| {
            (life.info.tid.0, life.info.name.as_str(), life.start.0, life.born, life.exit.map(|t| t.0))
        })
        .collect();
    assert_eq!(
        lives,
        [
            (8, "and born a little before", 90, true, None),
            (7, "worker", 100, false, Some(200)),
            (7, "reused", 300, true, None),
            (7, "exit was lost", 400, true, None),
            (9, "", 500, false, Some(500)),
        ]
    );
    assert_eq!(timeline.span, Some((MonoNanos(90), MonoNanos(500))));
    assert!(warnings.is_empty());
}

#[test]
fn a_program_that_is_executed_names_its_thread() {
    let exec =
        |time, pid| TimelineEvent::Exec { time: MonoNanos(time), pid: Pid(pid), name: "server".to_owned() };
    let (timeline, _) = timeline_of(&[
        start(100, 7, "launcher", false),
        start(100, 8, "helper", false),
        exec(110, 7),
        exec(120, 9),
    ]);
    let names: Vec<_> =
        timeline.threads.iter().map(|life| (life.info.tid.0, life.info.name.as_str())).collect();
    assert_eq!(names, [(7, "server"), (8, "helper")]);
    assert_eq!(timeline.process_events.len(), 2);
}

#[test]
fn handles_that_lead_nowhere_are_left_out_and_counted() {
    let (timeline, warnings) = timeline_of(&[
        user_frame(0x10),
        TimelineEvent::Frame(Frame {
            space: FrameSpace::User,
            module: Some(ModuleHandle(3)),
            address: LookupAddress(0x20),
        }),
        stack_node(None, 0),
        stack_node(Some(0), 1),
        stack_node(Some(9), 0),
        stack_node(Some(1), 77),
        sample(5, 1, Some(1)),
        sample(6, 1, Some(99)),
        TimelineEvent::Symbols(FrameSymbols {
            frame: FrameHandle(50),
            functions: vec![],
            source: SymbolSource::Dwarf,
        }),
    ]);
    assert_eq!(timeline.frames[1].module, None);
    assert_eq!(timeline.stacks[2].caller, None);
    // The stack without a frame has an unknown one, made for it.
    assert_eq!(
        (timeline.stacks[3].frame, timeline.frames.len(), timeline.symbols.len()),
        (FrameHandle(2), 3, 3)
    );
    assert_eq!(timeline.samples.iter().map(|s| s.stack).collect::<Vec<_>>(), [Some(StackHandle(1)), None]);
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].message, "5 references of the timeline to things that are not in it, left out");
}

#[test]
fn events_come_out_in_the_order_of_time_and_recorder_warnings_first() {
    let warning = Warning { code: "trace.x".into(), message: "m".into(), hint: None, time: None };
    let wait = |start, end| {
        TimelineEvent::Wait(Wait {
            tid: Tid(1),
            start: MonoNanos(start),
            end: MonoNanos(end),
            ready: None,
            waker: Some(Tid(0)),
            state: WaitState::Disk,
            syscall: None,
            stack: None,
        })
    };
    let events = [
        sample(30, 1, None),
        sample(20, 1, None),
        wait(1, 50),
        wait(30, 40),
        TimelineEvent::Warning(warning),
    ];
    let bytes = write(&events, 10);
    let (timeline, warnings) = read(&bytes[..bytes.len() - 1], &Limits::default()).unwrap();
    assert_eq!(timeline.samples.iter().map(|s| s.time.0).collect::<Vec<_>>(), [20, 30]);
    assert_eq!(timeline.waits.iter().map(|w| w.end.0).collect::<Vec<_>>(), [40, 50]);
    assert_eq!(timeline.waits[0].waker, Some(Tid(0)), "an interrupt is not the same as not recorded");
    assert_eq!(
        warnings.iter().map(|w| w.code.as_str()).collect::<Vec<_>>(),
        ["trace.x", "recording.cut-short"]
    );
    assert_eq!(timeline.span, Some((MonoNanos(1), MonoNanos(50))));
}
