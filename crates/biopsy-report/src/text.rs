//! The summary for the terminal after a capture: findings first, then a few lines.

use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;

/// How the terminal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextOptions {
    /// Columns to wrap at.
    pub width: usize,
    /// Use ANSI colours.
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { width: 100, color: false }
    }
}

pub(crate) fn render(_capture: &Capture, analysis: &Analysis, _options: TextOptions) -> String {
    analysis.findings.iter().map(|finding| format!("{}: {}\n", finding.severity.word(), finding.title)).collect()
}
