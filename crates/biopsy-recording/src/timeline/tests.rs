//! Tests of the timeline: round trips of anything, and what is left of a file that is cut, damaged or hostile.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Sample, StateSlice, Timeline, TimelineEvent, TraceSettings, Wait, WaitSample, WaitState,
};
use biopsy_model::{Avma, FileOffset, MonoNanos, Nanos, Pid, Tid};
use proptest::prelude::*;

use super::chunk::{CHUNK_HEADER_LEN, ChunkHeader, Definitions, FILE_HEADER_LEN, file_header};
use super::{TimelineError, Writer, fuzz_timeline, read, read_events, tags};
use crate::Limits;

// ---- arbitrary events ----

fn time() -> impl Strategy<Value = MonoNanos> {
    prop_oneof![8 => (1_u64 << 40..(1 << 40) + 10_000_000_000).prop_map(MonoNanos), 1 => any::<u64>().prop_map(MonoNanos)]
}

fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Nanos(1_001_001)),
        any::<u32>().prop_map(|n| Nanos(n.into())),
        any::<u64>().prop_map(Nanos)
    ]
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![4 => (0_u32..40).prop_map(Tid), 1 => any::<u32>().prop_map(Tid)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z(:) ]{1,30}", "\\PC{0,8}"]
}

fn end() -> impl Strategy<Value = StackEnd> {
    prop_oneof![
        Just(StackEnd::Root),
        Just(StackEnd::Truncated),
        Just(StackEnd::FramePointers),
        Just(StackEnd::NoUnwindInfo),
        Just(StackEnd::Skipped),
        Just(StackEnd::KernelOnly),
    ]
}

fn state() -> impl Strategy<Value = WaitState> {
    prop_oneof![
        Just(WaitState::Sleep),
        Just(WaitState::Disk),
        Just(WaitState::Stopped),
        Just(WaitState::Preempted),
        Just(WaitState::Other),
    ]
}

fn stack() -> impl Strategy<Value = Option<StackHandle>> {
    proptest::option::of(any::<u32>().prop_map(|n| StackHandle(n >> 1)))
}

