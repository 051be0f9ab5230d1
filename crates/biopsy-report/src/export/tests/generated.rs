//! Made-up small traces: whatever they hold, each format has all of their time, bytes and events, once.

use super::{export, gunzip, packets, timeline};
use crate::export::{Format, pprof, stacks, write};
use biopsy_model::capture::Capture;
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Allocation, AllocationWatch, Release, Sample, ThreadLife, Timeline, Wait, WaitSample, WaitState,
};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::Value;

/// Threads that have a life; events of a few more come without one.
const THREADS: u32 = 4;
/// Frames and stacks there are; handles go a little further.
const FRAMES: u32 = 6;
const STACKS: u32 = 9;

fn handle() -> impl Strategy<Value = Option<StackHandle>> {
    prop::option::of((0..STACKS).prop_map(StackHandle))
}

fn tid() -> impl Strategy<Value = Tid> {
    (0..THREADS + 2).prop_map(Tid)
}

fn sample() -> impl Strategy<Value = Sample> {
    (0..1_000_u64, tid(), handle(), 0..3_000_000_u64).prop_map(|(time, tid, stack, weight)| Sample {
        time: MonoNanos(time),
        tid,
        cpu: 0,
        stack,
        end: StackEnd::Root,
        weight: Nanos(weight),
    })
}

fn look() -> impl Strategy<Value = WaitSample> {
    // Many are shorter than a microsecond.
    (0..1_000_u64, tid(), handle(), 0..3_000_u64).prop_map(|(time, tid, stack, weight)| WaitSample {
        time: MonoNanos(time),
        tid,
        stack,
        end: StackEnd::Root,
        weight: Nanos(weight),
        syscall: None,
        state: WaitState::Sleep,
    })
}

fn wait() -> impl Strategy<Value = Wait> {
    (0..1_000_u64, 0..3_000_u64, tid(), handle(), prop::option::of(0..4_000_u64)).prop_map(
        |(start, length, tid, stack, ready)| Wait {
            tid,
            start: MonoNanos(start),
            end: MonoNanos(start + length),
            ready: ready.map(MonoNanos),
            waker: Some(Tid(1)),
            state: WaitState::Sleep,
            syscall: Some(202),
            stack,
        },
    )
}

fn allocation() -> impl Strategy<Value = Allocation> {
    (0..1_000_u64, tid(), handle(), 0..8_u64, 0..9_000_u64).prop_map(|(time, tid, stack, address, size)| {
        Allocation {
            time: MonoNanos(time),
            pid: Pid(1),
            tid,
            stack,
            end: StackEnd::Root,
            address: Avma(address),
            size,
            weight: size,
        }
    })
}

/// Names that a frame may have; the empty one is none.
fn names() -> impl Strategy<Value = Vec<String>> {
    vec(
        prop::sample::select(vec!["", "f", "g;h", "a b", "x\ny", "step 7", "12"]).prop_map(str::to_owned),
        FRAMES as usize,
    )
}

prop_compose! {
    pub(super) fn traces()(
        names in names(),
        callers in vec((prop::option::of(0..STACKS), 0..FRAMES + 1), STACKS as usize),
        samples in vec(sample(), 0..30),
        looks in vec(look(), 0..30),
        waits in vec(wait(), 0..30),
        allocations in vec(allocation(), 0..20),
        releases in vec((0..1_000_u64, 0..8_u64), 0..10),
        lives in vec((0..THREADS, 0..500_u64), 0..6),
    ) -> Timeline {
        let module = |kind, path: &str| Module {
            pid: Pid(1),
            kind,
            path: path.to_owned(),
            build_id: Some(vec![1, 2]),
            start: Avma(0),
            end: Avma(u64::MAX),
            offset: FileOffset(0),
            since: MonoNanos(0),
            deleted: false,
        };
        let mut timeline = Timeline {
            modules: vec![module(ModuleKind::Elf, "/bin/server"), module(ModuleKind::Kernel, "[kernel]")],
            samples, wait_samples: looks, waits, allocations,
            ..Timeline::default()
        };
        for (at, name) in (0..).zip(&names) {
            let space = if at % 2 == 0 { FrameSpace::User } else { FrameSpace::Kernel };
            timeline.frames.push(Frame { space, module: (at < 4).then_some(ModuleHandle(at % 3)), address: LookupAddress(u64::from(at)) });
            let functions = vec![Function { name: name.clone(), file: None, line: Some(at) }; (at % 3) as usize];
            timeline.symbols.push(Some(FrameSymbols { frame: FrameHandle(at), functions, source: SymbolSource::ElfSymbols }));
        }
        // Some callers come after their callee, and some frames are none: both end the stack.
        timeline.stacks = callers.into_iter().map(|(caller, frame)| StackNode { caller: caller.map(StackHandle), frame: FrameHandle(frame) }).collect();
        let mut lives = lives;
        lives.sort_by_key(|(_, start)| *start);
        timeline.threads = lives.into_iter().map(|(tid, start)| ThreadLife {
            info: ThreadInfo { tid: Tid(tid), pid: Pid(1), name: if tid == 2 { String::new() } else { "worker".to_owned() } },
            start: MonoNanos(start), born: false, by: None, exit: None,
        }).collect();
        timeline.samples.sort_by_key(|sample| sample.time);
        timeline.allocations.sort_by_key(|allocation| allocation.time);
        timeline.releases = releases.into_iter().map(|(time, address)| Release { time: MonoNanos(time), pid: Pid(1), address: Avma(address) }).collect();
        timeline.releases.sort_by_key(|release| release.time);
        if !timeline.allocations.is_empty() {
            timeline.allocation_watches = vec![AllocationWatch {
                from: MonoNanos(0), to: MonoNanos(1_000), released_to: MonoNanos(1_000), calls: 9, bytes: 9, interval: 1,
            }];
        }
        timeline
    }
}

