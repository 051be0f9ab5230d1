//! Reports were made by a process that read a hostile file.

use biopsy_cases::report::{FINDINGS, FUNCTIONS, METRICS, SIGNATURES};
use biopsy_cases::{About, Rows};

use crate::support::Lab;

fn rows_of(report: String) -> Lab {
    let mut lab = Lab::default();
    lab.add(&[("4711", report)]);
    lab
}

fn count(lab: &Lab, table: &str) -> usize {
    lab.ask(&format!("SELECT count(*) FROM {table}"))[0].parse().unwrap()
}

#[test]
fn a_report_leaves_so_many_rows_at_most() {
    let many = |one: &str| vec![one; 5000].join(",");
    let findings: Vec<String> = (0..5000)
        .map(|at| {
            format!(
                r#"{{"id": "f{at}", "severity": "warning", "evidence": [{{"reference": {{"kind": "function", "name": "n{at}"}}}}]}}"#
            )
        })
        .collect();
    let lab = rows_of(format!(
        r#"{{"findings": [{}], "functions": [{}], "metrics": {{"summary": [{}]}}, "dumps": [{}]}}"#,
        findings.join(","),
        many(r#"{"name": "f"}"#),
        many(r#"{"table": "t", "column": "c"}"#),
        many(r#"{"signature": {"text": "a"}}"#),
    ));
    assert_eq!(count(&lab, "cases"), 1);
    assert_eq!(count(&lab, "findings"), FINDINGS);
    assert_eq!(count(&lab, "functions"), FUNCTIONS);
    assert_eq!(count(&lab, "metrics"), METRICS);
    assert_eq!(count(&lab, "signatures WHERE kind = 'crash'"), SIGNATURES);
    assert_eq!(count(&lab, "signatures WHERE kind = 'cause'"), SIGNATURES);
}

#[test]
fn names_are_short_and_command_no_terminal() {
    let name = format!("\\u001b[2J\\u202e\\n{}", "x".repeat(100_000));
    let lab = rows_of(format!(r#"{{"functions": [{{"name": "{name}"}}]}}"#));
    let shown = lab.ask("SELECT name FROM functions").remove(0);
    assert!(shown.len() <= 1000 && shown.starts_with("\\u{1b}[2J\\u{202e}\\nxxx"), "{shown}");
    assert_eq!(lab.ask("SELECT count(*) FROM functions WHERE name LIKE '%' || chr(27) || '%'"), ["0"]);
}

#[test]
fn numbers_out_of_range_are_cut_or_absent() {
    let lab = rows_of(
        r#"{"functions": [{"name": "f", "cpu_self_ns": 18446744073709551615, "cpu_total_ns": -5, "wait_self_ns": "x", "wait_total_ns": 1.5}],
            "metrics": {"summary": [{"table": "t", "column": "c", "mean": null, "min": "NaN", "max": 1e308, "last": {"a": [1]}}]},
            "findings": [{"id": 7, "severity": ["warning"], "impact": true}]}"#
            .to_owned(),
    );
    let numbers = "SELECT cpu_self_ns, cpu_total_ns, wait_self_ns, wait_total_ns FROM functions";
    assert_eq!(lab.ask(numbers), [format!("{}|-5||", i64::MAX)]);
    assert_eq!(lab.ask("SELECT mean, min, max, last FROM metrics"), ["||1e308|"]);
    assert_eq!(lab.ask("SELECT id, severity, impact FROM findings"), ["||"]);
}

#[test]
fn what_is_no_report_leaves_nothing_and_is_said() {
    let deep = "[".repeat(100_000);
    for text in [
        "",
        "[]",
        "{",
        "3",
        r#"{"findings": {}}"#,
        r#"{"functions": [{"name": "a", "cpu_self_ns": 1e999}]}"#,
        &deep,
    ] {
        let mut rows = Rows::default();
        let about = About { case: "4711", upload: "u", analysed_at: i64::MAX };
        assert!(rows.add(about, text).is_err(), "{}", &text[..text.len().min(50)]);
        assert_eq!(rows.reports(), 0);
        assert!(rows.finish().unwrap().is_empty());
    }
    // A report that says nothing is one.
    assert_eq!(count(&rows_of("{}".to_owned()), "cases"), 1);
}