fn event() -> impl Strategy<Value = TimelineEvent> {
    let syscall = || proptest::option::of(any::<u32>());
    let hot = prop_oneof![
        (time(), tid(), any::<u32>(), stack(), end(), nanos()).prop_map(
            |(time, tid, cpu, stack, end, weight)| {
                TimelineEvent::Sample(Sample { time, tid, cpu, stack, end, weight })
            }
        ),
        (
            (tid(), time(), time(), proptest::option::of(time())),
            (proptest::option::of(tid()), state(), syscall(), stack())
        )
            .prop_map(|((tid, start, end, ready), (waker, state, syscall, stack))| {
                TimelineEvent::Wait(Wait { tid, start, end, ready, waker, state, syscall, stack })
            }),
        (time(), tid(), stack(), end(), nanos(), syscall(), state()).prop_map(
            |(time, tid, stack, end, weight, syscall, state)| {
                TimelineEvent::WaitSample(WaitSample { time, tid, stack, end, weight, syscall, state })
            }
        ),
        ((tid(), time(), time()), (nanos(), nanos(), nanos()), any::<(u32, u32, u32)>()).prop_map(
            |((tid, from, to), (running, ready, waiting), (voluntary, involuntary, wakeups))| {
                TimelineEvent::States(StateSlice {
                    tid,
                    from,
                    to,
                    running,
                    ready,
                    waiting,
                    voluntary,
                    involuntary,
                    wakeups,
                })
            }
        ),
    ];
    let definitions = prop_oneof![
        (any::<bool>(), proptest::option::of(0_u32..9), any::<u64>()).prop_map(
            |(kernel, module, address)| {
                let space = if kernel { FrameSpace::Kernel } else { FrameSpace::User };
                TimelineEvent::Frame(Frame { space, module: module.map(ModuleHandle), address })
            }
        ),
        (stack(), any::<u32>()).prop_map(|(caller, frame)| {
            TimelineEvent::Stack(StackNode { caller, frame: FrameHandle(frame) })
        }),
        (
            (
                any::<u32>(),
                0_u8..5,
                text(),
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..24))
            ),
            (any::<u64>(), any::<u64>(), any::<u64>(), time(), any::<bool>())
        )
            .prop_map(|((pid, kind, path, build_id), (start, end, offset, since, deleted))| {
                TimelineEvent::Module(Module {
                    pid: Pid(pid),
                    kind: [
                        ModuleKind::Elf,
                        ModuleKind::Kernel,
                        ModuleKind::Vdso,
                        ModuleKind::Jit,
                        ModuleKind::OtherFile,
                    ][usize::from(kind)],
                    path,
                    build_id,
                    start: Avma(start),
                    end: Avma(end),
                    offset: FileOffset(offset),
                    since,
                    deleted,
                })
            }),
        (
            any::<u32>(),
            proptest::collection::vec(
                (text(), proptest::option::of(text()), proptest::option::of(any::<u32>())),
                0..4
            ),
            0_u8..6
        )
            .prop_map(|(frame, functions, source)| {
                TimelineEvent::Symbols(FrameSymbols {
                    frame: FrameHandle(frame),
                    functions: functions
                        .into_iter()
                        .map(|(name, file, line)| Function { name, file, line })
                        .collect(),
                    source: [
                        SymbolSource::ElfSymbols,
                        SymbolSource::Dwarf,
                        SymbolSource::Kallsyms,
                        SymbolSource::PerfMap,
                        SymbolSource::JitDump,
                        SymbolSource::Imported,
                        SymbolSource::RuntimeMemory,
                        SymbolSource::RuntimeEvents,
                    ][usize::from(source)],
                })
            }),
    ];
    let cold = prop_oneof![
        (any::<u32>(), text(), text(), nanos(), nanos(), any::<[bool; 4]>()).prop_map(
            |(frequency_hz, sampling_event, method, wait_threshold, wait_sample_period, flags)| {
                TimelineEvent::Settings(TraceSettings {
                    frequency_hz,
                    sampling_event,
                    method,
                    wait_threshold,
                    wait_sample_period,
                    has_states: flags[0],
                    has_wakeups: flags[1],
                    has_kernel_stacks: flags[2],
                    follows_children: flags[3],
                })
            }
        ),
        (time(), tid(), any::<u32>(), text(), any::<bool>(), proptest::option::of(tid())).prop_map(
            |(time, tid, pid, name, born, by)| TimelineEvent::ThreadStart {
                time,
                thread: ThreadInfo { tid, pid: Pid(pid), name },
                born,
                by,
            }
        ),
        (time(), tid(), text()).prop_map(|(time, tid, name)| TimelineEvent::ThreadName { time, tid, name }),
        (time(), tid(), any::<u32>()).prop_map(|(time, tid, pid)| TimelineEvent::ThreadExit {
            time,
            tid,
            pid: Pid(pid),
        }),
        (time(), any::<u32>(), any::<u32>()).prop_map(|(time, pid, parent)| TimelineEvent::ProcessStart {
            time,
            pid: Pid(pid),
            parent: Pid(parent),
        }),
        (time(), any::<u32>(), text()).prop_map(|(time, pid, name)| TimelineEvent::Exec {
            time,
            pid: Pid(pid),
            name
        }),
        (time(), any::<u32>()).prop_map(|(time, pid)| TimelineEvent::ProcessExit { time, pid: Pid(pid) }),
        (
            0_u8..7,
            time(),
            time(),
            any::<u64>(),
            proptest::option::of(any::<u32>()),
            proptest::option::of(tid())
        )
            .prop_map(|(kind, from, to, count, pid, tid)| {
                TimelineEvent::Loss(Loss {
                    kind: [
                        LossKind::Samples,
                        LossKind::Waits,
                        LossKind::SideBand,
                        LossKind::Throttled,
                        LossKind::StacksSkipped,
                        LossKind::Metrics,
                        LossKind::Disk,
                    ][usize::from(kind)],
                    from,
                    to,
                    count,
                    pid: pid.map(Pid),
                    tid,
                })
            }),
        (time(), text()).prop_map(|(time, label)| TimelineEvent::Mark { time, label }),
        (text(), text(), proptest::option::of(text()), proptest::option::of(time())).prop_map(
            |(code, message, hint, time)| TimelineEvent::Warning(Warning { code, message, hint, time })
        ),
    ];
    prop_oneof![4 => hot, 2 => definitions, 1 => cold]
}

