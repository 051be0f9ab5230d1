//! Measures the timeline format on a made-up but realistic stream, beside the same stream as Perfetto packets.
//! The numbers of `docs/design/01-timeline-format.md` come from here:
//!
//! ```text
//! cargo run --release -p biopsy-recording --example timeline_numbers
//! ```
//!
//! With the `trace/timeline.bin` of a real recording as an argument, that is measured instead.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

mod perfetto;
mod stream;

use std::io::Write as _;
use std::time::Instant;

use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::{Limits, timeline};

use stream::Stream;

/// Both formats are compressed in pieces of this size, as both are meant to be.
const PIECE: usize = 256 << 10;

fn main() {
    let (events, seconds) = match std::env::args_os().nth(1) {
        None => {
            println!("60 s of a switch-heavy server on 2 CPUs, {} threads\n", stream::THREADS);
            (Stream::make(60).events, 60.0)
        }
        Some(path) => recorded(std::path::Path::new(&path)),
    };
    println!(
        "| what | events | ours raw | ours zstd | ours deflate | Perfetto raw | Perfetto zstd | Perfetto deflate |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let sample = |event: &TimelineEvent| matches!(event, TimelineEvent::Sample(_));
    let wait = |event: &TimelineEvent| matches!(event, TimelineEvent::Wait(_));
    let states = |event: &TimelineEvent| matches!(event, TimelineEvent::States(_));
    let look = |event: &TimelineEvent| matches!(event, TimelineEvent::WaitSample(_));
    row("CPU samples alone", &events, sample);
    row("the same with all stacks", &events, |event| sample(event) || is_definition(event));
    row("waits alone", &events, wait);
    row("state slices", &events, states);
    row("off-CPU samples", &events, look);
    let both = |event: &TimelineEvent| {
        sample(event) || wait(event) || states(event) || look(event) || is_definition(event)
    };
    row("all of these", &events, both);
    speed(&events, seconds);
    levels(&events, seconds);
}

/// The events of a real timeline, and how many seconds they cover.
fn recorded(path: &std::path::Path) -> (Vec<TimelineEvent>, f64) {
    let bytes = std::fs::read(path).expect("a readable file");
    let mut events = Vec::new();
    timeline::read_events(bytes.as_slice(), &Limits::default(), |event| events.push(event))
        .expect("a timeline");
    let (timeline, _) = timeline::read(bytes.as_slice(), &Limits::default()).expect("a timeline");
    let (first, last) = timeline.span.expect("events");
    println!(
        "{}: {} bytes, {:.1} s, {} threads, {} stacks\n",
        path.display(),
        bytes.len(),
        last.since(first).as_secs_f64(),
        timeline.threads.len(),
        timeline.stacks.len()
    );
    (events, last.since(first).as_secs_f64())
}

fn is_definition(event: &TimelineEvent) -> bool {
    matches!(event, TimelineEvent::Frame(_) | TimelineEvent::Stack(_) | TimelineEvent::Module(_))
}

fn row(what: &str, all: &[TimelineEvent], keep: impl Fn(&TimelineEvent) -> bool) {
    let events: Vec<&TimelineEvent> = all.iter().filter(|event| keep(event)).collect();
    // What is defined along the way is counted to the events it is defined for.
    let count = events.iter().filter(|event| !is_definition(event)).count() as f64;
    let mut writer = timeline::Writer::new(Vec::new()).expect("memory does not fail");
    for event in &events {
        writer.push(event).expect("memory does not fail");
    }
    let ours = writer.finish().expect("memory does not fail");
    let ours_raw = raw_bytes(&ours);
    let theirs = perfetto::encode(&events);
    let per = |bytes: usize| format!("{:.1}", bytes as f64 / count);
    println!(
        "| {what} | {count} | {} | {} | {} | {} | {} | {} |",
        per(ours_raw.len()),
        per(ours.len()),
        per(deflated(&ours_raw)),
        per(theirs.len()),
        per(zstandard(&theirs)),
        per(deflated(&theirs)),
    );
}

/// What is inside the chunks: read back from a file whose chunks were unpacked.
fn raw_bytes(file: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    let mut at = 16;
    while let Some(header) = file.get(at..at + 32) {
        let field =
            |from: usize| u32::from_le_bytes(header[from..from + 4].try_into().expect("four")) as usize;
        let (stored, length) = (field(8), field(12));
        if length > 0 {
            raw.extend(
                zstd::bulk::decompress(&file[at + 32..at + 32 + stored], length).expect("just written"),
            );
        }
        at += 32 + stored;
    }
    raw
}

fn zstandard(bytes: &[u8]) -> usize {
    bytes.chunks(PIECE).map(|piece| zstd::bulk::compress(piece, 3).expect("fits").len()).sum()
}

fn deflated(bytes: &[u8]) -> usize {
    let deflate = |piece: &[u8]| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(piece).expect("memory does not fail");
        encoder.finish().expect("memory does not fail").len()
    };
    bytes.chunks(PIECE).map(deflate).sum()
}

fn speed(events: &[TimelineEvent], seconds: f64) {
    let per_second = events.len() as f64 / seconds;
    let started = Instant::now();
    let mut writer = timeline::Writer::new(Vec::new()).expect("memory does not fail");
    for event in events {
        writer.push(event).expect("memory does not fail");
    }
    let file = writer.finish().expect("memory does not fail");
    let write = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (timeline, warnings) = timeline::read(file.as_slice(), &Limits::default()).expect("just written");
    let read = started.elapsed().as_secs_f64();
    assert!(warnings.is_empty() && !timeline.samples.is_empty());
    println!();
    println!("{per_second:.0} events/s, {:.1} KB/s on disk", file.len() as f64 / seconds / 1e3);
    println!(
        "writing: {:.0} ns an event, {:.2} % of a core at that rate",
        write / events.len() as f64 * 1e9,
        write / seconds * 100.0
    );
    println!(
        "reading: {:.0} ns an event, {:.2} s for 5 minutes",
        read / events.len() as f64 * 1e9,
        read / seconds * 300.0
    );
}

/// What other levels of zstd would give and cost, and what the writer's context takes.
fn levels(events: &[TimelineEvent], seconds: f64) {
    let mut writer = timeline::Writer::new(Vec::new()).expect("memory does not fail");
    for event in events {
        writer.push(event).expect("memory does not fail");
    }
    let raw = raw_bytes(&writer.finish().expect("memory does not fail"));
    println!("\n| zstd level | bytes an event | % of a core | context, KB |");
    println!("| --- | --- | --- | --- |");
    for level in [1, 3, 6, 9] {
        let mut zstd = zstd::bulk::Compressor::new(level).expect("a level");
        let started = Instant::now();
        let size: usize = raw.chunks(PIECE).map(|piece| zstd.compress(piece).expect("fits").len()).sum();
        println!(
            "| {level} | {:.2} | {:.2} | {} |",
            size as f64 / events.len() as f64,
            started.elapsed().as_secs_f64() / seconds * 100.0,
            zstd.context_mut().sizeof() / 1000,
        );
    }
}
