//! Why a command failed, as it is shown: what went wrong, its causes, and what the reader can do.

use std::error::Error;

use anstyle::{AnsiColor, Effects, Style};

use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::ColorChoice;

/// A failure on its way to the terminal.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
    hint: Option<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// From an error, with its chain of causes.
    pub(crate) fn from_error(code: Code, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            // Some libraries repeat their cause in their own message.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = inner.source();
        }
        Self::new(code, message)
    }

    pub(crate) fn with_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// Names what is left at `path`, if something is and neither message nor hint has told so.
    pub(crate) fn naming(mut self, what: &str, path: &std::path::Path) -> Self {
        let shown = path.display().to_string();
        let told =
            self.message.contains(&shown) || self.hint.as_ref().is_some_and(|hint| hint.contains(&shown));
        if !told && path.symlink_metadata().is_ok() {
            let sentence = format!("{what} `{shown}`");
            self.hint = Some(match self.hint.take() {
                Some(hint) => format!("{hint}; {sentence}"),
                None => sentence,
            });
        }
        self
    }

    /// Writes it to standard error.
    pub(crate) fn print(&self, color: ColorChoice) {
        let bold_red = Style::new().fg_color(Some(AnsiColor::Red.into())).effects(Effects::BOLD);
        out::say_headed(color, bold_red, "error:", &self.message);
        if let Some(hint) = &self.hint {
            out::say(format_args!(""));
            out::say_headed(color, AnsiColor::Cyan.on_default(), "hint:", hint);
        }
    }
}
