//! What was not gone over for secrets is said of each kind of evidence, and nothing is claimed to be clean.

use super::*;
use biopsy_analyze::HeapSummary;
use biopsy_analyze::dump::{DumpAnalysis, Identity};
use biopsy_model::Pid;
use biopsy_model::loss::Warning;

/// What is not searched of a recording that was made with these arguments, and its warnings.
fn of_capture(command: &[&str], tool: &str, warnings: &[&str]) -> Vec<(String, String)> {
    let mut capture = Capture::default();
    capture.header.command = command.iter().map(|word| (*word).to_owned()).collect();
    capture.header.tool = tool.to_owned();
    capture.warnings = warnings.iter().map(|code| Warning::new(code, format!("{code} was met"))).collect();
    let found = not_searched(&Diagnosis::of_capture(capture));
    found.into_iter().map(|one| (one.what, one.why)).collect()
}

#[test]
fn of_a_recording_it_is_personal_data_unless_that_was_asked_for() {
    let beginnings = |found: Vec<(String, String)>| {
        found.into_iter().map(|(what, _)| what.chars().take(13).collect()).collect::<Vec<String>>()
    };
    let own = ["biopsy", "capture", "server"];
    for (command, warnings, expected) in [
        (&own[..], &[][..], &["personal data"][..]),
        (&["biopsy", "capture", "--anonymize", "server"], &[], &[]),
        // An option that only begins alike is another one.
        (&["biopsy", "capture", "--anonymized"], &[], &["personal data"]),
        (&own, &["redaction.limit"], &["personal data", "values beyond"]),
        (
            &own,
            &["redaction.limit", "redaction.size", "trace.redaction.x"],
            &["personal data", "values beyond", "values beyond"],
        ),
    ] {
        assert_eq!(
            beginnings(of_capture(command, "biopsy 1", warnings)),
            expected,
            "{command:?} {warnings:?}"
        );
    }
    let found = of_capture(&own, "biopsy 1", &["redaction.limit"]);
    assert_eq!(found[1].1, "redaction.limit was met");
}

#[test]
fn a_file_of_another_tool_is_named_by_it() {
    assert!(of_capture(&[], "perf 6.1", &[])[0].0.contains("that perf 6.1 wrote"));
    assert!(of_capture(&[], "", &[])[0].0.contains("that another tool wrote"));
}

#[test]
fn of_memory_it_says_whether_and_how_it_was_scrubbed() {
    let dump = |name: &str, scrubbed| DumpAnalysis {
        identity: Identity { name: name.to_owned(), pid: Pid(7), scrubbed, ..Identity::default() },
        ..DumpAnalysis::default()
    };
    let dumps = vec![dump("server", Some(true)), dump("", Some(false)), dump("server", None)];
    let found = not_searched(&Diagnosis::new(None, dumps, Vec::new()));
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.what.as_str(), one.why.split([',', ':']).next().unwrap_or_default()))
        .collect();
    assert_eq!(
        found,
        [
            ("memory of server (pid 7)", "scrubbed"),
            ("memory of a process (pid 7)", "it holds whatever the process held"),
            (
                "memory of server (pid 7)",
                "the file does not say whether anything was masked when it was written"
            ),
        ]
    );
}

#[test]
fn heaps_are_counted() {
    let heap = || HeapSummary { name: "server".to_owned(), ..HeapSummary::default() };
    let what = |heaps| not_searched(&Diagnosis::new(None, Vec::new(), heaps)).pop().map(|one| one.what);
    assert_eq!(what(Vec::new()), None);
    assert_eq!(what(vec![heap()]).as_deref(), Some("columns of 1 heap"));
    assert_eq!(what(vec![heap(), heap()]).as_deref(), Some("columns of 2 heaps"));
}
