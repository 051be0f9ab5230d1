//! Event traces, as other tools write them, as captures.

use biopsy_dotnet::nettrace::EventMetadata;
use biopsy_dotnet::nettrace::write::{EventRow, Writer, text16};
use biopsy_import::nettrace::{Limits, read, read_from};
use biopsy_model::capture::Capture;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use biopsy_redact::{Options, Redactor};

const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// Samples of two threads every millisecond, an exception with a secret, and the methods in the end.
fn stream(lost: bool) -> Vec<u8> {
    let metadata = |provider: &str, id, version| EventMetadata {
        provider: provider.to_owned(),
        id,
        version,
        ..EventMetadata::default()
    };
    let mut writer = Writer::new(4);
    writer.metadata(&[
        (1, &metadata("Microsoft-DotNETCore-SampleProfiler", 0, 0)),
        (2, &metadata(RUNDOWN, 144, 1)),
        (3, &metadata("Microsoft-Windows-DotNETRuntime", 80, 1)),
    ]);
    writer.stacks(1, &[vec![0x1010, 0x2021], vec![0x9999]]);
    let mut rows = Vec::new();
    for tick in 0..100_u64 {
        for thread in [7, 8] {
            rows.push(EventRow {
                metadata: 1,
                sequence: rows.len() as u32 + 1,
                thread,
                capture_thread: 1,
                stack: thread as u32 - 6,
                ticks: 1_000 + tick * 1_000_000,
                payload: vec![2, 0, 0, 0],
                ..EventRow::default()
            });
        }
    }
    let mut payload = Vec::new();
    text16(&mut payload, "App.Refused");
    text16(&mut payload, "Server=db;User Id=app;Password=hunter2;");
    payload.extend([0; 18]);
    let sequence = rows.len() as u32 + if lost { 5 } else { 1 };
    let thrown = EventRow {
        metadata: 3,
        sequence,
        thread: 7,
        capture_thread: 1,
        ticks: 100_001_000,
        payload,
        ..EventRow::default()
    };
    rows.push(thrown);
    for (index, (start, name)) in [(0x1000_u64, "Spin"), (0x2000, "Main")].into_iter().enumerate() {
        let mut payload = Vec::new();
        for word in [start, 77, start] {
            payload.extend(word.to_le_bytes());
        }
        for word in [0x100_u32, 0x0600_0001, 8] {
            payload.extend(word.to_le_bytes());
        }
        for text in ["App.Worker", name, "void ()"] {
            text16(&mut payload, text);
        }
        payload.extend([0; 2]);
        let sequence = sequence + 1 + index as u32;
        let ticks = 100_002_000;
        rows.push(EventRow {
            metadata: 2,
            sequence,
            capture_thread: 1,
            thread: 1,
            ticks,
            payload,
            ..EventRow::default()
        });
    }
    writer.events(&rows, true);
    writer.finish()
}

fn import(bytes: &[u8], limits: &Limits) -> Capture {
    let redactor = Redactor::new(Options::default()).unwrap();
    read_from(bytes, "x.nettrace", &redactor, limits).unwrap()
}

fn warned(capture: &Capture, code: &str) -> bool {
    capture.warnings.iter().any(|warning| warning.code == code)
}

#[test]
fn samples_are_looks_by_the_clock_with_names_from_the_rundown() {
    let capture = import(&stream(false), &Limits::default());
    assert_eq!(capture.header.target.as_ref().map(|key| key.pid), Some(Pid(4711)));
    assert_eq!(capture.header.start.mono, MonoNanos(1_000));
    assert_eq!(capture.header.start.wall_unix_nanos, 1_795_279_224_007_000_000);
    let timeline = capture.timeline.as_ref().unwrap();
    assert!(timeline.samples.is_empty(), "no CPU time is claimed");
    assert_eq!((timeline.wait_samples.len(), timeline.threads.len()), (200, 2));
    assert_eq!(timeline.settings.wait_sample_period, Nanos(1_000_000));
    let first = timeline.wait_samples.iter().find(|look| look.tid == Tid(7)).unwrap();
    assert_eq!(first.weight, Nanos(1_000_000));
    let names: Vec<_> = timeline
        .frames_of(first.stack)
        .map(|frame| timeline.symbols[frame.0 as usize].as_ref().map(|found| found.functions[0].name.clone()))
        .collect();
    assert_eq!(names, [Some("App.Worker.Spin".to_owned()), Some("App.Worker.Main".to_owned())]);
    assert!(warned(&capture, "import.wall-clock"));
    assert!(!warned(&capture, "import.cut-short") && !warned(&capture, "import.lost-events"));
}

#[test]
fn texts_are_redacted_on_the_way() {
    let capture = import(&stream(false), &Limits::default());
    let message = &capture.runtimes[0].exception_groups[0].message;
    assert!(message.contains("Server=db") && !message.contains("hunter2"), "{message}");
    assert!(!capture.redactions.is_empty());
}

#[test]
fn loss_and_cuts_are_told() {
    let bytes = stream(true);
    let capture = import(&bytes, &Limits::default());
    assert_eq!(capture.runtimes[0].lost, 4);
    assert!(warned(&capture, "import.lost-events"));
    let capture = import(&bytes[..bytes.len() - 1], &Limits::default());
    assert!(warned(&capture, "import.cut-short") && capture.runtimes[0].cut && capture.header.end.is_none());
    for length in (0..bytes.len()).step_by(97) {
        let redactor = Redactor::new(Options::default()).unwrap();
        let _ = read_from(&bytes[..length], "x", &redactor, &Limits::small());
    }
}

#[test]
fn more_samples_than_are_kept_are_thinned_and_weigh_more() {
    let limits = Limits { samples: 50, ..Limits::default() };
    let capture = import(&stream(false), &limits);
    let timeline = capture.timeline.as_ref().unwrap();
    assert!(timeline.wait_samples.len() < 50);
    assert_eq!(timeline.threads.len(), 2, "every second look of each thread, not every second look");
    assert!(warned(&capture, "import.thinned"));
    let total: u64 = timeline.wait_samples.iter().map(|look| look.weight.0).sum();
    assert!((150_000_000..=210_000_000).contains(&total), "200 ms of two threads, not {total} ns");
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.nettrace");
    std::fs::write(&path, b"something else").unwrap();
    assert!(read(&path, &Limits::default()).unwrap_err().to_string().starts_with("not a nettrace stream"));
    assert!(
        read(folder.path().join("absent"), &Limits::default()).unwrap_err().to_string().contains("absent")
    );
}
