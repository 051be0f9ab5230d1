//! The first finding of a report, held against the truth.

use serde::{Deserialize, Serialize};

use super::truth::{Class, Truth};

/// Findings about the machine that the program shares: true where somebody else is busy, and not about the program.
const WEATHER: [&str; 2] = ["cpu-saturated-by-others", "cpu-steal"];
/// Evidence behind these is a list of what else there is; a place that is only named there was not named first.
const EVIDENCE_READ: usize = 6;

/// How bad a report calls it.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Info,
    Notice,
    Warning,
    Critical,
}

/// A finding of a report, as far as it is graded.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) severity: Severity,
    pub(crate) title: String,
    /// Title, explanation and the first evidence.
    #[serde(skip)]
    pub(crate) text: String,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    findings: Vec<Written>,
}

#[derive(Deserialize)]
struct Written {
    id: String,
    severity: Severity,
    #[serde(default)]
    title: String,
    #[serde(default)]
    explanation: String,
    #[serde(default)]
    evidence: Vec<Evidence>,
}

#[derive(Deserialize)]
struct Evidence {
    #[serde(default)]
    text: String,
    #[serde(default)]
    reference: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    name: Option<String>,
}

/// The findings of a report, or of the reports on each process of a tree, the worst first.
pub(crate) fn parse_findings(json: &str) -> Result<Vec<Finding>, String> {
    let reports = serde_json::Deserializer::from_str(json).into_iter::<Report>();
    let mut findings = Vec::new();
    for report in reports {
        let report = report.map_err(|error| format!("the report cannot be read: {error}"))?;
        findings.extend(report.findings.into_iter().map(Finding::from));
    }
    // Stable: the report's own order decides among equals.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

impl From<Written> for Finding {
    fn from(written: Written) -> Self {
        let mut text = format!("{}\n{}", written.title, written.explanation);
        for evidence in written.evidence.into_iter().take(EVIDENCE_READ) {
            text.push('\n');
            text.push_str(&evidence.text);
            if let Some(name) = evidence.reference.and_then(|reference| reference.name) {
                text.push(' ');
                text.push_str(&name);
            }
        }
        Self { id: written.id, severity: written.severity, title: written.title, text }
    }
}

/// What came of one program.
#[derive(Serialize, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Grade {
    pub(crate) kind: bool,
    pub(crate) place: bool,
    pub(crate) reason: bool,
    /// All that was asked: of a healthy program, silence.
    pub(crate) right: bool,
    /// More than a notice, of something that is not the matter.
    pub(crate) wrong_with_confidence: bool,
}

/// The finding that is graded: the first that is about the program.
pub(crate) fn first(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| !WEATHER.contains(&finding.id.as_str()))
}

/// Grades what a report says.
pub(crate) fn grade(truth: &Truth, findings: &[Finding]) -> Grade {
    let first = first(findings);
    let is_loud = first.is_some_and(|first| first.severity > Severity::Notice);
    if truth.class == Class::Healthy {
        // A report has at least one finding; one about the weather alone is silence, and none is no report.
        let right = !findings.is_empty() && !is_loud;
        return Grade { right, wrong_with_confidence: is_loud, ..Grade::default() };
    }
    let Some(first) = first else { return Grade::default() };
    let kind = truth.kind.contains(&first.id);
    let place = truth.place.any_in(&first.text) && truth.every.all_in(&first.text);
    let reason = truth.reason.any_in(&first.text);
    Grade { kind, place, reason, right: kind && place && reason, wrong_with_confidence: is_loud && !kind }
}

#[cfg(test)]
mod tests {
    use super::super::truth::parse_truth;
    use super::*;

    fn truth() -> Truth {
        let text = r#"
            language = "c"
            class = "hangs"
            cause = "two workers take two locks in different order"
            source = "ledger.c"
            observe = "stacks"
            kind = ["deadlock"]
            place = ["move_stock"]
            every = ["count_stock"]
            reason = ["mutex"]
        "#;
        parse_truth(text).unwrap()
    }