// ---- helpers ----

/// A timeline of `events`, with a chunk after each `per_chunk`.
fn write(events: &[TimelineEvent], per_chunk: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (index, event) in events.iter().enumerate() {
        writer.push(event).unwrap();
        if (index + 1) % per_chunk == 0 {
            writer.flush_chunk().unwrap();
        }
    }
    writer.finish().unwrap()
}

fn events_of(bytes: &[u8]) -> (Vec<TimelineEvent>, Vec<String>) {
    let mut events = Vec::new();
    let warnings = read_events(bytes, &Limits::default(), |event| events.push(event)).unwrap();
    (events, warnings.into_iter().map(|warning| warning.code).collect())
}

fn timeline_of(events: &[TimelineEvent]) -> (Timeline, Vec<Warning>) {
    read(write(events, 1000).as_slice(), &Limits::default()).unwrap()
}

/// One chunk of raw bytes with a right checksum: what a hostile or newer writer could make.
fn chunk(raw: &[u8], before: Definitions) -> Vec<u8> {
    let stored = zstd::bulk::compress(raw, 3).unwrap();
    let header = ChunkHeader {
        crc: 0,
        stored: u32::try_from(stored.len()).unwrap(),
        raw: u32::try_from(raw.len()).unwrap(),
        events: 1,
        before,
    };
    [header.to_bytes(&stored).as_slice(), &stored].concat()
}

fn sample(time: u64, tid: u32, stack: Option<u32>) -> TimelineEvent {
    TimelineEvent::Sample(Sample {
        time: MonoNanos(time),
        tid: Tid(tid),
        cpu: 1,
        stack: stack.map(StackHandle),
        end: StackEnd::Root,
        weight: Nanos(1_001_001),
    })
}

fn user_frame(address: u64) -> TimelineEvent {
    TimelineEvent::Frame(Frame { space: FrameSpace::User, module: None, address })
}

fn stack_node(caller: Option<u32>, frame: u32) -> TimelineEvent {
    TimelineEvent::Stack(StackNode { caller: caller.map(StackHandle), frame: FrameHandle(frame) })
}

fn start(time: u64, tid: u32, name: &str, born: bool) -> TimelineEvent {
    let thread = ThreadInfo { tid: Tid(tid), pid: Pid(1), name: name.to_owned() };
    TimelineEvent::ThreadStart { time: MonoNanos(time), thread, born, by: None }
}

