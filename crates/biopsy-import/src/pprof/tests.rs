//! Profiles written by hand: what a number means, what refers to nothing, what is too much.

use super::*;
use biopsy_bytes::put_varint;
use biopsy_model::Tid;
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::Timeline;
use proptest::prelude::*;

/// A profile in the making.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    texts: Vec<String>,
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

impl Made {
    fn text(&mut self, text: &str) -> u64 {
        if self.texts.is_empty() {
            self.texts.push(String::new());
        }
        let at = self.texts.iter().position(|known| known == text).unwrap_or(self.texts.len());
        if at == self.texts.len() {
            self.texts.push(text.to_owned());
        }
        at as u64
    }

    fn message(&mut self, field: u64, numbers: &[(u64, u64)]) -> &mut Self {
        let mut message = Vec::new();
        for (field, value) in numbers {
            number(&mut message, *field, *value);
        }
        bytes(&mut self.bytes, field, &message);
        self
    }

    fn kind(&mut self, kind: &str, unit: &str) -> &mut Self {
        let (kind, unit) = (self.text(kind), self.text(unit));
        self.message(1, &[(1, kind), (2, unit)])
    }

    fn sample(&mut self, locations: &[u64], values: &[i64]) -> &mut Self {
        let locations = locations.iter().map(|id| (1, *id));
        let values = values.iter().map(|value| (2, value.cast_unsigned()));
        let all: Vec<(u64, u64)> = locations.chain(values).collect();
        self.message(2, &all)
    }

    /// Locations and functions 1, 2, ... with these names.
    fn functions(&mut self, names: &[&str]) -> &mut Self {
        for (id, name) in (1..).zip(names) {
            let (text, file) = (self.text(name), self.text("app.py"));
            let mut line = Vec::new();
            number(&mut line, 1, id);
            number(&mut line, 2, 10 + id);
            let mut location = Vec::new();
            number(&mut location, 1, id);
            bytes(&mut location, 4, &line);
            bytes(&mut self.bytes, 4, &location);
            self.message(5, &[(1, id), (2, text), (4, file)]);
        }
        self
    }

    fn field(&mut self, field: u64, value: u64) -> &mut Self {
        number(&mut self.bytes, field, value);
        self
    }

    fn finish(&self) -> Vec<u8> {
        let mut all = self.bytes.clone();
        for text in &self.texts {
            bytes(&mut all, 6, text.as_bytes());
        }
        all
    }

    fn read(&self) -> Capture {
        read_bytes(&self.finish(), &Limits::default()).unwrap()
    }

    fn refused(&self) -> PprofError {
        read_bytes(&self.finish(), &Limits::default()).unwrap_err()
    }
}

