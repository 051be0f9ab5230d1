//! What a command prints, and what it means that it cannot: over [`biopsy_terminal::out`], through which everything goes.

use std::io;

use anstyle::{AnsiColor, Effects, Style};
use biopsy_capture::{Failure, FailureKind};
use biopsy_terminal::out;
pub use biopsy_terminal::out::{Log, Shown, say, say_panics, stdout, to_stderr};
use biopsy_terminal::table::{Cell, Column, write_table};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

use crate::exit_codes::Code;

/// Prints a text to standard output. `colour`: it has styles of ours.
///
/// # Errors
/// It cannot be written. A closed pipe means that the reader has seen enough.
pub fn text(text: &str, colour: bool) -> Result<Code, Failure> {
    written(out::text(text, colour))
}

/// Prints a table of which every row has as many cells as there are columns; of no rows, nothing.
///
/// # Errors
/// As [`text`].
pub fn table(terminal: Terminal, columns: &[Column], rows: &[Vec<Cell>]) -> Result<Code, Failure> {
    if rows.is_empty() {
        return Ok(Code::Ok);
    }
    text(&table_text(terminal, columns, rows), terminal.colour)
}

/// The same as a text.
#[must_use]
pub fn table_text(terminal: Terminal, columns: &[Column], rows: &[Vec<Cell>]) -> String {
    let mut shown = Vec::new();
    // Writing to a Vec does not fail.
    let _ = write_table(&mut shown, terminal, columns, rows);
    String::from_utf8_lossy(&shown).into_owned()
}

/// Prints a JSON document to standard output.
///
/// # Errors
/// As [`text`].
pub fn json(document: String) -> Result<Code, Failure> {
    written(out::json(document))
}

/// Prints a value as one JSON document to standard output.
///
/// # Errors
/// As [`text`], and a value that is no document.
pub fn document<T: serde::Serialize>(document: &T) -> Result<Code, Failure> {
    json(as_json(serde_json::to_string_pretty(document))?)
}

/// The same on one line.
///
/// # Errors
/// As [`document`].
pub fn line<T: serde::Serialize>(document: &T) -> Result<Code, Failure> {
    json(as_json(serde_json::to_string(document))?)
}

fn as_json(document: serde_json::Result<String>) -> Result<String, Failure> {
    match document {
        Ok(document) => Ok(document + "\n"),
        Err(error) => Err(Failure::new(FailureKind::Bug, format!("cannot write the result: {error}"))),
    }
}

/// Writes the file of another tool to standard output, as it is, or as a text where a terminal shows it.
///
/// # Errors
/// As [`text`].
pub fn file(bytes: &[u8]) -> Result<Code, Failure> {
    written(out::file(bytes))
}

/// What it means that something was written, or was not.
///
/// # Errors
/// As [`text`].
pub fn written(result: io::Result<()>) -> Result<Code, Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(FailureKind::Output, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(Code::Ok),
    }
}

/// Says why a command failed, and what the reader can do.
pub fn say_failure(failure: &Failure, choice: ColorChoice) {
    let bold_red = Style::new().fg_color(Some(AnsiColor::Red.into())).effects(Effects::BOLD);
    out::say_headed(choice, bold_red, "error:", &failure.to_string());
    if let Some(hint) = failure.hint() {
        say("");
        out::say_headed(choice, AnsiColor::Cyan.on_default(), "hint:", hint);
    }
}
