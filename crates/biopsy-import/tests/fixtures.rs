//! Files that perf wrote: every sample is found, and damage of any kind does no harm.

use biopsy_import::perf_data::{Options, is_perf_data, read, read_bytes};
use biopsy_import::{ImportError, Limits};
use biopsy_model::capture::Capture;
use biopsy_model::timeline::{SamplingEvent, Timeline, TraceMethod};
use linux_perf_data::linux_perf_event_reader::{EventRecord, RecordType};
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;

const FILES: [&str; 8] = [
    "frame-pointers.data",
    "copied-stacks.data",
    "switches.data",
    "pipe.data",
    "compressed.data",
    "compressed-stacks.data",
    "compressed-switches.data",
    "compressed-pipe.data",
];
/// Files that other machines' perf wrote, with the samples that are in them.
const OF_OTHERS: [(&str, usize); 5] = [
    ("../others/sleep.data", 7),
    ("../others/sleep.compressed.data", 8),
    ("../others/sleep.compressed.pipe.data", 8),
    ("../others/sleep.compressed2.data", 7),
    ("../others/fibo.compressed2.pipe.data", 547),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perf-data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("the fixture")
}

fn import(bytes: &[u8]) -> Capture {
    read_bytes(bytes, &Options::closed(), &Limits::default()).expect("a whole file")
}

fn timeline(capture: &Capture) -> &Timeline {
    capture.timeline.as_ref().expect("imports have a trace")
}

/// Times of samples of the first event, and number of switch records, as `linux-perf-data` reads them.
fn second_opinion(name: &str) -> (Vec<u64>, usize) {
    let bytes = Cursor::new(bytes(name));
    let (mut times, mut switches) = (Vec::new(), 0);
    let mut count = |attr_index: usize, record: EventRecord<'_>, kind: RecordType| match record {
        EventRecord::Sample(sample) if attr_index == 0 && sample.tid != Some(0) => {
            times.extend(sample.timestamp)
        }
        _ if kind == RecordType::SWITCH => switches += 1,
        _ => {}
    };
    macro_rules! all {
        ($reader:expr) => {{
            let PerfFileReader { mut perf_file, mut record_iter } = $reader.expect("a whole file");
            while let Some(record) = record_iter.next_record(&mut perf_file).expect("whole records") {
                if let PerfFileRecord::EventRecord { attr_index, record } = record {
                    count(attr_index, record.parse().expect("a whole record"), record.record_type);
                }
            }
        }};
    }
    if name.ends_with("pipe.data") {
        all!(PerfFileReader::parse_pipe(bytes))
    } else {
        all!(PerfFileReader::parse_file(bytes))
    }
    times.sort_unstable();
    (times, switches)
}

#[test]
fn all_samples_are_found() {
    for name in FILES {
        let capture = import(&bytes(name));
        let timeline = timeline(&capture);
        let times: Vec<u64> = timeline.samples.iter().map(|sample| sample.time.0).collect();
        let (expected, _) = second_opinion(name);
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(times, expected, "{name}");
        assert!(
            timeline.samples.iter().all(|sample| sample.stack.is_some() && sample.weight.0 > 0),
            "{name}"
        );
        assert_eq!(timeline.settings.method, TraceMethod::Imported);
        assert_eq!(timeline.settings.sampling_event, SamplingEvent::CpuClock, "{name}");
        assert_eq!(timeline.symbols.len(), timeline.frames.len());
        assert!(capture.header.end.is_some(), "{name}");
        assert!(timeline.process_events.iter().any(|event| format!("{event:?}").contains("Exec")), "{name}");
    }
}

/// Pieces of `PERF_RECORD_COMPRESSED` and `PERF_RECORD_COMPRESSED2`, in files and streams, with records across their borders.
#[test]
fn compressed_records_of_any_perf_are_unpacked() {
    for (name, samples) in OF_OTHERS {
        let capture = import(&bytes(name));
        let times: Vec<u64> = timeline(&capture).samples.iter().map(|sample| sample.time.0).collect();
        let (expected, _) = second_opinion(name);
        assert_eq!(times, expected, "{name}");
        assert_eq!(times.len(), samples, "{name}");
        assert!(!capture.warnings.iter().any(|one| one.code.starts_with("import.cut")), "{name}");
    }
    // As `perf report --stats` counts them.
    for (name, samples) in [
        ("compressed.data", 48),
        ("compressed-stacks.data", 20),
        ("compressed-switches.data", 19),
        ("compressed-pipe.data", 16),
    ] {
        assert_eq!(timeline(&import(&bytes(name))).samples.len(), samples, "{name}");
    }
}

