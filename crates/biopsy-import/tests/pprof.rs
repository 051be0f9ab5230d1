//! Profiles that Go wrote (`fixtures/pprof`, with how they are made), held against `go tool pprof -top`: equal to the last unit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use biopsy_import::{Evidence, EvidenceError, ImportError, pprof};
use biopsy_model::capture::Capture;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{SamplingEvent, TraceMethod};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pprof").join(name)
}

fn capture(name: &str) -> Capture {
    let mut evidence = Evidence::look(fixture(name)).unwrap();
    assert_eq!(evidence.dumps(), 0, "{name} is packed as dumps are, and is none");
    assert!(evidence.dump(0).is_err());
    assert!(evidence.heap(1).unwrap().is_none(), "{name}");
    evidence.capture(&Default::default()).unwrap()
}

/// Function to what is its own and what is below it.
type Sums = BTreeMap<String, (u64, u64)>;

/// As `go tool pprof` says it.
fn expected(name: &str) -> Sums {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("flat ")).skip(1);
    let number = |word: &str| word.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words[5..].join(" ");
        (name.trim_end_matches(" (inline)").to_owned(), (number(words[0]), number(words[3])))
    };
    let rows: Sums = rows.map(row).collect();
    assert!(!rows.is_empty(), "{name}");
    rows
}

/// The same of what was read.
fn sums(capture: &Capture, weights: impl IntoIterator<Item = (Option<StackHandle>, u64)>) -> Sums {
    let timeline = capture.timeline.as_ref().unwrap();
    let mut sums = Sums::new();
    for (stack, weight) in weights {
        let functions: Vec<&str> = timeline
            .frames_of(stack)
            .flat_map(|frame| &timeline.symbols[frame.0 as usize].as_ref().expect("a name").functions)
            .map(|function| function.name.as_str())
            .collect();
        if let Some(leaf) = functions.first() {
            sums.entry((*leaf).to_owned()).or_default().0 += weight;
        }
        for function in functions.into_iter().collect::<BTreeSet<_>>() {
            sums.entry(function.to_owned()).or_default().1 += weight;
        }
    }
    sums.retain(|_, sums| *sums != (0, 0));
    sums
}

fn codes(capture: &Capture) -> Vec<&str> {
    capture.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

#[test]
fn cpu_time_is_that_of_go() {
    let capture = capture("cpu.pb.gz");
    let timeline = capture.timeline.as_ref().unwrap();
    let found = sums(&capture, timeline.samples.iter().map(|sample| (sample.stack, sample.weight.0)));
    assert_eq!(found, expected("cpu.cpu.txt"));
    assert_eq!(timeline.settings.frequency_hz, 100);
    assert_eq!(timeline.settings.method, TraceMethod::Imported);
    assert_eq!(timeline.settings.sampling_event, SamplingEvent::CpuClock);
    assert!(
        timeline.samples.iter().all(|sample| sample.weight.0 == 10_000_000),
        "one for each that was taken"
    );
    assert_eq!(capture.header.target_name, "orders");
    assert_eq!(codes(&capture), ["import.no-times"]);
    let seconds = capture.header.end.as_ref().unwrap().mono.since(capture.header.start.mono).as_secs_f64();
    assert!((2.0..3.0).contains(&seconds), "{seconds}");
    assert!(timeline.samples.windows(2).all(|pair| pair[0].time <= pair[1].time));
    let lines = timeline.symbols.iter().flatten().flat_map(|symbols| &symbols.functions);
    assert!(lines.clone().any(|function| function.name == "main.checksum" && function.line == Some(23)));
}

#[test]
fn waiting_is_that_of_go() {
    for (profile, oracle, holders) in
        [("block.pb.gz", "block.delay.txt", false), ("mutex.pb.gz", "mutex.delay.txt", true)]
    {
        let capture = capture(profile);
        let timeline = capture.timeline.as_ref().unwrap();
        let weights = timeline.wait_samples.iter().map(|sample| (sample.stack, sample.weight.0));
        assert_eq!(sums(&capture, weights), expected(oracle), "{profile}");
        assert!(timeline.samples.is_empty(), "waiting is no CPU time");
        assert_eq!(codes(&capture).contains(&"import.holders"), holders, "{profile}");
    }
}

#[test]
fn memory_is_that_of_go() {
    let capture = capture("heap.pb.gz");
    let timeline = capture.timeline.as_ref().unwrap();
    let all = || timeline.allocations_kept();
    assert_eq!(
        sums(&capture, all().map(|(one, _)| (one.stack, one.weight))),
        expected("heap.alloc_space.txt")
    );
    let kept = all().filter(|(_, kept)| *kept).map(|(one, _)| (one.stack, one.weight));
    assert_eq!(sums(&capture, kept), expected("heap.inuse_space.txt"));
    assert_eq!(codes(&capture), ["import.heap-profile"]);
    assert!(timeline.samples.is_empty() && timeline.wait_samples.is_empty());
}

#[test]
fn counts_of_goroutines_are_refused_with_what_to_do() {
    for (name, kind) in [("goroutine.pb.gz", "goroutine"), ("threadcreate.pb.gz", "threadcreate")] {
        let error = Evidence::look(fixture(name)).unwrap().capture(&Default::default()).unwrap_err();
        assert!(matches!(error, EvidenceError::Import(ImportError::Pprof(_))), "{error:?}");
        assert!(error.to_string().contains(&format!("`{kind}` (count)")), "{error}");
        assert!(error.hint().unwrap().contains("biopsy stacks"));
    }
}

#[test]
fn plain_ones_are_the_same() {
    use std::io::Read as _;
    let packed = std::fs::read(fixture("cpu.pb.gz")).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
    let limits = pprof::Limits::default();
    assert_eq!(pprof::read_bytes(&plain, &limits).unwrap(), pprof::read_bytes(&packed, &limits).unwrap());
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_or_called_partial() {
    let whole = std::fs::read(fixture("heap.pb.gz")).unwrap();
    let limits = pprof::Limits::small();
    assert!(pprof::read_bytes(&whole, &limits).unwrap().header.end.is_some());
    for length in 0..whole.len() {
        if let Ok(capture) = pprof::read_bytes(&whole[..length], &limits) {
            assert!(capture.header.end.is_none(), "{length} bytes pass for all");
            assert!(!capture.warnings.is_empty(), "{length}");
        }
    }
}

#[test]
fn a_bomb_ends_at_the_limit() {
    use std::io::Write as _;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // A kind of sample, and then texts without end.
    bomb.write_all(&[0x0a, 0x04, 0x08, 0x01, 0x10, 0x02]).unwrap();
    let texts = [0x32, 0x00].repeat(1 << 20);
    for _ in 0..32 {
        bomb.write_all(&texts).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = pprof::read_bytes(&bomb, &pprof::Limits::small()).unwrap_err();
    assert!(matches!(error, pprof::PprofError::Empty), "{error:?}");
}
