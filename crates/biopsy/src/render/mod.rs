//! How reports and results look on a terminal.

pub(crate) mod result;

use std::path::Path;

use biopsy_capture::Failure;
use biopsy_capture::place::write_new;
use biopsy_foreground::{Code, out};
use biopsy_report::TextOptions;
use biopsy_terminal::Terminal;

/// How reports are shown: longer lines than this are hard to read.
pub(crate) fn for_reports(terminal: Terminal) -> TextOptions {
    const WIDEST: usize = 120;
    TextOptions { width: terminal.width.map(|width| width.min(WIDEST)), color: terminal.colour }
}

/// As what an answer is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// As a page, too, in this file.
    pub(crate) html: Option<&'a Path>,
    /// On standard output as JSON ...
    pub(crate) json: bool,
    /// ... or as Markdown, else as text.
    pub(crate) markdown: bool,
}

/// Shows an answer as it is wanted.
pub(crate) fn show(
    form: Form<'_>,
    terminal: Terminal,
    html: impl FnOnce() -> String,
    json: impl FnOnce() -> String,
    markdown: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<Code, Failure> {
    if let Some(path) = form.html {
        write_new(path, html().as_bytes())?;
    }
    match form {
        Form { json: true, .. } => out::json(json()),
        Form { markdown: true, .. } => out::text(&markdown(), terminal.colour),
        _ => out::text(&text(), terminal.colour),
    }
}