#[test]
fn a_damaged_piece_is_said_and_none_that_can_be_read_is_an_error() {
    let whole = bytes("compressed.data");
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let at = whole.windows(4).position(|four| four == magic).expect("a frame of zstd");
    let mut damaged = whole.clone();
    damaged[at] ^= 0xff;
    let error = read_bytes(&damaged, &Options::closed(), &Limits::default()).expect_err("nothing is there");
    assert!(matches!(error, ImportError::Compressed { .. }), "{error}");
    let small = Limits { file: 2_000, ..Limits::default() };
    let capture = read_bytes(&whole, &Options::closed(), &small).expect("a part");
    assert!(capture.warnings.iter().any(|one| one.code == "import.over-limit"), "{:?}", capture.warnings);
    assert!(capture.header.end.is_none(), "partial");
}

#[test]
fn the_header_tells_who_and_where() {
    let capture = import(&bytes("frame-pointers.data"));
    let header = &capture.header;
    assert_eq!(header.tool, "perf 6.1.187");
    assert_eq!(header.command.last().map(String::as_str), Some("./hot-function"));
    assert_eq!(header.target_name, "hot-function");
    assert_eq!(header.host.architecture, "x86_64");
    assert_eq!(header.host.hostname, "vm");
    assert_eq!(header.host.cpus, 2);
    assert_eq!(timeline(&capture).settings.frequency_hz, 199);
}

#[test]
fn switch_records_become_states_and_waits() {
    let capture = import(&bytes("switches.data"));
    let timeline = timeline(&capture);
    assert!(timeline.settings.has_states && timeline.settings.has_wakeups);
    let switches: u32 = timeline.states.iter().map(|slice| slice.voluntary + slice.involuntary).sum();
    let (_, expected) = second_opinion("switches.data");
    // Switch records come in pairs: out and in.
    assert!(
        switches as usize * 2 + 20 >= expected && switches as usize <= expected,
        "{switches} of {expected}"
    );
    let (from, to) = timeline.span.expect("a span");
    let length = to.since(from).0;
    for life in &timeline.threads {
        let sums: BTreeMap<u32, u64> = timeline
            .states
            .iter()
            .filter(|slice| slice.tid == life.info.tid)
            .map(|slice| (slice.tid.0, slice.running.0 + slice.ready.0 + slice.waiting.0))
            .fold(BTreeMap::new(), |mut sums, (tid, time)| {
                *sums.entry(tid).or_default() += time;
                sums
            });
        assert!(sums.values().all(|sum| *sum <= length), "{life:?}: {sums:?} of {length}");
    }
    let names: Vec<&str> = timeline.threads.iter().map(|life| life.info.name.as_str()).collect();
    assert!(names.contains(&"log-writer-0") && names.contains(&"log-writer-2"), "{names:?}");
    assert!(timeline.waits.iter().any(|wait| wait.waker.is_some() && wait.stack.is_some()));
    assert!(timeline.wait_samples.iter().all(|look| look.weight.0 <= length));
}

#[test]
fn the_start_alone_tells_what_it_is() {
    for name in FILES {
        assert!(is_perf_data(&bytes(name)[..8]));
    }
    assert!(!is_perf_data(b"PK\x03\x04"));
    assert!(!is_perf_data(b""));
}

#[test]
fn what_is_no_perf_data_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "hello").expect("written");
    assert!(matches!(
        read(&file, &Default::default(), &Limits::default()),
        Err(ImportError::NotPerfData { .. })
    ));
    assert!(matches!(
        read(folder.path().join("none"), &Default::default(), &Limits::default()),
        Err(ImportError::Io { .. })
    ));
    let limits = Limits { file: 1_000, ..Limits::default() };
    assert!(matches!(
        read(path("switches.data"), &Default::default(), &limits),
        Err(ImportError::TooLarge { .. })
    ));
    let swapped = [b"2ELIFREP".to_vec(), vec![0; 200]].concat();
    assert!(matches!(
        read_bytes(&swapped, &Options::closed(), &Limits::default()),
        Err(ImportError::BigEndian)
    ));
}

/// Killed by `kill -9`, perf leaves a header that says the data has no size, and no features.
#[test]
fn a_file_without_its_end_is_partial() {
    let whole = bytes("frame-pointers.data");
    let samples = timeline(&import(&whole)).samples.len();
    let mut unfinished = whole.clone();
    // The size of the data is the sixth word of the header.
    unfinished[48..56].fill(0);
    unfinished.truncate(whole.len() / 2);
    let capture = import(&unfinished);
    assert!(capture.header.end.is_none());
    assert!(
        capture.warnings.iter().any(|warning| warning.code == "import.cut-short"),
        "{:?}",
        capture.warnings
    );
    let found = timeline(&capture).samples.len();
    assert!(found > 0 && found < samples, "{found} of {samples}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_does_no_harm(
        file in 0..FILES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = bytes(FILES[file]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        biopsy_import::fuzz_perf_data(&bytes);
    }

    /// The first bytes decide about everything else.
    #[test]
    fn damaged_headers_do_no_harm(
        file in 0..FILES.len(),
        word in 0..40usize,
        value in prop_oneof![any::<u64>(), 0..1_000u64, (u64::MAX - 16)..=u64::MAX],
    ) {
        let mut bytes = bytes(FILES[file]);
        bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
        biopsy_import::fuzz_perf_data(&bytes);
    }
}