// ---- round trips ----

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_events_round_trip(
        events in proptest::collection::vec(event(), 0..120),
        per_chunk in 1_usize..50,
    ) {
        let (found, warnings) = events_of(&write(&events, per_chunk));
        prop_assert_eq!(found, events);
        prop_assert!(warnings.is_empty(), "{:?}", warnings);
    }

    /// kill -9 at any moment: what was flushed before is there, nothing else, and the reader says so.
    #[test]
    fn any_prefix_of_a_file_gives_a_prefix_of_the_events(
        events in proptest::collection::vec(event(), 1..60),
        per_chunk in 1_usize..20,
        cut in any::<proptest::sample::Index>(),
    ) {
        let bytes = write(&events, per_chunk);
        let cut = cut.index(bytes.len());
        let (found, warnings) = events_of(&bytes[..cut]);
        prop_assert_eq!(&found[..], &events[..found.len()]);
        prop_assert!(found.len() == events.len() || found.len() % per_chunk == 0);
        prop_assert_eq!(warnings, vec!["recording.cut-short".to_owned()]);
    }

    #[test]
    fn any_mutation_of_a_file_is_read_without_panic(
        events in proptest::collection::vec(event(), 1..60),
        per_chunk in 1_usize..20,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = write(&events, per_chunk);
        for (index, value) in changes {
            let length = bytes.len();
            bytes[index.index(length)] = value;
        }
        fuzz_timeline(&bytes);
    }

    /// Behind the checksum: the events themselves may be anything.
    #[test]
    fn any_bytes_as_events_are_read_without_panic(
        raw in proptest::collection::vec(any::<u8>(), 0..400),
        before in any::<(u8, u8, u8)>(),
    ) {
        let before = Definitions { modules: before.0.into(), frames: before.1.into(), stacks: before.2.into() };
        let damaged = [file_header(), vec![0; CHUNK_HEADER_LEN]].concat();
        fuzz_timeline(&[file_header(), chunk(&raw, before)].concat());
        fuzz_timeline(&[damaged, chunk(&raw, before)].concat());
        fuzz_timeline(&raw);
    }

    /// A damaged chunk costs its own events only, and handles keep their meaning behind it.
    #[test]
    fn a_damaged_chunk_is_skipped(
        events in proptest::collection::vec(event(), 20..60),
        damaged in 0_usize..4,
        at in any::<proptest::sample::Index>(),
    ) {
        let chunks: Vec<_> = events.chunks(5).collect();
        let bytes = write(&events, 5);
        // Find the chunk by walking the headers.
        let mut offset = FILE_HEADER_LEN;
        let stored_at = |offset: usize| {
            ChunkHeader::parse(&bytes[offset..offset + CHUNK_HEADER_LEN], 0).unwrap().stored as usize
        };
        for _ in 0..damaged {
            offset += CHUNK_HEADER_LEN + stored_at(offset);
        }
        let mut broken = bytes.clone();
        broken[offset + CHUNK_HEADER_LEN + at.index(stored_at(offset))] ^= 0x55;
        let (found, warnings) = events_of(&broken);
        prop_assert_eq!(warnings, vec!["recording.damaged".to_owned()]);
        let is_definition = |event: &&TimelineEvent| matches!(
            event, TimelineEvent::Frame(_) | TimelineEvent::Stack(_) | TimelineEvent::Module(_)
        );
        // Placeholders stand where definitions were, everything else of the chunk is gone.
        let lost = chunks[damaged].iter().filter(is_definition).count();
        prop_assert_eq!(found.len(), events.len() - chunks[damaged].len() + lost);
        prop_assert_eq!(found.iter().filter(is_definition).count(), events.iter().filter(is_definition).count());
        prop_assert_eq!(&found[..damaged * 5], &events[..damaged * 5]);
        let behind = (damaged + 1) * 5;
        prop_assert_eq!(&found[found.len() - (events.len() - behind)..], &events[behind..]);
    }
}

// ---- sizes ----

#[test]
fn what_there_is_much_of_is_small() {
    let size = |events: &[TimelineEvent]| {
        let mut encoder = super::encode::Encoder::default();
        encoder.push(&sample(1 << 40, 7, Some(1000)));
        encoder.push(&sample(1 << 40, 8, Some(1000)));
        let before = encoder.raw.len();
        events.iter().for_each(|event| encoder.push(event));
        (encoder.raw.len() - before) as f64 / events.len() as f64
    };
    let now = 1 << 40;
    // 999 Hz on two CPUs: half a millisecond apart on average.
    assert!(size(&[sample(now + 500_000, 7, Some(9000))]) <= 8.0);
    let wait = Wait {
        tid: Tid(7),
        start: MonoNanos(now - 3_000_000),
        end: MonoNanos(now + 400_000),
        ready: Some(MonoNanos(now + 390_000)),
        waker: Some(Tid(8)),
        state: WaitState::Sleep,
        syscall: Some(202),
        stack: None,
    };
    let again = Wait {
        start: MonoNanos(now + 500_000),
        end: MonoNanos(now + 900_000),
        ready: Some(MonoNanos(now + 890_000)),
        ..wait
    };
    assert!(size(&[TimelineEvent::Wait(wait), TimelineEvent::Wait(again)]) <= 14.0);
}

