//! speedscope's JSON: <https://www.speedscope.app/file-format-schema.json>. Two sampled profiles a thread: CPU time in
//! the order in which it was used, and waiting time.

use super::stacks::{Thread, Threads, calls_of_frame, wait_shares};
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use biopsy_model::stack::{FrameHandle, StackHandle};
use biopsy_model::timeline::Timeline;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

pub(super) fn write(capture: &Capture, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let threads = Threads::new(capture, timeline);
    let mut frames = Frames { timeline, list: Vec::new(), of: FxHashMap::default() };
    let samples = timeline.samples.iter().map(|s| (threads.at(s.tid, s.time), s.stack, s.weight.0));
    let mut profiles = profiles(&threads, &mut frames, samples, "");
    let shares = wait_shares(timeline);
    let waits = shares.iter().map(|share| (threads.at(share.tid, share.time), share.stack, share.weight.0));
    profiles.extend(self::profiles(&threads, &mut frames, waits, " waiting"));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: capture.header.tool.clone(),
        name: &capture.header.target_name,
        active: 0,
        shared: Shared { frames: frames.list },
        profiles,
    };
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer(&mut out, &file)?;
    out.flush()
}

/// Frames of the file; a frame of the trace gives one for each inlined function.
struct Frames<'a> {
    timeline: &'a Timeline,
    list: Vec<Frame<'a>>,
    of: FxHashMap<FrameHandle, Vec<usize>>,
}

impl Frames<'_> {
    /// Indices of a stack's frames, outermost first.
    fn stack(&mut self, stack: Option<StackHandle>) -> Vec<usize> {
        let mut indices = Vec::new();
        for frame in self.timeline.frames_of(stack).take(1_024) {
            let (timeline, list) = (self.timeline, &mut self.list);
            let of = self.of.entry(frame).or_insert_with(|| {
                let calls = calls_of_frame(timeline, frame);
                let entry = calls.into_iter().map(|call| {
                    list.push(Frame { name: call.name.into_owned(), file: call.file, line: call.line });
                    list.len() - 1
                });
                entry.collect()
            });
            indices.extend_from_slice(of);
        }
        indices.reverse();
        indices
    }
}

/// One profile a thread, the busiest first.
fn profiles(
    threads: &Threads,
    frames: &mut Frames<'_>,
    samples: impl Iterator<Item = (Option<usize>, Option<StackHandle>, u64)>,
    suffix: &str,
) -> Vec<Profile> {
    let mut by_thread: FxHashMap<usize, Vec<(Option<StackHandle>, u64)>> = FxHashMap::default();
    for (thread, stack, weight) in samples {
        let Some(thread) = thread else { continue };
        let list = by_thread.entry(thread).or_default();
        // Neighbours with one stack are one sample: it draws the same.
        match list.last_mut() {
            Some((last, sum)) if *last == stack => *sum = sum.saturating_add(weight),
            _ => list.push((stack, weight)),
        }
    }
    let mut profiles: Vec<(usize, Profile)> = by_thread
        .into_iter()
        .map(|(thread, list)| {
            let Thread { name, tid, .. } = &threads.all[thread];
            let profile = Profile {
                kind: "sampled",
                name: format!("{name} ({tid}){suffix}"),
                unit: "nanoseconds",
                start_value: 0,
                end_value: list.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight)),
                samples: list.iter().map(|(stack, _)| frames.stack(*stack)).collect(),
                weights: list.iter().map(|(_, weight)| *weight).collect(),
            };
            (thread, profile)
        })
        .collect();
    profiles.order_by_key(|(thread, profile)| (std::cmp::Reverse(profile.end_value), *thread));
    profiles.into_iter().map(|(_, profile)| profile).collect()
}
