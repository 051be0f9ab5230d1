//! What a report says, of which only the titles of its findings are of interest here; the rest of the document is skipped.

use std::io::Read;

use serde::Deserialize;

#[derive(Default, Deserialize)]
struct Report {
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    #[serde(default)]
    title: String,
}

/// What commands say of their result.
#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    report: Option<Report>,
}

/// Titles of findings, the first is the most important.
pub(crate) fn titles(report: &[u8]) -> Vec<String> {
    serde_json::from_slice(report).map(of).unwrap_or_default()
}

/// The first of them in what a command has said.
pub(crate) fn headline(summary: impl Read) -> Option<String> {
    let summary: Summary = serde_json::from_reader(summary).ok()?;
    of(summary.report?).into_iter().next()
}

fn of(report: Report) -> Vec<String> {
    report.findings.into_iter().map(|finding| finding.title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_titles_are_read() {
        let report = r#"{"findings": [{"title": "a", "evidence": [1]}, {"title": "b"}, {}], "version": 9}"#;
        assert_eq!(titles(report.as_bytes()), ["a", "b", ""]);
        let summary = format!(r#"{{"path": "x", "report": {report}}}"#);
        assert_eq!(headline(summary.as_bytes()).as_deref(), Some("a"));
        for nothing in ["", "null", "{}", r#"{"report": null}"#, r#"{"report": {"findings": []}}"#] {
            assert_eq!(
                (titles(nothing.as_bytes()), headline(nothing.as_bytes())),
                (Vec::new(), None),
                "{nothing}"
            );
        }
    }
}