pub(super) fn capture(timeline: Timeline) -> Capture {
    Capture { timeline: Some(timeline), ..Capture::default() }
}

/// What an export holds; `None`: nothing of the trace fits into the format.
fn exported(format: Format, capture: &Capture) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(format, capture, &mut bytes).is_ok().then_some(bytes)
}

fn waiting(timeline: &Timeline) -> u64 {
    stacks::wait_shares(timeline).iter().map(|share| share.weight.0).sum()
}

fn collapsed(bytes: Vec<u8>) -> Vec<(String, u64)> {
    let text = String::from_utf8(bytes).expect("text");
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn collapsed_stacks_have_each_sample_once(timeline in traces()) {
        let samples = timeline.samples.len() as u64;
        let Some(bytes) = exported(Format::Collapsed, &capture(timeline)) else {
            prop_assert_eq!(samples, 0);
            return Ok(());
        };
        let lines = collapsed(bytes);
        prop_assert_eq!(lines.iter().map(|(_, count)| count).sum::<u64>(), samples);
        prop_assert!(lines.is_sorted() && lines.windows(2).all(|pair| pair[0].0 != pair[1].0), "{:?}", lines);
    }

    #[test]
    fn the_order_of_events_does_not_matter_to_sums(timeline in traces(), at in any::<prop::sample::Index>()) {
        let mut turned = timeline.clone();
        let samples = &mut turned.samples;
        let middle = at.index(samples.len() + 1);
        samples.rotate_left(middle);
        turned.wait_samples.reverse();
        turned.waits.reverse();
        let (one, other) = (capture(timeline), capture(turned));
        // Who is first seen gives the names of threads without a life their start, not their name.
        for format in [Format::Collapsed, Format::CollapsedWaits] {
            prop_assert_eq!(exported(format, &one), exported(format, &other), "{}", format.name());
        }
    }

    #[test]
    fn speedscope_has_all_time(timeline in traces()) {
        let (cpu, waits) = (timeline.samples.iter().map(|one| one.weight.0).sum::<u64>(), waiting(&timeline));
        let Some(bytes) = exported(Format::Speedscope, &capture(timeline)) else { return Ok(()) };
        let file: Value = serde_json::from_slice(&bytes).expect("JSON");
        let mut sums = [0; 2];
        for profile in file["profiles"].as_array().expect("profiles") {
            let is_waiting = profile["name"].as_str().expect("a name").ends_with(" waiting");
            sums[usize::from(is_waiting)] += profile["endValue"].as_u64().expect("a sum");
        }
        prop_assert_eq!(sums, [cpu, waits]);
    }

    #[test]
    fn pprof_has_all_time_and_all_bytes(timeline in traces()) {
        let kept: u64 = timeline.allocations_kept().filter(|(_, kept)| *kept).map(|(one, _)| one.weight).sum();
        let expected = [
            timeline.samples.iter().map(|one| one.weight.0).sum::<u64>(),
            timeline.samples.len() as u64,
            waiting(&timeline),
            timeline.allocations.iter().map(|one| one.weight).sum(),
            kept,
        ];
        let nothing = timeline.samples.is_empty() && stacks::wait_shares(&timeline).is_empty();
        let Some(bytes) = exported(Format::Pprof, &capture(timeline)) else {
            prop_assert!(nothing);
            return Ok(());
        };
        let profile = pprof::proto::Profile::decode(gunzip(&bytes).as_slice()).expect("it decodes");
        let mut sums = [0; 5];
        for sample in &profile.sample {
            for (sum, value) in sums.iter_mut().zip(&sample.value) {
                *sum += u64::try_from(*value).expect("no value is negative");
            }
            for id in &sample.location_id {
                let location = &profile.location[usize::try_from(id - 1).expect("an id")];
                prop_assert!(location.id == *id && location.mapping_id <= profile.mapping.len() as u64);
                let functions = profile.function.len() as u64;
                prop_assert!(location.line.iter().all(|line| (1..=functions).contains(&line.function_id)));
            }
        }
        prop_assert_eq!(sums, expected);
    }

    #[test]
    fn firefox_and_perfetto_have_each_event_once(timeline in traces()) {
        let samples = match timeline.samples.len() { 0 => timeline.wait_samples.len(), some => some };
        let waits = timeline.waits.len();
        let capture = capture(timeline);
        if let Some(bytes) = exported(Format::Firefox, &capture) {
            let profile: Value = serde_json::from_slice(&gunzip(&bytes)).expect("JSON");
            let threads = profile["threads"].as_array().expect("threads");
            let sum = |part: &str| threads.iter().map(|one| one[part]["length"].as_u64().expect("a length")).sum::<u64>();
            prop_assert_eq!((sum("samples"), sum("markers")), (samples as u64, waits as u64));
        }
        if let Some(bytes) = exported(Format::Perfetto, &capture) {
            let packets = packets(&bytes);
            let found = packets.iter().filter(|packet| packet.perf_sample.is_some()).count();
            prop_assert_eq!(found, samples);
            // Each track's slices end, and one is open at a time.
            let mut open = std::collections::BTreeMap::new();
            for packet in &packets {
                let Some(event) = &packet.track_event else { continue };
                let (track, time) = (event.track_uuid.expect("a track"), packet.timestamp.expect("a time"));
                match event.kind {
                    Some(1) => prop_assert_eq!(open.insert(track, time), None),
                    Some(2) => prop_assert!(open.remove(&track).is_some_and(|begun| begun <= time)),
                    _ => {}
                }
            }
            prop_assert!(open.is_empty(), "{:?}", open);
        }
    }
}

