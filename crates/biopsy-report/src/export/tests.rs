//! Every export of the made-up recording, read back by its own messages or as its JSON, and counted against the recording.

mod agreement;
mod contents;
mod generated;

use super::{Format, perfetto, pprof, write};
use crate::synthetic;
use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;
use flate2::read::GzDecoder;
use prost::Message as _;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use std::io::Read as _;

fn export(format: Format, capture: &Capture) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(format, capture, &mut bytes).expect("it is written");
    bytes
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect("it is gzip");
    plain
}

fn timeline(capture: &Capture) -> &Timeline {
    capture.timeline.as_ref().expect("a trace")
}

#[test]
fn collapsed_counts_every_sample() {
    let capture = synthetic::capture();
    let text = String::from_utf8(export(Format::Collapsed, &capture)).expect("text");
    let mut sum = 0;
    let mut stacks = FxHashSet::default();
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        assert!(stacks.insert(stack), "twice: {stack}");
        sum += count.parse::<usize>().expect("a number");
    }
    assert_eq!(sum, timeline(&capture).samples.len());
    assert!(text.contains(";ksys_write_[k];ext4_file_write_iter_[k];"), "kernel functions are marked");
    assert!(text.contains(";Builtin:JSON.stringify_[j] "), "JIT functions are marked");
    // The inlined function is inside the real one.
    assert!(text.contains(";cmp_dtuple_rec_with_match_low;cmp_data "));
    assert!(text.contains(";mariadbd+0x"), "frames without a name are there");
}

#[test]
fn collapsed_waits_are_microseconds() {
    let capture = synthetic::capture();
    let text = String::from_utf8(export(Format::CollapsedWaits, &capture)).expect("text");
    let sum: u64 = text
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a count").1.parse::<u64>().expect("a number"))
        .sum();
    let nanos: u64 = timeline(&capture).wait_samples.iter().map(|look| look.weight.0).sum();
    let most = text.lines().count() as u64;
    assert!(sum <= nanos / 1_000 && nanos / 1_000 - sum <= most, "{sum} of {nanos} ns in {most} lines");
}

#[test]
fn collapsed_names_cannot_end_a_frame_or_a_line() {
    for seed in 0..60 {
        let capture = synthetic::hostile(seed);
        for format in [Format::Collapsed, Format::CollapsedWaits] {
            let mut bytes = Vec::new();
            if write(format, &capture, &mut bytes).is_err() {
                continue;
            }
            for line in String::from_utf8(bytes).expect("text").split_terminator('\n') {
                let (stack, count) = line.rsplit_once(' ').unwrap_or_else(|| panic!("seed {seed}: `{line}`"));
                assert!(!stack.is_empty() && count.parse::<u64>().is_ok(), "seed {seed}: `{line}`");
            }
        }
    }
}

#[test]
fn speedscope_has_all_time() {
    let capture = synthetic::capture();
    let file: Value = serde_json::from_slice(&export(Format::Speedscope, &capture)).expect("JSON");
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames").len() as u64;
    let mut total = 0;
    for profile in file["profiles"].as_array().expect("profiles") {
        let samples = profile["samples"].as_array().expect("samples");
        let weights = profile["weights"].as_array().expect("weights");
        assert_eq!(samples.len(), weights.len());
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().expect("a weight")).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
        assert_eq!(profile["unit"], "nanoseconds");
        for frame in samples.iter().flat_map(|sample| sample.as_array().expect("a stack")) {
            assert!(frame.as_u64().expect("a frame") < frames);
        }
        if !profile["name"].as_str().expect("a name").ends_with("waiting") {
            total += sum;
        }
    }
    let expected: u64 = timeline(&capture).samples.iter().map(|sample| sample.weight.0).sum();
    assert_eq!(total, expected);
}