// ---- damage ----

#[test]
fn an_empty_file_is_cut_short_and_other_files_are_refused() {
    let (timeline, warnings) = read(&[][..], &Limits::default()).unwrap();
    assert_eq!(timeline, Timeline::default());
    assert_eq!(
        warnings[0].message,
        "the timeline is cut short: it ends inside its header; everything before is there"
    );
    for bad in [&b"PK\x03\x04"[..], b"BIOPSYTM", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        let error = read(bad, &Limits::default()).unwrap_err();
        assert!(matches!(error, TimelineError::NotATimeline { .. }), "{error}");
    }
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_read() {
    let events = [sample(1 << 40, 7, None)];
    let mut bytes = write(&events, 10);
    bytes[10] = 9; // minor
    bytes[12] = 20; // four more bytes of header, which this version does not know
    bytes.splice(16..16, [1, 2, 3, 4]);
    assert_eq!(events_of(&bytes), (events.to_vec(), vec![]));
    bytes[8] = 3; // major
    let error = read(bytes.as_slice(), &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "the timeline has format 3.9, this biopsy reads up to 1.0");
}

#[test]
fn unknown_events_and_trailing_fields_are_skipped() {
    let mut raw = Vec::new();
    raw.extend([0x02, 7, 0xff]); // thread 0 is tid 7, and a field from the future
    raw.extend([0xff, 0x80, 0x01, 31]); // tag 7 + 128, length 31
    raw.extend([0xee; 31]);
    raw.extend([0xe1, 0x7f, 0xee]); // tag 7 + 127, length 1
    // Sample: time +2, flags: cpu 0, end root, new weight; thread 0; no stack; weight 5; two fields from the future.
    raw.extend([0x27, 4, 1, 0, 0, 5, 0xaa, 0xbb]);
    let bytes = [file_header(), chunk(&raw, Definitions::default())].concat();
    let (events, warnings) = events_of(&bytes);
    assert_eq!(
        events,
        [TimelineEvent::Sample(Sample {
            time: MonoNanos(2),
            tid: Tid(7),
            cpu: 0,
            stack: None,
            end: StackEnd::Root,
            weight: Nanos(5),
        })]
    );
    assert_eq!(warnings, ["recording.cut-short", "recording.unknown-events"]);
}

#[test]
fn hostile_sizes_are_refused_before_memory_is_taken() {
    let huge =
        ChunkHeader { crc: 0, stored: u32::MAX, raw: u32::MAX, events: 0, before: Definitions::default() };
    let bytes = [file_header(), huge.to_bytes(&[]).to_vec()].concat();
    let (_, warnings) = read(bytes.as_slice(), &Limits::default()).unwrap();
    assert_eq!(
        warnings[0].message,
        "the timeline is not read to its end: chunk at 0x10 claims 4294967295 bytes, the limit is 8388608"
    );
    // A zstd frame that unpacks to more than the chunk says.
    let mut bomb = chunk(&vec![0x01; 1 << 20], Definitions::default());
    bomb[12..16].copy_from_slice(&100_u32.to_le_bytes());
    let crc = super::chunk::checksum(&bomb[..CHUNK_HEADER_LEN], &bomb[CHUNK_HEADER_LEN..]);
    bomb[4..8].copy_from_slice(&crc.to_le_bytes());
    let (events, warnings) = events_of(&[file_header(), bomb].concat());
    assert_eq!((events.len(), warnings[1].as_str()), (0, "recording.damaged"));
}

#[test]
fn limits_end_reading_with_a_warning() {
    let events: Vec<_> = (0..100).map(|n| sample((1 << 40) + n, 1, None)).collect();
    let limits = Limits { events: 30, ..Limits::default() };
    let (timeline, warnings) = read(write(&events, 10).as_slice(), &limits).unwrap();
    assert_eq!(timeline.samples.len(), 30);
    assert_eq!(warnings[0].code, "recording.limit");
    let frames: Vec<_> = (0..100).map(user_frame).collect();
    let limits = Limits { definitions: 30, ..Limits::default() };
    let (timeline, warnings) = read(write(&frames, 10).as_slice(), &limits).unwrap();
    assert_eq!(timeline.frames.len(), 30);
    assert_eq!(warnings[0].code, "recording.limit");
}

#[test]
fn a_chunk_that_claims_definitions_nobody_made_is_left_out() {
    let before = Definitions { frames: 1_000_000, ..Definitions::default() };
    let (events, warnings) = events_of(&[file_header(), chunk(&[0xe0, 0x7f], before)].concat());
    assert_eq!((events.len(), warnings[1].as_str()), (0, "recording.damaged"));
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let name = "ü".repeat(50_000);
    let mark = TimelineEvent::Mark { time: MonoNanos(5), label: name.clone() };
    let symbols = TimelineEvent::Symbols(FrameSymbols {
        frame: FrameHandle(0),
        functions: (0..200)
            .map(|n| Function { name: format!("{n}{name}"), file: None, line: None })
            .collect(),
        source: SymbolSource::Dwarf,
    });
    let (events, warnings) = events_of(&write(&[mark, symbols], 1));
    assert_eq!(warnings, Vec::<String>::new());
    let TimelineEvent::Mark { label, .. } = &events[0] else { panic!() };
    assert_eq!((label.len(), name.starts_with(label)), (tags::MAX_TEXT, true));
    let TimelineEvent::Symbols(symbols) = &events[1] else { panic!() };
    assert_eq!(symbols.functions.len(), tags::MAX_FUNCTIONS);
    assert!(symbols.functions.last().unwrap().name.starts_with("199ü"), "the real function is the last");
}

/// A disk that is full after some bytes.
struct Full(Rc<Cell<usize>>, Vec<u8>);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let fits = bytes.len().min(self.0.get());
        if fits == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.set(self.0.get() - fits);
        self.1.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_full_disk_nothing_more_is_written_and_what_is_there_is_readable() {
    let room = Rc::new(Cell::new(120));
    let mut writer = Writer::new(Full(Rc::clone(&room), Vec::new())).unwrap();
    let push = |writer: &mut Writer<Full>, n: u64| {
        writer.push(&sample((1 << 40) + n, 1, None))?;
        writer.flush_chunk()
    };
    push(&mut writer, 1).unwrap();
    let failed = (2..10).map(|n| push(&mut writer, n)).find(Result::is_err).unwrap();
    assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    room.set(1_000_000);
    assert_eq!(push(&mut writer, 99).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let (events, warnings) = events_of(&writer.get_ref().1);
    assert!(!events.is_empty());
    assert_eq!(warnings, ["recording.cut-short"]);
}

#[test]
fn a_copy_with_an_end_mark_is_whole() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.push(&sample(1 << 40, 1, None)).unwrap();
    writer.flush_chunk().unwrap();
    let copy = [writer.get_ref().clone(), writer.end_mark()].concat();
    assert_eq!(writer.bytes_written(), writer.get_ref().len() as u64);
    assert_eq!(events_of(&copy).1, Vec::<String>::new());
    assert_eq!(events_of(writer.get_ref()).1, ["recording.cut-short"]);
}

#[test]
fn a_full_chunk_is_written_by_itself() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for n in 0..60_000_u64 {
        writer.push(&sample((1 << 40) + n * 500_001, (n % 30) as u32, None)).unwrap();
    }
    assert!(writer.bytes_written() > 20_000 && writer.bytes_pending() < 300_000);
}

// ---- assembling ----

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
fn handles_that_lead_nowhere_are_left_out_and_counted() {
    let (timeline, warnings) = timeline_of(&[
        user_frame(0x10),
        TimelineEvent::Frame(Frame { space: FrameSpace::User, module: Some(ModuleHandle(3)), address: 0x20 }),
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