    fn healthy() -> Truth {
        let text = "language = 'c'\nclass = 'healthy'\ncause = 'none'\nsource = 'a.c'\nobserve = 'stacks'\n";
        parse_truth(text).unwrap()
    }

    fn findings(list: &[(&str, &str, &str)]) -> Vec<Finding> {
        let written: Vec<_> = list
            .iter()
            .map(
                |(id, severity, title)| serde_json::json!({ "id": id, "severity": severity, "title": title }),
            )
            .collect();
        parse_findings(&serde_json::json!({ "findings": written }).to_string()).unwrap()
    }

    #[test]
    fn the_first_finding_is_right_with_kind_both_places_and_reason() {
        let said = "a mutex circle: move_stock waits for count_stock";
        let grade = grade(&truth(), &findings(&[("deadlock", "critical", said)]));
        assert!(grade.right && !grade.wrong_with_confidence);
    }

    #[test]
    fn one_of_two_sites_is_not_enough() {
        let grade = grade(&truth(), &findings(&[("deadlock", "critical", "a mutex in move_stock")]));
        assert_eq!((grade.kind, grade.place, grade.right), (true, false, false));
    }

    #[test]
    fn a_second_finding_that_is_right_does_not_count() {
        let said = [("idle", "info", ""), ("deadlock", "info", "mutex move_stock count_stock")];
        assert!(!grade(&truth(), &findings(&said)).right);
    }

    #[test]
    fn what_others_take_of_the_machine_is_passed_over() {
        let said = [
            ("cpu-saturated-by-others", "critical", ""),
            ("deadlock", "critical", "mutex move_stock count_stock"),
        ];
        assert!(grade(&truth(), &findings(&said)).right);
    }

    #[test]
    fn a_warning_of_another_kind_is_wrong_with_confidence_and_a_notice_is_not() {
        let wrong =
            |severity| grade(&truth(), &findings(&[("slow-peer", severity, "")])).wrong_with_confidence;
        assert!(wrong("warning"));
        assert!(!wrong("notice"));
    }

    #[test]
    fn a_healthy_program_may_have_a_notice_and_no_warning() {
        assert!(grade(&healthy(), &findings(&[("lock-queue", "notice", "")])).right);
        let alarm = grade(&healthy(), &findings(&[("lock-queue", "warning", "")]));
        assert!(!alarm.right && alarm.wrong_with_confidence);
        assert!(grade(&healthy(), &findings(&[("cpu-saturated-by-others", "critical", "")])).right);
        assert!(!grade(&healthy(), &[]).right, "no report is no silence");
    }

    #[test]
    fn of_a_tree_the_worst_finding_is_the_first() {
        let two = r#"{"findings":[{"id":"overview","severity":"info"}]}
                     {"findings":[{"id":"deadlock","severity":"critical"},{"id":"overview","severity":"info"}]}"#;
        let ids: Vec<String> = parse_findings(two).unwrap().into_iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["deadlock", "overview", "overview"]);
    }

    #[test]
    fn a_place_far_down_in_the_evidence_does_not_count() {
        let evidence: Vec<_> =
            (0..20).map(|n| serde_json::json!({ "text": format!("function_{n}.") })).collect();
        let report = serde_json::json!({ "findings": [{ "id": "cpu-bound", "severity": "warning", "evidence": evidence }] });
        let text = &parse_findings(&report.to_string()).unwrap()[0].text;
        assert!(text.contains("function_5.") && !text.contains("function_6."));
    }

    #[test]
    fn the_function_that_evidence_leads_to_is_read() {
        let report = r#"{"findings":[{"id":"cpu-bound","severity":"warning",
            "evidence":[{"text":"90 %","reference":{"kind":"function","name":"crc_of"}}]}]}"#;
        assert!(parse_findings(report).unwrap()[0].text.contains("crc_of"));
    }

    #[test]
    fn half_a_report_is_an_error() {
        assert!(parse_findings("{\"findings\": [").is_err());
    }
}