#[test]
fn pprof_is_whole() {
    let capture = synthetic::capture();
    let bytes = gunzip(&export(Format::Pprof, &capture));
    let profile = pprof::proto::Profile::decode(bytes.as_slice()).expect("it decodes");
    let string = |index: i64| profile.string_table[usize::try_from(index).expect("an index")].as_str();
    assert_eq!(string(0), "");
    let kinds: Vec<_> =
        profile.sample_type.iter().map(|kind| (string(kind.kind), string(kind.unit))).collect();
    assert_eq!(kinds, [("cpu", "nanoseconds"), ("samples", "count"), ("wait", "nanoseconds")]);
    let functions: FxHashMap<u64, &str> = profile.function.iter().map(|f| (f.id, string(f.name))).collect();
    let mappings: FxHashMap<u64, &str> = profile.mapping.iter().map(|m| (m.id, string(m.filename))).collect();
    let locations: FxHashMap<u64, &pprof::proto::Location> =
        profile.location.iter().map(|l| (l.id, l)).collect();
    assert!(!functions.contains_key(&0) && !locations.contains_key(&0), "0 means none");
    let mut sums = [0; 3];
    let mut threads = FxHashSet::default();
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), 3);
        (0..3).for_each(|index| sums[index] += sample.value[index]);
        for id in &sample.location_id {
            let location = locations[id];
            assert!(location.mapping_id == 0 || mappings.contains_key(&location.mapping_id));
            assert!(location.line.iter().all(|line| functions.contains_key(&line.function_id)));
        }
        let label = sample.label.iter().find(|label| string(label.key) == "thread").expect("a thread");
        threads.insert(string(label.str));
    }
    let trace = timeline(&capture);
    assert_eq!(sums[0] as u64, trace.samples.iter().map(|sample| sample.weight.0).sum::<u64>());
    assert_eq!(sums[1] as usize, trace.samples.len());
    assert_eq!(sums[2] as u64, trace.wait_samples.iter().map(|look| look.weight.0).sum::<u64>());
    assert!(threads.contains("conn-3"));
    assert_eq!(mappings[&1], "/usr/sbin/mariadbd", "the target's executable comes first");
    assert!(string(profile.mapping[0].build_id).len() == 40);
    // Innermost first, and an inlined function before the one it is in.
    let leaf = profile
        .sample
        .iter()
        .map(|sample| locations[&sample.location_id[0]])
        .find(|location| location.line.len() == 2);
    let names: Vec<_> =
        leaf.expect("an inlined leaf").line.iter().map(|line| functions[&line.function_id]).collect();
    assert_eq!(names, ["cmp_data", "cmp_dtuple_rec_with_match_low"]);
}

/// The packets of a trace: field 1, length-delimited, over and over.
fn packets(mut bytes: &[u8]) -> Vec<perfetto::proto::TracePacket> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0], 0x0a);
        bytes = &bytes[1..];
        packets.push(perfetto::proto::TracePacket::decode_length_delimited(&mut bytes).expect("a packet"));
    }
    packets
}

