//! Real kills and real write errors. They need a process of their own, so that this is a plain program: it runs itself
//! with a task in a variable, does something bad to that process, and looks at what is left.
#![expect(clippy::print_stdout, reason = "it is its own test harness, and talks to itself through a pipe")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use biopsy_model::MonoNanos;
use biopsy_model::capture::CaptureHeader;
use biopsy_model::metric::{Column, MetricRow, Unit};
use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::{Limits, RecordingFolder, bundle, open};

/// What the other process does, and where.
const TASK: &str = "BIOPSY_TEST_TASK";
const FOLDER: &str = "BIOPSY_TEST_FOLDER";

/// How the limit shows.
const TOO_LARGE: &str = "larger than the file system or a limit of this process allows";

fn main() {
    if let Ok(task) = std::env::var(TASK) {
        let folder = std::env::var_os(FOLDER).expect("set with the task");
        match task.as_str() {
            "record" => record(Path::new(&folder)),
            "bundle" => pack(Path::new(&folder)),
            other => panic!("no such task: {other}"),
        }
        return;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    a_killed_recorder_leaves_what_it_flushed();
    println!("a killed recorder leaves what it flushed ... ok");
    a_recorder_at_a_size_limit_is_told_and_leaves_what_fits();
    println!("a recorder at a size limit is told and leaves what fits ... ok");
    a_bundle_that_does_not_fit_leaves_the_folder();
    println!("a bundle that does not fit leaves the folder ... ok");
}

/// This program again. `file_blocks`: no file may be larger than so many times 512 bytes, as on a full disk.
fn again(task: &str, folder: &Path, file_blocks: Option<u32>) -> Command {
    let limit = file_blocks.map(|blocks| format!("trap '' XFSZ; ulimit -f {blocks}; ")).unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{limit}exec \"$0\"")])
        .arg(std::env::current_exe().expect("the path of this program"))
        .env(TASK, task)
        .env(FOLDER, folder)
        .stdout(Stdio::piped());
    command
}

/// Records for ever, and says after each flush how many marks and rows are safe.
fn record(path: &Path) {
    let folder = RecordingFolder::create(path).expect("create");
    folder.header(&CaptureHeader::default()).expect("header");
    let mut timeline = folder.timeline().expect("timeline");
    let columns = [Column { name: "n".to_owned(), unit: Unit::Count }];
    let mut table = folder.metric_table("system", &[], &columns).expect("table");
    for n in 0_u32.. {
        let time = MonoNanos(1000 + u64::from(n));
        // Unlike each other, so that they do not compress to nothing.
        let label =
            format!("{n} {:x}", u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let written =
            timeline.push(&TimelineEvent::Mark { time, label }).and_then(|()| timeline.flush_chunk());
        if let Err(error) = written {
            println!("{error}");
            return;
        }
        table.append_row(&MetricRow { time, keys: vec![], values: vec![Some(f64::from(n))] }).expect("row");
        table.flush().expect("flush");
        println!("{}", n + 1);
    }
}

fn pack(path: &Path) {
    match bundle(path, path.with_extension("zip")) {
        Ok(bundle) => println!("{} bytes", bundle.bytes),
        Err(error) => println!("{error}; {}", error.hint().unwrap_or_default()),
    }
}

fn a_killed_recorder_leaves_what_it_flushed() {
    let scratch = tempfile::tempdir().expect("scratch folder");
    for round in 1..=5_u64 {
        let path = scratch.path().join(round.to_string());
        let mut recorder = again("record", &path, None).spawn().expect("sh");
        let mut lines = BufReader::new(recorder.stdout.take().expect("piped")).lines();
        let mut safe = 0;
        for _ in 0..round * 37 {
            safe = lines.next().expect("a line").expect("readable").parse::<u64>().expect("a number");
        }
        // SIGKILL, at a moment that nobody chose.
        recorder.kill().expect("kill");
        recorder.wait().expect("wait");
        // What it said between the last line read and the kill.
        safe = lines.map_while(Result::ok).filter_map(|line| line.parse().ok()).fold(safe, u64::max);
        let capture = open(&path, &Limits::default()).expect("a partial recording opens");
        let marks = capture.timeline.expect("a timeline").marks;
        assert!(marks.len() as u64 >= safe, "{} marks, {safe} were safe", marks.len());
        let in_order = marks.iter().zip(0_u64..).all(|(mark, n)| mark.0 == MonoNanos(1000 + n));
        assert!(in_order, "nothing is missing in between");
        assert!(capture.metrics[0].rows.len() as u64 >= safe);
        assert!(capture.warnings.iter().any(|warning| warning.code == "recording.partial"));
        assert!(capture.warnings.iter().any(|warning| warning.code == "recording.cut-short"));
    }
}

fn a_recorder_at_a_size_limit_is_told_and_leaves_what_fits() {
    let scratch = tempfile::tempdir().expect("scratch folder");
    let path = scratch.path().join("r");
    let output = again("record", &path, Some(40)).output().expect("sh");
    let lines: Vec<&str> = std::str::from_utf8(&output.stdout).expect("text").lines().collect();
    let (last, numbers) = lines.split_last().expect("lines");
    let timeline = path.join("trace/timeline.bin");
    assert_eq!(*last, format!("cannot write `{}`: {TOO_LARGE}", timeline.display()));
    let capture = open(&path, &Limits::default()).expect("a partial recording opens");
    assert_eq!(capture.timeline.expect("a timeline").marks.len(), numbers.len());
    assert!(numbers.len() > 50);
}

fn a_bundle_that_does_not_fit_leaves_the_folder() {
    let scratch = tempfile::tempdir().expect("scratch folder");
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).expect("create");
    folder.header(&CaptureHeader::default()).expect("header");
    // What deflate cannot make smaller, and more than any buffer holds.
    let noise: Vec<u8> =
        (0_u64..1 << 20).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    folder.write_bytes("noise.zst", &noise).expect("write");
    let output = again("bundle", &path, Some(600)).output().expect("sh");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!(
            "cannot write `{}`: {TOO_LARGE}; what was recorded is kept in `{}`; \
             free some space, or write the bundle to another disk\n",
            path.with_extension("zip").display(),
            path.display()
        )
    );
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("list").collect();
    assert_eq!(left.len(), 1, "neither a bundle nor a temporary file: {left:?}");
    assert!(path.join("noise.zst").exists());
}
