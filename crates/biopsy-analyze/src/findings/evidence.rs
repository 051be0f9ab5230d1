//! Pieces that findings are made of: evidence, advice, severity by thresholds.

use super::finding::{Evidence, Reference, Severity, Value};

/// Evidence about the whole recording.
pub(crate) fn fact(text: impl Into<String>, value: Option<Value>) -> Evidence {
    Evidence { text: text.into(), reference: Reference::Recording, value }
}

/// Evidence with a place to look at.
pub(crate) fn at(reference: Reference, text: impl Into<String>, value: Option<Value>) -> Evidence {
    Evidence { text: text.into(), reference, value }
}

/// A metric column as a place to look at.
pub(crate) fn metric(table: &str, column: &str, key: &str) -> Reference {
    Reference::Metric { table: table.to_owned(), column: column.to_owned(), key: key.to_owned() }
}

/// Sentences of advice.
pub(crate) fn steps(steps: &[&str]) -> Vec<String> {
    steps.iter().map(|step| (*step).to_owned()).collect()
}

/// Severity by thresholds: `critical` from the first, `warning` from the second, `notice` from the third.
pub(crate) fn grade<N: PartialOrd>(value: N, [critical, warning, notice]: [N; 3]) -> Option<Severity> {
    if value >= critical {
        Some(Severity::Critical)
    } else if value >= warning {
        Some(Severity::Warning)
    } else {
        (value >= notice).then_some(Severity::Notice)
    }
}