#[test]
fn perfetto_tracks_and_stacks_are_defined_before_use() {
    let capture = synthetic::capture();
    let packets = packets(&export(Format::Perfetto, &capture));
    let mut tracks = FxHashSet::default();
    let mut open: FxHashMap<u64, u64> = FxHashMap::default();
    let (mut frames, mut stacks) = (FxHashMap::default(), FxHashMap::default());
    let (mut names, mut mappings) = (FxHashMap::default(), FxHashSet::default());
    let (mut samples, mut slices, mut counters, mut instants) = (0, 0, 0, 0);
    for packet in &packets {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if let Some(track) = &packet.track_descriptor {
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|parent| tracks.contains(&parent)), "a parent comes first");
            assert!(tracks.insert(track.uuid.expect("a uuid")), "a track is described once");
        }
        if let Some(data) = &packet.interned_data {
            for name in &data.function_names {
                names.insert(name.iid, String::from_utf8(name.str.clone().expect("a name")).expect("UTF-8"));
            }
            mappings.extend(data.mappings.iter().map(|mapping| mapping.iid));
            for frame in &data.frames {
                assert!(names.contains_key(&frame.function_name_id) && mappings.contains(&frame.mapping_id));
                frames.insert(frame.iid.expect("an id"), frame.function_name_id);
            }
            for stack in &data.callstacks {
                assert!(stack.frame_ids.iter().all(|frame| frames.contains_key(frame)));
                stacks.insert(stack.iid, stack.frame_ids.clone());
            }
        }
        if let Some(event) = &packet.track_event {
            let (track, time) = (event.track_uuid.expect("a track"), packet.timestamp.expect("a time"));
            assert!(tracks.contains(&track));
            match event.kind {
                Some(1) => {
                    slices += 1;
                    assert_eq!(open.insert(track, time), None, "slices of waits do not nest");
                }
                Some(2) => assert!(open.remove(&track).expect("it was begun") <= time),
                Some(3) => instants += 1,
                Some(4) => counters += 1,
                other => panic!("an event of kind {other:?}"),
            }
        }
        if let Some(sample) = &packet.perf_sample {
            samples += 1;
            let stack = &stacks[&sample.callstack_iid];
            let root = &names[&frames[stack.first().expect("a root")]];
            assert_eq!(root, "start_thread", "outermost first");
        }
    }
    let trace = timeline(&capture);
    assert!(open.is_empty(), "every slice ends");
    assert_eq!(samples, trace.samples.len());
    assert!(slices > 0 && counters > 1_000 && instants > 20, "{slices} {counters} {instants}");
}

#[test]
fn perfetto_holds_metrics_without_a_trace() {
    let mut capture = synthetic::capture();
    capture.timeline = None;
    let packets = packets(&export(Format::Perfetto, &capture));
    assert!(packets.iter().any(|packet| packet.track_event.is_some()));
    assert!(packets.iter().all(|packet| packet.perf_sample.is_none()));
}

#[test]
fn firefox_has_threads_samples_markers_and_counters() {
    let capture = synthetic::capture();
    let profile: Value = serde_json::from_slice(&gunzip(&export(Format::Firefox, &capture))).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let trace = timeline(&capture);
    assert_eq!(threads.len(), trace.threads.len());
    let mut samples = 0;
    let mut markers = 0;
    for thread in threads {
        let length = thread["samples"]["length"].as_u64().expect("a length");
        assert_eq!(thread["samples"]["stack"].as_array().expect("stacks").len() as u64, length);
        let stacks = thread["stackTable"]["length"].as_u64().expect("a length");
        for stack in thread["samples"]["stack"].as_array().expect("stacks") {
            assert!(stack.is_null() || stack.as_u64().expect("an index") < stacks);
        }
        samples += length;
        markers += thread["markers"]["length"].as_u64().expect("a length");
    }
    assert_eq!(samples, trace.samples.len() as u64);
    let lines = capture.logs.iter().flat_map(|log| &log.lines).filter(|line| line.time.is_some()).count();
    assert_eq!(markers as usize, trace.waits.len() + trace.marks.len() + trace.losses.len() + lines);
    let categories: Vec<_> = profile["meta"]["categories"]
        .as_array()
        .expect("categories")
        .iter()
        .map(|c| c["name"].clone())
        .collect();
    for name in ["Kernel", "Native", "JIT"] {
        assert!(categories.iter().any(|category| category == name), "{categories:?}");
    }
    assert!(profile["counters"].as_array().expect("counters").len() >= 2);
    assert_eq!(profile["meta"]["product"], "mariadbd");
}

#[test]
fn what_cannot_be_exported_is_said() {
    let empty = synthetic::empty();
    for format in Format::ALL {
        let error = write(format, &empty, std::io::sink()).expect_err("there is nothing").to_string();
        assert!(
            error.starts_with(&format!("cannot export to {}: the recording has no ", format.name())),
            "{error}"
        );
    }
}

#[test]
fn names_of_formats() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>(), Ok(format));
    }
    let error = "svg".parse::<Format>().expect_err("not a format");
    assert_eq!(error.to_string(), "unknown export format `svg`");
    assert!(error.hint().contains("`firefox`"));
}
