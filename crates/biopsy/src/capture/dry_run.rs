//! `biopsy capture --dry-run`: what of texts would be recorded, and what the end would do to the target.

use std::fmt::Write as _;

use biopsy_capture::Failure;
use biopsy_capture::capture::{CapturePlan, Coming, StacksWish, coming, preview};
use serde::Serialize;

use biopsy_foreground::{Code, out};

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    version: u32,
    sources: Vec<Source>,
    /// Whether a process is frozen at the end.
    stacks: Stacks,
}

#[derive(Serialize)]
struct Stacks {
    /// `never`, `where-nothing-moves` or `always`.
    wish: &'static str,
    /// How long the target would stand still.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_pause_ms: Option<f64>,
    /// Why it would not be frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// In a sentence.
    #[serde(skip)]
    text: String,
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
    let stacks = stacks(plan.stacks, coming(plan)?);
    if json {
        return out::document(&Document { version: 1, sources, stacks });
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
    let _ = writeln!(text, "at the end\n  {}", stacks.text);
    text.push_str("\nNothing was recorded.\n");
    out::text(&text, false)
}

fn stacks(wish: StacksWish, coming: Coming) -> Stacks {
    let text = coming.text(wish);
    let (predicted_pause_ms, refused) = match coming {
        Coming::Nothing | Coming::AtMost(_) => (None, None),
        Coming::Frozen(Ok(pause)) => (Some(pause.as_secs_f64() * 1e3), None),
        Coming::Frozen(Err(why)) => (None, Some(why)),
    };
    Stacks { wish: wish.word(), predicted_pause_ms, refused, text }
}
