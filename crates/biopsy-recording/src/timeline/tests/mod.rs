//! Tests of the timeline, and what they are made of.

mod arbitrary;
mod assembling;
mod damage;
mod ring;
mod round_trips;

use biopsy_model::loss::Warning;
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Sample, Timeline, TimelineEvent};
use biopsy_model::{LookupAddress, MonoNanos, Nanos, Pid, Tid};

use super::chunk::{ChunkHeader, Definitions};
use super::{Writer, read, read_events};
use crate::Limits;

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
    TimelineEvent::Frame(Frame { space: FrameSpace::User, module: None, address: LookupAddress(address) })
}

fn stack_node(caller: Option<u32>, frame: u32) -> TimelineEvent {
    TimelineEvent::Stack(StackNode { caller: caller.map(StackHandle), frame: FrameHandle(frame) })
}

fn start(time: u64, tid: u32, name: &str, born: bool) -> TimelineEvent {
    let thread = ThreadInfo { tid: Tid(tid), pid: Pid(1), name: name.to_owned() };
    TimelineEvent::ThreadStart { time: MonoNanos(time), thread, born, by: None }
}
