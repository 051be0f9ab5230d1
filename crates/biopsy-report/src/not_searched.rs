//! What was not gone over for secrets, or only in part, and why.

use biopsy_analyze::Diagnosis;
use biopsy_model::capture::Capture;

use crate::schema::NotSearched;
use crate::units::counted;

/// The option that masks personal data.
pub(crate) const ANONYMIZE: &str = "--anonymize";
/// Warnings about what was masked have codes that begin so.
const OF_REDACTION: &str = "redaction.";

/// In the order of the evidence.
pub(crate) fn not_searched(diagnosis: &Diagnosis) -> Vec<NotSearched> {
    let mut found = Vec::new();
    let mut push = |what: String, why: &str| found.push(NotSearched { what, why: why.to_owned() });
    if let Some(capture) = diagnosis.recorded.as_ref().map(|recorded| &recorded.capture) {
        if is_foreign(capture) {
            push(
                format!("the file that {} wrote", tool(capture)),
                "it is as that tool wrote it; what is shown of it was masked at most when it was read",
            );
        } else if !personal_was_masked(capture) {
            push(
                "personal data in texts (addresses, e-mail, names)".to_owned(),
                "it was not asked for: `capture --anonymize` masks it",
            );
        }
        for warning in capture.warnings.iter().filter(|warning| warning.code.starts_with(OF_REDACTION)) {
            push("values beyond a limit of the redactor".to_owned(), &warning.message);
        }
    }
    for dump in &diagnosis.dumps {
        let of = &dump.identity;
        let name = if of.name.is_empty() { "a process" } else { &of.name };
        let memory = format!("memory of {name} (pid {})", of.pid);
        match of.scrubbed {
            Some(true) => push(
                memory,
                "scrubbed, not clean: known shapes and values were masked in place; what nothing announces, is compressed or \
                 encrypted is as it was",
            ),
            Some(false) => push(
                memory,
                "it holds whatever the process held: memory is gone over only if `dump --scrub` is asked for",
            ),
            None => push(memory, "the file does not say whether anything was masked when it was written"),
        }
    }
    if !diagnosis.heaps.is_empty() {
        let heaps = counted(diagnosis.heaps.len() as u64, "heap", "heaps");
        push(
            format!("columns of {heaps}"),
            "they are numbers and names of types, which are code; no contents of objects are in them",
        );
    }
    found
}

/// Whether personal data was asked for.
pub(crate) fn personal_was_masked(capture: &Capture) -> bool {
    capture.header.command.iter().any(|word| word == ANONYMIZE)
}

/// What other tools wrote has no command of ours.
fn is_foreign(capture: &Capture) -> bool {
    capture.header.command.is_empty()
}

fn tool(capture: &Capture) -> &str {
    if capture.header.tool.is_empty() { "another tool" } else { &capture.header.tool }
}

#[cfg(test)]
mod tests;