/// Kinds of samples, the period, and what becomes of 10, 20, 30, 40.
type Meaning = (&'static [(&'static str, &'static str)], Option<(&'static str, &'static str, u64)>, [u64; 4]);

const SECOND: u64 = 1_000_000_000;

fn cpu() -> Made {
    let mut made = Made::default();
    made.kind("samples", "count").kind("cpu", "milliseconds");
    made.field(9, 50 * SECOND).field(10, 2 * SECOND);
    made
}

fn names(timeline: &Timeline, stack: Option<biopsy_model::stack::StackHandle>) -> Vec<&str> {
    let symbols = timeline.frames_of(stack).filter_map(|frame| timeline.symbols[frame.0 as usize].as_ref());
    symbols.flat_map(|symbols| &symbols.functions).map(|function| function.name.as_str()).collect()
}

fn codes(capture: &Capture) -> Vec<&str> {
    capture.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

#[test]
fn sums_become_as_many_samples_as_were_taken() {
    let capture =
        cpu().functions(&["inner", "outer"]).sample(&[1, 2], &[3, 31]).sample(&[2], &[1, 10]).read();
    let timeline = capture.timeline.unwrap();
    let weights: Vec<u64> = timeline.samples.iter().map(|sample| sample.weight.0).collect();
    assert_eq!(weights.len(), 4);
    assert_eq!(weights.iter().sum::<u64>(), 41_000_000, "milliseconds");
    assert_eq!(names(&timeline, timeline.samples[0].stack), ["inner", "outer"]);
    let (from, to) = timeline.span.unwrap();
    assert_eq!((from.0, to.0), (50 * SECOND, 52 * SECOND));
    assert!(timeline.samples.iter().all(|sample| sample.time >= from && sample.time < to));
    assert_eq!(timeline.threads[0].info.name, "all threads");
    assert_eq!(timeline.threads[0].info.tid, Tid(0), "nobody says which");
}

#[test]
fn what_numbers_mean_is_told_by_their_names() {
    // Kinds, period, nanoseconds of CPU, of waiting, bytes allocated, in use.
    let table: &[Meaning] = &[
        (&[("samples", "count"), ("cpu", "nanoseconds")], None, [20, 0, 0, 0]),
        (&[("samples", "count")], Some(("cpu", "nanoseconds", 1_000)), [10_000, 0, 0, 0]),
        (&[("sample", "count")], Some(("wall", "microseconds", 2)), [0, 20_000, 0, 0]),
        (&[("cpu", "microseconds")], None, [10_000, 0, 0, 0]),
        (&[("contentions", "count"), ("delay", "nanoseconds")], None, [0, 20, 0, 0]),
        (&[("wall", "nanoseconds"), ("cpu", "nanoseconds")], None, [20, 10, 0, 0]),
        (
            &[
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            Some(("space", "bytes", 524_288)),
            [0, 0, 40, 40],
        ),
        (&[("objects", "count"), ("space", "bytes")], None, [0, 0, 20, 20]),
        (&[("inuse_space", "bytes"), ("alloc_space", "bytes")], None, [0, 0, 20, 10]),
    ];
    for (kinds, period, expected) in table {
        let mut made = Made::default();
        for (kind, unit) in *kinds {
            made.kind(kind, unit);
        }
        if let Some((kind, unit, period)) = period {
            let (kind, unit) = (made.text(kind), made.text(unit));
            made.message(11, &[(1, kind), (2, unit)]).field(12, *period);
        }
        let capture = made.functions(&["main"]).sample(&[1], &[10, 20, 30, 40]).read();
        let timeline = capture.timeline.unwrap();
        let found = [
            timeline.samples.iter().map(|sample| sample.weight.0).sum::<u64>(),
            timeline.wait_samples.iter().map(|sample| sample.weight.0).sum(),
            timeline.allocations.iter().map(|one| one.weight).sum(),
            timeline.allocations_kept().filter(|(_, kept)| *kept).map(|(one, _)| one.weight).sum(),
        ];
        assert_eq!(found, *expected, "{kinds:?}");
    }
}

#[test]
fn what_is_not_read_is_named() {
    let refused = |kind: &str, unit: &str| {
        let mut made = Made::default();
        made.kind(kind, unit).functions(&["main"]).sample(&[1], &[1]).refused().to_string()
    };
    assert!(refused("goroutine", "count").contains("`goroutine` (count)"));
    assert!(refused("alloc_space", "bytes").contains("without what of it is in use"));
    assert!(refused("cpu", "count").contains("`cpu` (count)"), "no unit of time");
    assert!(refused("samples", "count").contains("holds"), "nobody says of how long each is");
    let beside = cpu().kind("exception", "count").functions(&["main"]).sample(&[1], &[1, 10, 5]).read();
    let told = beside.warnings.iter().find(|warning| warning.code == "import.not-read").unwrap();
    assert!(told.message.contains("`exception` (count)"), "{}", told.message);
}

#[test]
fn threads_are_told_by_labels() {
    let mut made = cpu();
    let keys = ["tid", "thread", "pid", "secret", "worker-1", "hunter2", "4711"].map(|text| made.text(text));
    let [tid, thread, pid, secret, worker, password, text_id] = keys;
    made.functions(&["main"]);
    let sample = |made: &mut Made, labels: &[&[(u64, u64)]]| {
        let mut message = Vec::new();
        number(&mut message, 1, 1);
        number(&mut message, 2, 1);
        number(&mut message, 2, 5);
        for label in labels {
            let mut inner = Vec::new();
            label.iter().for_each(|(field, value)| number(&mut inner, *field, *value));
            bytes(&mut message, 3, &inner);
        }
        bytes(&mut made.bytes, 2, &message);
    };
    sample(&mut made, &[&[(1, tid), (3, 42)], &[(1, thread), (2, worker)], &[(1, pid), (3, 40)]]);
    sample(&mut made, &[&[(1, tid), (2, text_id)], &[(1, pid), (3, 40)], &[(1, secret), (2, password)]]);
    sample(&mut made, &[&[(1, thread), (2, worker)]]);
    sample(&mut made, &[&[(1, tid), (3, u64::MAX)], &[(1, 999), (2, 999)]]);
    let capture = made.read();
    let timeline = capture.timeline.as_ref().unwrap();
    let threads: Vec<_> = timeline
        .threads
        .iter()
        .map(|thread| (thread.info.pid.0, thread.info.tid.0, thread.info.name.as_str()))
        .collect();
    assert_eq!(
        threads,
        [(0, 0, "all threads"), (0, 1, "worker-1"), (40, 42, "worker-1"), (40, 4711, "")],
        "by number, by name, or not at all"
    );
    assert_eq!(capture.header.target.as_ref().unwrap().pid.0, 40);
    assert!(!format!("{capture:?}").contains("hunter2"), "labels of the application are not kept");
}

#[test]
fn what_leads_nowhere_is_counted_and_costs_only_itself() {
    let mut made = cpu();
    made.functions(&["main"]).sample(&[1, 77], &[1, 10]).sample(&[1], &[]).sample(&[], &[1, 10]);
    // A location of a function that is not there, and a function with a name that is not.
    made.message(5, &[(1, 50), (2, 4_000_000_000), (4, u64::MAX)]);
    let capture = made.read();
    let timeline = capture.timeline.as_ref().unwrap();
    assert_eq!(timeline.samples.len(), 2);
    assert_eq!(names(timeline, timeline.samples[0].stack), ["main"]);
    let damaged = capture.warnings.iter().find(|warning| warning.code == "import.damaged").unwrap();
    assert!(damaged.message.starts_with("2 places"), "{}", damaged.message);
}

#[test]
fn a_difference_of_two_profiles_says_so() {
    let capture = cpu().functions(&["main"]).sample(&[1], &[-1, -10]).sample(&[1], &[1, 10]).read();
    assert_eq!(capture.timeline.as_ref().unwrap().samples.len(), 1);
    assert!(codes(&capture).contains(&"import.difference"));
}

#[test]
fn recursion_is_a_stack_like_any_other_and_has_an_end() {
    let limits = Limits::small();
    let deep = vec![1; limits.depth];
    let deeper = vec![1; limits.depth + 1];
    let bytes = cpu().functions(&["fib"]).sample(&deep, &[1, 10]).sample(&deeper, &[1, 10]).finish();
    let capture = read_bytes(&bytes, &limits).unwrap();
    let timeline = capture.timeline.unwrap();
    assert_eq!(timeline.samples.len(), 2);
    for sample in &timeline.samples {
        assert_eq!(timeline.frames_of(sample.stack).count(), limits.depth);
    }
    let ends: Vec<_> = timeline.samples.iter().map(|sample| sample.end == StackEnd::Truncated).collect();
    assert_eq!(ends.iter().filter(|cut| **cut).count(), 1, "{ends:?}");
}

#[test]
fn more_than_the_limits_is_left_out_and_said() {
    let limits = Limits { rows: 2, ..Limits::small() };
    let bytes =
        cpu().sample(&[1], &[1, 1]).sample(&[1], &[1, 1]).sample(&[1], &[1, 1]).functions(&["main"]).finish();
    // Four texts of names, of which two are read: nobody knows what the numbers are.
    assert!(matches!(read_bytes(&bytes, &limits), Err(PprofError::OtherKinds { .. })));
    let bytes = cpu().functions(&["main"]).sample(&[1], &[1_000_000, 1_000_000]).finish();
    let capture = read_bytes(&bytes, &Limits::small()).unwrap();
    assert!(codes(&capture).contains(&"import.thinned"), "{:?}", codes(&capture));
    let samples = capture.timeline.unwrap().samples;
    assert_eq!(samples.len(), Limits::small().samples);
    assert_eq!(samples.iter().map(|sample| sample.weight.0).sum::<u64>(), 1_000_000 * 1_000_000);
    // A long name, asked for by many short rows.
    let limits = Limits { names: 1_000, text: 500, ..Limits::default() };
    let long = "n".repeat(400);
    let rows: Vec<&str> = vec![&long; 10];
    let mut made = cpu();
    made.functions(&rows);
    for id in 1..=10 {
        made.sample(&[id], &[1, 1]);
    }
    let capture = read_bytes(&made.finish(), &limits).unwrap();
    assert!(codes(&capture).contains(&"import.over-limit"));
    assert_eq!(capture.timeline.unwrap().symbols.iter().flatten().count(), 2);
}

#[test]
fn a_profile_begins_with_what_its_numbers_are() {
    let whole = cpu().finish();
    assert!(profile::begins(&whole));
    assert!(profile::begins(b"\x48\x01\x50\x02\x0a\x02\x08\x01"), "Go writes the time first");
    for (bytes, what) in [
        (&b""[..], "nothing"),
        (b"\n\x04text", "a line and a text"),
        (b"\n", "a line"),
        (b"\x0a\x00", "an empty message"),
        (b"\x0a\x02\x0a\x00", "a message in it"),
        (b"\x12\x04\x08\x01\x10\x02", "another field"),
        (b"\x48\x01\x12\x00\x0a\x02\x08\x01", "samples first"),
        (b"\x48\x01\x50\x02", "times alone"),
        (b"\x7fELF\x02\x01\x01\x00", "a core"),
        (b"Nettrace", "an event stream"),
        (b"\x0a\x04\x08\x01", "cut off in it"),
    ] {
        assert!(!profile::begins(bytes), "{what}");
    }
}

#[test]
fn without_a_length_of_time_nothing_is_said_of_cpus() {
    let mut made = Made::default();
    let capture = made.kind("cpu", "ns").functions(&["main"]).sample(&[1], &[5]).read();
    let timeline = capture.timeline.unwrap();
    assert_eq!(timeline.settings.sampling_event, biopsy_model::timeline::SamplingEvent::Unknown);
    assert_eq!(timeline.samples.len(), 1);
    // A length that cannot be is not one of centuries.
    let mut made = cpu();
    let capture = made.field(10, i64::MAX.cast_unsigned()).functions(&["main"]).sample(&[1], &[1, 1]).read();
    assert!(capture.header.end.unwrap().mono.0 < 400 * 86_400 * SECOND);
}

proptest! {
    #[test]
    fn any_change_gives_a_capture_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = cpu().functions(&["a", "b", "c"]).sample(&[1, 2, 3], &[2, 20]).sample(&[3], &[1, 10]).finish();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let limits = Limits::small();
        if let Ok(capture) = read_bytes(&bytes, &limits) {
            let timeline = capture.timeline.unwrap();
            prop_assert!(timeline.samples.len() <= limits.samples + limits.rows);
            for sample in &timeline.samples {
                prop_assert!(timeline.frames_of(sample.stack).count() <= limits.depth);
            }
        }
    }
}
