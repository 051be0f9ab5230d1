//! Running the program and reading what it made.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use biopsy_testkit::{TempDir, temp_dir};
use serde_json::Value;

/// The program under test.
pub(crate) fn biopsy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy"));
    command.args(arguments).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// What it said on both streams.
pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status)
}

/// Runs it; there is a result: all that was asked for, or (code 3) less, with warnings that say so.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", said(&output));
    output
}

/// A finished recording with its report.
pub(crate) struct Captured {
    pub(crate) file: PathBuf,
    pub(crate) report: Value,
    /// What the program said while it recorded.
    pub(crate) said: String,
    _folder: TempDir,
}

/// `biopsy capture PID --for SECONDS` and its report.
#[track_caller]
pub(crate) fn capture(pid: u32, seconds: u32, more: &[&str]) -> Captured {
    let folder = temp_dir("bad-days");
    let file = folder.path().join("recording.zip");
    let mut command = biopsy(&["capture", &pid.to_string(), "--for", &format!("{seconds}s"), "--output"]);
    let output = succeed(command.arg(&file).args(more));
    Captured { report: analyze(&file), said: said(&output), file, _folder: folder }
}

/// The report on a recording.
#[track_caller]
pub(crate) fn analyze(file: &Path) -> Value {
    let output = succeed(biopsy(&["analyze", "--json"]).arg(file));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

impl Captured {
    /// Messages of all warnings.
    pub(crate) fn warnings(&self) -> String {
        let warnings = self.report["warnings"].as_array().map_or(&[][..], Vec::as_slice);
        warnings.iter().filter_map(|warning| warning["message"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// What the only runtime said.
    #[track_caller]
    pub(crate) fn runtime(&self) -> &Value {
        let runtimes = self.report["runtimes"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(runtimes.len(), 1, "{}\n{}", self.warnings(), self.said);
        &runtimes[0]
    }
}

/// The report that the program made itself, in the folder of a recording.
#[track_caller]
pub(crate) fn report(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).expect("the report is JSON")
}
