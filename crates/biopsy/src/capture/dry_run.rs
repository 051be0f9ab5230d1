//! `biopsy capture --dry-run`: what of texts would be recorded.

use std::fmt::Write as _;

use biopsy_capture::Failure;
use biopsy_capture::capture::{CapturePlan, preview};
use serde::Serialize;

use crate::exit_codes::Code;
use crate::render::out;

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    version: u32,
    sources: Vec<Source>,
}

#[derive(Serialize)]
struct Source {
    source: String,
    /// Why there are no lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    rules: Vec<String>,
}

/// Shows it.
pub(super) fn show(plan: &CapturePlan, json: bool) -> Result<Code, Failure> {
    let sources: Vec<Source> = preview(plan)?
        .into_iter()
        .map(|preview| {
            let (lines, error) = match preview.lines {
                Ok(lines) => (lines, None),
                Err(why) => (Vec::new(), Some(why)),
            };
            let lines = lines.into_iter().map(|line| Line { text: line.text, rules: line.rules }).collect();
            Source { source: preview.source, error, lines }
        })
        .collect();
    if json {
        return out::document(&Document { version: 1, sources });
    }
    let mut text = String::new();
    for source in &sources {
        let _ = writeln!(text, "{}", source.source);
        if let Some(error) = &source.error {
            let _ = writeln!(text, "  nothing: {error}");
        }
        for line in &source.lines {
            let masked =
                if line.rules.is_empty() { String::new() } else { format!("  <- {}", line.rules.join(", ")) };
            let _ = writeln!(text, "  {}{masked}", line.text);
        }
    }
    text.push_str("\nNothing was recorded.\n");
    out::text(&text, false)
}
