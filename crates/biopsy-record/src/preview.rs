//! What of a source would be in a recording.

/// Some lines of one source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preview {
    /// What it is: a path, `journal:UNIT`, arguments or environment of a process; masked.
    pub source: String,
    /// Lines of it; or why there are none.
    pub lines: Result<Vec<PreviewLine>, String>,
}

/// A line as it would be recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreviewLine {
    /// Masked.
    pub text: String,
    /// Ids of the rules that found something in it.
    pub rules: Vec<String>,
}

impl PreviewLine {
    pub(crate) fn new(text: String, hits: Vec<biopsy_redact::Hit>) -> PreviewLine {
        PreviewLine { text, rules: hits.into_iter().map(|hit| hit.rule).collect() }
    }
}
