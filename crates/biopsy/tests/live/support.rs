//! Running the program and reading what it made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use biopsy_testkit::{MachineLoad, Survival, TargetProcess, TempDir, temp_dir};
use serde_json::Value;

/// The program under test.
pub(crate) fn biopsy<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy"));
    command.args(arguments).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// What it said on both streams.
pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status)
}

/// There is a result: all that was asked for, or (code 3) less, with warnings that say so.
pub(crate) fn succeeded(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 3))
}

/// Its complaint: standard error of a run that must fail, without a panic.
#[track_caller]
pub(crate) fn complaint(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "it succeeded: {}", said(&output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("error: "), "no error message: {}", said(&output));
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// A finished recording with its report.
pub(crate) struct Captured {
    /// Removed with the value.
    pub(crate) folder: TempDir,
    /// The bundle.
    pub(crate) file: PathBuf,
    /// `report.json`.
    pub(crate) report: Value,
    /// What the program said while it recorded.
    pub(crate) said: String,
    /// Programs that this test did not start took the CPUs meanwhile: as measured beside the recording, not by it.
    others_were_in_the_way: bool,
}

/// `biopsy capture PID --for TIME` and the report of `biopsy analyze --json`.
#[track_caller]
pub(crate) fn capture(pid: u32, time: &str, more: &[&str]) -> Captured {
    let folder = temp_dir("capture");
    let file = folder.path().join("recording.zip");
    let load = MachineLoad::begin();
    let output = biopsy(["capture", &pid.to_string(), "--for", time, "--output"])
        .arg(&file)
        .args(more)
        .output()
        .unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    let others_were_in_the_way = load.others_were_in_the_way();
    let report = analyze(&file);
    Captured { folder, file, report, said: said(&output), others_were_in_the_way }
}

/// Captures a target and checks that it survived.
#[track_caller]
pub(crate) fn capture_unharmed(target: &TargetProcess, time: &str, more: &[&str]) -> Captured {
    let survival = Survival::before(target.pid());
    let captured = capture(target.pid(), time, more);
    survival.assert_unharmed();
    captured
}

/// Captures a target until the first finding is `id`, names all of `words`, and the target survived.
///
/// Once is enough on a machine that does nothing else. Where other programs take the CPUs away, what a target waits for
/// is the CPU, whatever its sickness is; then it is captured again, and in the end only the words are asked for.
#[track_caller]
pub(crate) fn assert_diagnosed(target: &TargetProcess, time: &str, id: &str, words: &[&str]) -> Captured {
    let mut captured = capture_unharmed(target, time, &[]);
    for _ in 0..3 {
        let found = captured.first_on_the_patient().is_some_and(|finding| finding["id"] == id);
        if found || !captured.others_were_in_the_way {
            break;
        }
        std::thread::sleep(std::time::Duration::from_secs(5));
        captured = capture_unharmed(target, time, &[]);
    }
    let found = captured.first_on_the_patient().is_some_and(|finding| finding["id"] == id);
    if found || !captured.others_were_in_the_way {
        captured.assert_diagnosis(id, words);
    } else {
        for word in words {
            assert!(
                captured.text().contains(word),
                "`{word}` is not named: {:#}",
                captured.report["findings"]
            );
        }
    }
    captured
}

/// The report on a recording.
#[track_caller]
pub(crate) fn analyze(file: &Path) -> Value {
    let output = biopsy(["analyze", "--json"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

impl Captured {
    /// Ids of the findings, the most important first.
    pub(crate) fn finding_ids(&self) -> Vec<&str> {
        findings(&self.report).iter().filter_map(|finding| finding["id"].as_str()).collect()
    }

    /// Checks that the first finding on the patient is `id` and mentions all of `words` in its title, explanation or
    /// evidence.
    #[track_caller]
    pub(crate) fn assert_diagnosis(&self, id: &str, words: &[&str]) {
        let first = self
            .first_on_the_patient()
            .unwrap_or_else(|| panic!("no finding: {:#}", self.report["findings"]));
        assert_eq!(first["id"], id, "the first finding is another: {:#}", self.report["findings"]);
        let text = first.to_string();
        for word in words {
            assert!(text.contains(word), "`{word}` is not named: {first:#}");
        }
    }

    fn first_on_the_patient(&self) -> Option<&Value> {
        // These are on the recording or on the machine, and not the patient's sickness. Whether other programs load the
        // machine that the tests run on is measured: where they do not, a finding that they do is wrong.
        let on_the_recording = ["recording-incomplete", "target-ended"];
        let on_others = ["cpu-saturated-by-others", "cpu-steal"];
        findings(&self.report).iter().find(|finding| {
            let is_one_of = |ids: &[&str]| finding["id"].as_str().is_some_and(|id| ids.contains(&id));
            !(is_one_of(&on_the_recording) || self.others_were_in_the_way && is_one_of(&on_others))
        })
    }

    /// Checks that the CPU time is found in `hottest`, and that it is the diagnosis, with all of `words`.
    ///
    /// Where other programs took the CPUs away the diagnosis rightly is that they did; the function must be found all the
    /// same.
    #[track_caller]
    pub(crate) fn assert_burns_cpu_in(&self, hottest: &str, words: &[&str]) {
        let own = |function: &&Value| function["cpu_self_ns"].as_u64().unwrap_or(0);
        let functions = self.report["functions"].as_array().map_or(&[][..], Vec::as_slice);
        let first = functions.iter().max_by_key(own).unwrap_or_else(|| panic!("no functions: {}", self.said));
        let name = first["name"].as_str().unwrap_or_default();
        assert!(name.contains(hottest), "the hottest function is {first:#}");
        if !self.others_were_in_the_way {
            self.assert_diagnosis("cpu-bound", words);
        }
    }

    /// Share of stacks that reach the thread's root.
    pub(crate) fn reaching_root(&self) -> f64 {
        self.report["completeness"]["reaching_root"].as_f64().unwrap_or(0.0)
    }

    /// All text of the report, for names that must, or must not, be somewhere.
    pub(crate) fn text(&self) -> String {
        self.report.to_string()
    }
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().map_or(&[], Vec::as_slice)
}
