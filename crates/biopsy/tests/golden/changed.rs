//! Recordings as bad days make them: with a third of all events lost, of a century ahead, with a clock that was set. The cause
//! is named as before, and what is missing is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_model::MonoNanos;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::{Limits, RecordingFolder, timeline};
use biopsy_testkit::temp_dir;
use serde_json::Value;

/// Recordings in `fixtures/`, and the function that is the cause.
const RECORDINGS: [(&str, &str); 2] =
    [("hot-function-1.0.zip", "compute_checksum_bit_by_bit"), ("lock-convoy-1.0.zip", "append_under_lock")];

/// A copy of one of them, as a folder that may be changed, without its reports.
fn copy_of(name: &str, folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(name);
    let place = folder.join("recording");
    let copy = RecordingFolder::create(&place).expect("a folder for the copy");
    let is_evidence = |member: &str| !member.starts_with("report.") && member != "manifest.json";
    copy.copy_members(&from, &Limits::default(), is_evidence).expect("copied");
    place
}

fn analyze(place: &Path) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_biopsy")).args(["analyze", "--json"]).arg(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn change_header(place: &Path, change: impl Fn(&mut Value)) {
    let file = place.join("biopsy.json");
    let mut header = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut header);
    fs::write(&file, header.to_string()).unwrap();
}

fn first_finding(report: &Value) -> (String, String) {
    let first = &report["findings"][0];
    (first["id"].as_str().unwrap().to_owned(), first["title"].as_str().unwrap().to_owned())
}

/// Leaves out three of ten samples, waits and off-CPU samples, and says so, as a recorder does that did not keep up.
fn lose_three_of_ten(place: &Path) {
    let file = place.join("trace/timeline.bin");
    let mut out = timeline::Writer::new(Vec::new()).expect("written to memory");
    let (mut seen, mut samples, mut waits) = (0u64, 0, 0);
    let (mut first, mut last) = (u64::MAX, 0);
    timeline::read_events(fs::File::open(&file).unwrap(), &Limits::default(), |event| {
        let lost = match &event {
            TimelineEvent::Sample(sample) => Some((&mut samples, sample.time)),
            TimelineEvent::Wait(wait) => Some((&mut waits, wait.end)),
            TimelineEvent::WaitSample(sample) => Some((&mut waits, sample.time)),
            _ => None,
        };
        if let Some((count, time)) = lost {
            (first, last) = (first.min(time.0), last.max(time.0));
            seen += 1;
            // Seven and ten have no common factor: what repeats in the recording does not repeat here.
            if seen * 7 % 10 < 3 {
                *count += 1;
                return;
            }
        }
        out.push(&event).expect("written to memory");
    })
    .expect("a timeline");
    assert!(samples + waits > 100, "{samples} samples and {waits} waits are too few to say anything");
    for (kind, count) in [(LossKind::Samples, samples), (LossKind::Waits, waits)] {
        let (from, to) = (MonoNanos(first), MonoNanos(last));
        out.push(&TimelineEvent::Loss(Loss { kind, from, to, count, pid: None, tid: None })).unwrap();
    }
    fs::write(&file, out.finish().unwrap()).unwrap();
}

#[test]
fn with_a_third_of_its_events_lost_a_recording_names_the_same_cause_and_the_loss() {
    for (name, cause) in RECORDINGS {
        let folder = temp_dir("lossy");
        let place = copy_of(name, folder.path());
        let whole = first_finding(&analyze(&place));
        lose_three_of_ten(&place);
        let report = analyze(&place);
        let findings = report["findings"].as_array().unwrap();
        let said = findings.iter().find(|finding| finding["id"] == "recording-incomplete");
        let said = said.unwrap_or_else(|| panic!("{name}: the loss is no finding: {findings:#?}"));
        assert!(said.to_string().contains("were lost"), "{said:#}");
        let causes: Vec<&Value> =
            findings.iter().filter(|finding| finding["id"] != "recording-incomplete").collect();
        assert_eq!(causes[0]["id"], *whole.0, "{name}: {findings:#?}");
        assert!(causes[0].to_string().contains(cause), "{name}: {:#}", causes[0]);
    }
}

#[test]
fn a_recording_of_another_century_is_read_as_any_other() {
    const YEAR: i64 = 365 * 86_400_000_000_000;
    for (name, cause) in RECORDINGS {
        for years in [100, -50, -80] {
            let folder = temp_dir("century");
            let place = copy_of(name, folder.path());
            let whole = first_finding(&analyze(&place));
            change_header(&place, |header| {
                for end in ["start", "end"] {
                    let wall = header[end]["wall_unix_ns"].as_i64().unwrap();
                    header[end]["wall_unix_ns"] = (wall + years * YEAR).into();
                }
            });
            let report = analyze(&place);
            assert_eq!(first_finding(&report), whole, "{name}, {years} years off");
            assert!(report["findings"].to_string().contains(cause));
        }
    }
}

#[test]
fn a_clock_that_is_set_while_recording_is_said_and_changes_no_cause() {
    for (name, _) in RECORDINGS {
        for seconds in [3_600, -3_600, 31_536_000, -31_536_000] {
            let folder = temp_dir("clock");
            let place = copy_of(name, folder.path());
            let whole = first_finding(&analyze(&place));
            change_header(&place, |header| {
                let wall = header["end"]["wall_unix_ns"].as_i64().unwrap();
                header["end"]["wall_unix_ns"] = (wall + seconds * 1_000_000_000).into();
            });
            let report = analyze(&place);
            assert_eq!(first_finding(&report), whole, "{name}, {seconds} s");
            let step = report["completeness"]["clock_step_ms"].as_f64().unwrap_or_default();
            assert!(
                (step - seconds as f64 * 1e3).abs() < 50.0,
                "{name}: a step of {seconds} s is told as {step} ms"
            );
        }
    }
}
