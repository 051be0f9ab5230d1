//! The reports of the made-up recording, word by word; and of recordings with little or nothing in them.

mod synthetic;

use biopsy_model::capture::Capture;
use biopsy_report::schema::{Report, VERSION};
use biopsy_report::{TextOptions, render_json, render_markdown, render_text};
use serde_json::Value;
use std::collections::BTreeSet;

fn whole() -> (Capture, biopsy_analyze::Analysis) {
    let capture = synthetic::capture();
    let analysis = synthetic::analysis(&capture);
    (capture, analysis)
}

#[test]
fn markdown_of_everything() {
    let (capture, analysis) = whole();
    insta::assert_snapshot!(render_markdown(&synthetic::diagnose(&capture, &analysis), None));
}

#[test]
fn text_of_everything() {
    let (capture, analysis) = whole();
    insta::assert_snapshot!(render_text(
        &synthetic::diagnose(&capture, &analysis),
        0,
        TextOptions::default()
    ));
}

#[test]
fn markdown_of_a_runtime() {
    let capture = synthetic::dotnet();
    let markdown = render_markdown(&synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)), None);
    let from = markdown.find("## Runtime").expect("it has a runtime");
    let to = markdown.find("## Logs").expect("then logs");
    insta::assert_snapshot!(&markdown[from..to]);
}

#[test]
fn text_of_a_runtime() {
    let capture = synthetic::dotnet();
    insta::assert_snapshot!(render_text(
        &synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)),
        0,
        TextOptions::default()
    ));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let (capture, analysis) = whole();
    let plain = render_text(&synthetic::diagnose(&capture, &analysis), 0, TextOptions::default());
    let painted = render_text(
        &synthetic::diagnose(&capture, &analysis),
        0,
        TextOptions { color: true, ..TextOptions::default() },
    );
    assert_ne!(plain, painted);
    let mut bare = String::new();
    for part in painted.split('\x1b') {
        bare.push_str(
            part.strip_prefix('[').and_then(|rest| rest.split_once('m')).map_or(part, |(_, rest)| rest),
        );
    }
    assert_eq!(bare, plain);
}

/// Every path of the JSON with its type: a change here is a change of the schema, and belongs into
/// `docs/formats/report-schema.md`.
#[test]
fn json_has_the_documented_shape() {
    let (mut capture, mut analysis) = whole();
    capture.runtimes = synthetic::dotnet().runtimes;
    analysis.runtimes = biopsy_analyze::analyze(&capture).runtimes;
    let json: Value = serde_json::from_str(&render_json(&synthetic::diagnose(&capture, &analysis), None))
        .expect("it is JSON");
    let mut paths = BTreeSet::new();
    shape(&json, "", &mut paths);
    let shape = paths.into_iter().collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(shape);

    let guide = include_str!("../../../docs/formats/report-schema.md");
    for line in shape.lines() {
        let path = line.split(':').next().expect("a path");
        let field = path.trim_end_matches("[]").rsplit('.').next().expect("a field");
        assert!(guide.contains(&format!("`{field}`")), "`{path}` is not in docs/formats/report-schema.md");
    }
}

fn shape(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                shape(value, &path, paths);
            }
        }
        Value::Array(values) => {
            let path = format!("{path}[]");
            if values.is_empty() {
                paths.insert(format!("{path}: empty"));
            }
            values.iter().for_each(|value| shape(value, &path, paths));
        }
        Value::Null => drop(paths.insert(format!("{path}: null"))),
        Value::Bool(_) => drop(paths.insert(format!("{path}: bool"))),
        Value::Number(_) => drop(paths.insert(format!("{path}: number"))),
        Value::String(_) => drop(paths.insert(format!("{path}: string"))),
    }
}

#[test]
fn json_reads_back() {
    let (capture, analysis) = whole();
    let json = render_json(&synthetic::diagnose(&capture, &analysis), None);
    let report: Report = serde_json::from_str(&json).expect("it reads back");
    let recorded = report.recorded.as_ref().expect("what was recorded");
    assert_eq!(report.version, VERSION);
    assert_eq!(recorded.recording.target_pid, Some(4711));
    assert_eq!(recorded.threads.rows.len(), capture.timeline.as_ref().expect("a trace").threads.len());
    let again = serde_json::to_string_pretty(&report).expect("it writes again");
    assert_eq!(again, json.trim_end());
}

#[test]
fn every_field_may_be_absent() {
    let report: Report = serde_json::from_str("{}").expect("nothing is required");
    assert_eq!(Report { recorded: None, ..report }, Report::default());
    let newer = r#"{"version": 9, "recording": {"weather": "fine"}, "tea": [1, 2]}"#;
    let report: Report = serde_json::from_str(newer).expect("unknown fields are ignored");
    assert_eq!(report.version, 9);
}

#[test]
fn functions_that_findings_name_are_found_by_their_index() {
    let (capture, analysis) = whole();
    let report: Report = serde_json::from_str(&render_json(&synthetic::diagnose(&capture, &analysis), None))
        .expect("it is a report");
    let recorded = report.recorded.as_ref().expect("what was recorded");
    let mut seen = 0;
    for evidence in report.findings.iter().flat_map(|finding| &finding.evidence) {
        if let Some(biopsy_report::schema::Reference::Function { name, index, .. }) = &evidence.reference {
            assert_eq!(&recorded.functions[index.expect("not cut")].name, name);
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn nothing_but_a_header() {
    let capture = synthetic::empty();
    let analysis = biopsy_analyze::Analysis::default();
    insta::assert_snapshot!(
        "empty_markdown",
        render_markdown(&synthetic::diagnose(&capture, &analysis), None)
    );
    insta::assert_snapshot!(
        "empty_text",
        render_text(&synthetic::diagnose(&capture, &analysis), 0, TextOptions::default())
    );
    let report: Report = serde_json::from_str(&render_json(&synthetic::diagnose(&capture, &analysis), None))
        .expect("it is a report");
    let recorded = report.recorded.as_ref().expect("what was recorded");
    assert!(recorded.completeness.partial);
    assert!(!recorded.completeness.has_trace);
    assert_eq!(recorded.recording.end, None);
}

#[test]
fn a_trace_alone_and_metrics_alone() {
    let mut capture = synthetic::capture();
    capture.metrics.clear();
    capture.logs.clear();
    let text = render_text(
        &synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)),
        0,
        TextOptions::default(),
    );
    assert!(text.contains("no metrics"), "{text}");
    let mut capture = synthetic::capture();
    capture.timeline = None;
    let text = render_text(
        &synthetic::diagnose(&capture, &biopsy_analyze::analyze(&capture)),
        0,
        TextOptions::default(),
    );
    assert!(text.contains("no trace"), "{text}");
}
