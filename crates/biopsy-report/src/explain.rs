//! What findings mean, for a terminal and as JSON; and where they were found.

mod catalogue;

use biopsy_analyze::{Diagnosis, FindingId, Kind};
use biopsy_model::printable::printable_json;

use crate::mask::{Mask, masked};
use crate::schema::{self, Explanation, Explanations, Finding};
use crate::text::{Page, TextOptions};
use crate::units::counted;
pub use catalogue::catalogue;

/// What the findings mean, as the schema has it. With a diagnosis: where they were found in it.
#[must_use]
pub fn explanations(ids: &[FindingId], found_in: Option<&Diagnosis>) -> Explanations {
    // All are made, so that their evidence points into the same report.
    let findings = found_in.map(|diagnosis| crate::assemble::report(diagnosis).findings);
    Explanations {
        schema: "biopsy-explanations".to_owned(),
        version: 1,
        findings: ids.iter().map(|id| explanation(*id, findings.as_deref())).collect(),
    }
}

fn explanation(id: FindingId, findings: Option<&[Finding]>) -> Explanation {
    let about = id.about();
    let said = about.said.iter().map(|said| schema::Said {
        of: kind(said.of).to_owned(),
        when: said.when.to_owned(),
        rests_on: said.rests_on.to_owned(),
    });
    let found = findings.map(|all| all.iter().filter(|finding| finding.id == id.as_str()).cloned().collect());
    Explanation {
        id: id.as_str().to_owned(),
        summary: id.summary().to_owned(),
        means: about.means.to_owned(),
        said: said.collect(),
        disproved_by: about.disproved_by.to_owned(),
        to_do: about.to_do.iter().map(|step| (*step).to_owned()).collect(),
        found,
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Recorded => "recording",
        Kind::DotNet => "dotnet",
        Kind::Memory => "memory",
    }
}

/// The document of `biopsy explain --json`.
#[must_use]
pub fn render_explanations_json(explanations: &Explanations, mask: Option<Mask<'_>>) -> String {
    let written = match mask {
        None => serde_json::to_string_pretty(explanations),
        Some(mask) => serde_json::to_string_pretty(&masked(explanations, mask)),
    };
    printable_json(written.expect("the schema's types serialise to a string") + "\n")
}

/// Everything about one finding, for the terminal. `file`: what was looked at, where something was.
#[must_use]
pub fn render_explanation(
    id: FindingId,
    found_in: Option<(&Diagnosis, &str)>,
    options: TextOptions,
) -> String {
    let mut page = Page::new(options);
    let about = id.about();
    page.line(id.as_str(), "1", id.summary());
    page.text.push('\n');
    page.line("means", "1", about.means);
    for said in about.said {
        page.line("said when", "1", &format!("{}: {}", said.of.words(), said.when));
        page.line("rests on", "1", said.rests_on);
    }
    page.line("not so if", "1", about.disproved_by);
    for (at, step) in about.to_do.iter().enumerate() {
        page.line(if at == 0 { "to do" } else { "" }, "1", &format!("→ {step}"));
    }
    if let Some((diagnosis, file)) = found_in {
        page.text.push('\n');
        found(&mut page, id, diagnosis, file);
    }
    page.text
}

fn found(page: &mut Page, id: FindingId, diagnosis: &Diagnosis, file: &str) {
    let all = diagnosis.findings();
    let here: Vec<_> = all.iter().filter(|(_, finding)| finding.id == id).collect();
    if here.is_empty() {
        let others: Vec<String> = all.iter().map(|(_, finding)| format!("`{}`", finding.id)).collect();
        let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        page.line("in the file", "1", &format!("`{file}` does not have it; found: {others}"));
        return;
    }
    let times = counted(here.len() as u64, "time", "times");
    page.line("in the file", "1", &format!("found {times} in `{file}`"));
    for (_, finding) in here {
        page.line(finding.severity.word(), "1", &finding.title);
        page.line("", "", &finding.explanation);
        for evidence in &finding.evidence {
            page.line("", "", &format!("· {}", crate::units::evidence_text(evidence)));
        }
        for step in &finding.next_steps {
            page.line("", "", &format!("→ {step}"));
        }
    }
}

/// All ids, by the kind of evidence that they are found in, each in one sentence.
#[must_use]
pub fn render_ids(options: TextOptions) -> String {
    let mut page = Page::new(options);
    for kind in Kind::ALL {
        if !page.text.is_empty() {
            page.text.push('\n');
        }
        let heading = page.painted("1", &format!("Found {}:", kind.words()));
        page.text.push_str(&format!("{heading}\n"));
        for &id in FindingId::ALL.iter().filter(|id| id.about().said.iter().any(|said| said.of == kind)) {
            page.text.push_str(&format!("  {:<26}{}\n", id.as_str(), id.summary()));
        }
    }
    page.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_says_where_it_was_found_and_what_was_found_instead() {
        let diagnosis = Diagnosis::of_capture(biopsy_model::capture::Capture::default());
        let only = diagnosis.findings()[0].1.id;
        let options = TextOptions { width: Some(160), color: false };
        let text = |id| render_explanation(id, Some((&diagnosis, "x.zip")), options);
        assert!(text(only).contains("found 1 time in `x.zip`"), "{}", text(only));
        let other = text(FindingId::Deadlock);
        assert!(other.contains("`x.zip` does not have it") && other.contains(only.as_str()), "{other}");
        let json = explanations(&[only, FindingId::Deadlock], Some(&diagnosis));
        let found: Vec<usize> = json.findings.iter().map(|one| one.found.as_ref().unwrap().len()).collect();
        assert_eq!(found, [1, 0]);
        assert!(explanations(&[only], None).findings[0].found.is_none());
        let text = render_explanations_json(&json, None);
        assert_eq!(serde_json::from_str::<Explanations>(&text).unwrap(), json);
    }

    #[test]
    fn every_id_is_listed_and_explained() {
        let options = TextOptions { width: None, color: true };
        let list = render_ids(options);
        for &id in FindingId::ALL {
            assert!(list.contains(id.as_str()), "{id}");
            let text = render_explanation(id, None, options);
            assert!(text.contains(id.as_str()) && text.contains("not so if"), "{text}");
        }
    }
}