/// A profile of the heap, as `pprof` and `capture --allocations` of an idle process give it, holds no time at all.
#[test]
fn allocations_alone_are_worth_a_profile() {
    let mut capture = crate::synthetic::capture();
    let mut trace = timeline(&capture).clone();
    let (tid, stack) = (Tid(4720), trace.samples[0].stack);
    (trace.samples, trace.waits, trace.wait_samples) = (Vec::new(), Vec::new(), Vec::new());
    trace.allocations = (1..4)
        .map(|number| Allocation {
            time: MonoNanos(number),
            pid: Pid(4711),
            // The last one is of a thread that nothing else tells of.
            tid: if number == 3 { Tid(99) } else { tid },
            stack,
            end: StackEnd::Root,
            address: Avma(number * 16),
            size: 100,
            weight: 1_000,
        })
        .collect();
    trace.allocation_watches = vec![AllocationWatch {
        from: MonoNanos(0),
        to: MonoNanos(9),
        released_to: MonoNanos(9),
        calls: 3,
        bytes: 300,
        interval: 1_000,
    }];
    capture.timeline = Some(trace);
    let profile = pprof::proto::Profile::decode(gunzip(&export(Format::Pprof, &capture)).as_slice())
        .expect("it decodes");
    let sums =
        profile.sample.iter().fold([0, 0], |sums, one| [sums[0] + one.value[3], sums[1] + one.value[4]]);
    assert_eq!(sums, [3_000, 3_000]);
    // Formats of time have nothing to show, and say so.
    for format in [Format::Firefox, Format::Speedscope, Format::Collapsed, Format::CollapsedWaits] {
        assert!(exported(format, &capture).is_none(), "{}", format.name());
    }
}

/// Ids of threads are used again: an event belongs to the life that it falls into.
#[test]
fn events_belong_to_the_life_they_fall_into() {
    let life = |start, name: &str| ThreadLife {
        info: ThreadInfo { tid: Tid(7), pid: Pid(1), name: name.to_owned() },
        start: MonoNanos(start),
        born: true,
        by: None,
        exit: None,
    };
    let sample = |time| Sample {
        time: MonoNanos(time),
        tid: Tid(7),
        cpu: 0,
        stack: None,
        end: StackEnd::Root,
        weight: Nanos(1),
    };
    let trace = Timeline {
        threads: vec![life(100, "first"), life(200, "second")],
        samples: [50, 100, 199, 200, 900].map(sample).into(),
        ..Timeline::default()
    };
    let lines = collapsed(export(Format::Collapsed, &capture(trace)));
    assert_eq!(lines, [("first;[no stack]".to_owned(), 3), ("second;[no stack]".to_owned(), 2)]);
}

/// Many short waits are as long as a long one, and what is shorter than a microsecond in all is nothing.
#[test]
fn short_waits_add_up() {
    let wait = |number: u64, tid| Wait {
        tid: Tid(tid),
        start: MonoNanos(number * 1_000),
        end: MonoNanos(number * 1_000 + 900),
        ready: None,
        waker: None,
        state: WaitState::Sleep,
        syscall: None,
        stack: Some(StackHandle(0)),
    };
    let waits = (0..1_000).map(|number| wait(number, 1)).chain([wait(0, 2)]).collect();
    let lines =
        collapsed(export(Format::CollapsedWaits, &capture(Timeline { waits, ..Timeline::default() })));
    assert_eq!(lines, [("thread 1;[no stack]".to_owned(), 900)]);
}
