//! The formats hold one recording: what each says of the functions that ran is held against a walk over the recording itself. pprof's
//! and Perfetto's bytes are read here by the field numbers of their published messages, and not by the types that wrote them.

use super::{export, generated, gunzip, timeline};
use crate::export::{Format, write};
use crate::synthetic;
use biopsy_model::capture::Capture;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Time, or samples, of the function that a stack ends in; stacks without any have an empty name.
type Own = BTreeMap<String, u64>;

/// A field of a message: its number, and a number or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number has ten bytes at most");
}

/// The fields of a message in the wire format of protocol buffers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                fields.push((key >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).expect("a length"),
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (content, rest) = bytes.split_at(length);
        fields.push((key >> 3, Field::Bytes(content)));
        bytes = rest;
    }
    fields
}

fn messages<'a>(of: &[(u64, Field<'a>)], number: u64) -> Vec<&'a [u8]> {
    let bytes = |field: &Field<'a>| match field {
        Field::Bytes(bytes) => *bytes,
        Field::Number(_) => panic!("field {number} is a message"),
    };
    of.iter().filter(|(of, _)| *of == number).map(|(_, field)| bytes(field)).collect()
}

/// A field that is a number, or many in one.
fn numbers(of: &[(u64, Field<'_>)], number: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for (_, field) in of.iter().filter(|(of, _)| *of == number) {
        match field {
            Field::Number(one) => numbers.push(*one),
            Field::Bytes(packed) => {
                let mut packed = *packed;
                while !packed.is_empty() {
                    numbers.push(varint(&mut packed));
                }
            }
        }
    }
    numbers
}

/// As `proto/profile.proto` of pprof has it: sample 2 (location_id 1, value 2), location 4 (id 1, line 4: function_id 1), function 5
/// (id 1, name 2), string_table 6.
fn own_of_pprof(bytes: &[u8], value: usize) -> Own {
    let plain = gunzip(bytes);
    let profile = fields(&plain);
    let strings: Vec<String> =
        messages(&profile, 6).iter().map(|text| String::from_utf8(text.to_vec()).expect("UTF-8")).collect();
    let first = |of: &[(u64, Field<'_>)], number| numbers(of, number).first().copied().unwrap_or(0);
    let functions: BTreeMap<u64, String> = messages(&profile, 5)
        .into_iter()
        .map(|function| {
            let function = fields(function);
            let name = usize::try_from(first(&function, 2)).expect("an index");
            (first(&function, 1), strings[name].clone())
        })
        .collect();
    let locations: BTreeMap<u64, String> = messages(&profile, 4)
        .into_iter()
        .map(|location| {
            let location = fields(location);
            // Of several lines the first is the innermost.
            let line = fields(messages(&location, 4)[0]);
            (first(&location, 1), functions[&first(&line, 1)].clone())
        })
        .collect();
    let mut own = Own::new();
    for sample in messages(&profile, 2) {
        let sample = fields(sample);
        let leaf = numbers(&sample, 1).first().map_or_else(String::new, |id| locations[id].clone());
        *own.entry(leaf).or_default() += numbers(&sample, 2)[value];
    }
    own.retain(|_, sum| *sum > 0);
    own
}

/// As `perfetto_trace.proto` has it: packet 1; interned_data 12 (function_names 5, frames 6: iid 1, function_name_id 2, callstacks 7: iid
/// 1, frame_ids 2), perf_sample 66 (callstack_iid 4, timebase_count 6).
fn own_of_perfetto(bytes: &[u8]) -> Own {
    let (mut names, mut frames, mut stacks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut own = Own::new();
    for packet in messages(&fields(bytes), 1) {
        let packet = fields(packet);
        for data in messages(&packet, 12) {
            let data = fields(data);
            for name in messages(&data, 5) {
                let name = fields(name);
                let text = messages(&name, 2)[0].to_vec();
                names.insert(numbers(&name, 1)[0], String::from_utf8(text).expect("UTF-8"));
            }
            for frame in messages(&data, 6) {
                let frame = fields(frame);
                frames.insert(numbers(&frame, 1)[0], numbers(&frame, 2)[0]);
            }
            for stack in messages(&data, 7) {
                let stack = fields(stack);
                stacks.insert(numbers(&stack, 1)[0], *numbers(&stack, 2).last().expect("a frame"));
            }
        }
        for sample in messages(&packet, 66) {
            let sample = fields(sample);
            let leaf = numbers(&sample, 4).first().map(|stack| names[&frames[&stacks[stack]]].clone());
            *own.entry(leaf.unwrap_or_default()).or_default() += numbers(&sample, 6)[0];
        }
    }
    own.retain(|_, sum| *sum > 0);
    own
}

fn own_of_speedscope(bytes: &[u8], waiting: bool) -> Own {
    let file: Value = serde_json::from_slice(bytes).expect("JSON");
    let mut own = Own::new();
    for profile in file["profiles"].as_array().expect("profiles") {
        if profile["name"].as_str().expect("a name").ends_with(" waiting") != waiting {
            continue;
        }
        let samples = profile["samples"].as_array().expect("samples");
        for (stack, weight) in samples.iter().zip(profile["weights"].as_array().expect("weights")) {
            let leaf = stack.as_array().expect("a stack").last();
            let leaf = leaf.map(|frame| {
                let frame = usize::try_from(frame.as_u64().expect("an index")).expect("it is small");
                file["shared"]["frames"][frame]["name"].as_str().expect("a name").to_owned()
            });
            *own.entry(leaf.unwrap_or_default()).or_default() += weight.as_u64().expect("a weight");
        }
    }
    own.retain(|_, sum| *sum > 0);
    own
}

/// What `flamegraph.pl` takes for stack and count: `/^(.*)\s+?(\d+(?:\.\d*)?)$/`, twice where the rest ends in a number too.
fn own_of_collapsed(bytes: &[u8]) -> Own {
    let mut own = Own::new();
    let parse = |line: &str| {
        let (stack, count) = line.rsplit_once(char::is_whitespace)?;
        let is_number = count.starts_with(|char: char| char.is_ascii_digit())
            && count.chars().all(|char| char.is_ascii_digit() || char == '.');
        is_number.then(|| (stack.to_owned(), count.parse::<u64>().unwrap_or(0)))
    };
    for line in std::str::from_utf8(bytes).expect("UTF-8").lines() {
        let (stack, count) = parse(line).expect("a count");
        assert_eq!(parse(&stack), None, "a second number is another count: `{line}`");
        let leaf = stack.rsplit(';').next().expect("a frame");
        let leaf = leaf.strip_suffix("_[k]").or(leaf.strip_suffix("_[j]")).unwrap_or(leaf);
        let leaf = if leaf == "[no stack]" { "" } else { leaf };
        *own.entry(leaf.to_owned()).or_default() += count;
    }
    own
}

/// By a walk of its own: the innermost function of the first frame that there is.
fn leaf(trace: &Timeline, stack: Option<StackHandle>) -> String {
    let mut next = stack;
    let (at, frame) = loop {
        let Some(handle) = next else { return String::new() };
        let Some(node) = trace.stacks.get(handle.0 as usize) else { return String::new() };
        let at = node.frame.0 as usize;
        match trace.frames.get(at) {
            Some(frame) => break (at, frame),
            None => next = node.caller.filter(|caller| caller.0 < handle.0),
        }
    };
    let symbols = trace.symbols.get(at).and_then(Option::as_ref);
    let named = symbols.and_then(|symbols| symbols.functions.iter().find(|one| !one.name.is_empty()));
    match (named, frame.module.and_then(|module| trace.modules.get(module.0 as usize))) {
        (Some(function), _) => function.name.clone(),
        (None, Some(module)) => {
            format!("{}+{:#x}", module.path.rsplit('/').next().expect("a name"), frame.address)
        }
        (None, None) => format!("{:#x}", frame.address),
    }
}

fn own(trace: &Timeline, parts: impl Iterator<Item = (Option<StackHandle>, u64)>) -> Own {
    let mut own = Own::new();
    for (stack, weight) in parts {
        *own.entry(leaf(trace, stack)).or_default() += weight;
    }
    own.retain(|_, sum| *sum > 0);
    own
}

fn cpu_time(trace: &Timeline) -> Own {
    own(trace, trace.samples.iter().map(|sample| (sample.stack, sample.weight.0)))
}

fn samples(trace: &Timeline) -> Own {
    own(trace, trace.samples.iter().map(|sample| (sample.stack, 1)))
}

fn waiting_time(trace: &Timeline) -> Own {
    if trace.wait_samples.is_empty() {
        let waits = trace.waits.iter().filter(|wait| wait.stack.is_some());
        return own(trace, waits.map(|wait| (wait.stack, wait.end.0.saturating_sub(wait.start.0))));
    }
    own(trace, trace.wait_samples.iter().map(|look| (look.stack, look.weight.0)))
}

#[test]
fn each_format_gives_each_function_its_own_time() {
    let capture = synthetic::capture();
    let trace = timeline(&capture);
    let (cpu, counts, waits) = (cpu_time(trace), samples(trace), waiting_time(trace));
    assert!(cpu.len() > 5 && waits.len() > 2, "{cpu:?} {waits:?}");
    let profile = export(Format::Pprof, &capture);
    assert_eq!(own_of_pprof(&profile, 0), cpu);
    assert_eq!(own_of_pprof(&profile, 1), counts);
    assert_eq!(own_of_pprof(&profile, 2), waits);
    let speedscope = export(Format::Speedscope, &capture);
    assert_eq!(own_of_speedscope(&speedscope, false), cpu);
    assert_eq!(own_of_speedscope(&speedscope, true), waits);
    assert_eq!(own_of_perfetto(&export(Format::Perfetto, &capture)), cpu);
    assert_eq!(own_of_collapsed(&export(Format::Collapsed, &capture)), counts);
}

/// A format that has nothing of a recording refuses it, and only then.
fn exported(format: Format, capture: &Capture) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(format, capture, &mut bytes).is_ok().then_some(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn formats_agree_about_any_trace(trace in generated::traces()) {
        let capture = generated::capture(trace);
        let trace = timeline(&capture);
        let (cpu, counts, waits) = (cpu_time(trace), samples(trace), waiting_time(trace));
        let has_shares = !trace.wait_samples.is_empty() || trace.waits.iter().any(|wait| wait.stack.is_some());
        let nothing = trace.samples.is_empty() && !has_shares;
        match exported(Format::Pprof, &capture) {
            Some(profile) => {
                prop_assert_eq!(own_of_pprof(&profile, 0), cpu.clone());
                prop_assert_eq!(own_of_pprof(&profile, 1), counts.clone());
                prop_assert_eq!(own_of_pprof(&profile, 2), waits.clone());
            }
            None => prop_assert!(nothing && trace.allocations.is_empty()),
        }
        match exported(Format::Speedscope, &capture) {
            Some(file) => {
                prop_assert!(!nothing);
                prop_assert_eq!(own_of_speedscope(&file, false), cpu.clone());
                prop_assert_eq!(own_of_speedscope(&file, true), waits.clone());
            }
            None => prop_assert!(nothing),
        }
        // Where there are no samples it shows the looks at waiting threads.
        if let (Some(file), false) = (exported(Format::Perfetto, &capture), trace.samples.is_empty()) {
            prop_assert_eq!(own_of_perfetto(&file), cpu);
        }
        // Names are changed there where they would end a frame; their sums are not.
        let sum = |own: &Own| own.values().sum::<u64>();
        let collapsed = exported(Format::Collapsed, &capture);
        prop_assert_eq!(collapsed.map_or(0, |file| sum(&own_of_collapsed(&file))), sum(&counts));
    }
}
