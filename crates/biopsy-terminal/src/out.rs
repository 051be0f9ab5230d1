//! The one place through which everything goes that is printed.
//!
//! Names of processes, threads and files, texts of logs and of remote clients are in much of what is shown, and the terminal
//! is root's. What commands a terminal becomes visible here, wherever it came from; of escape sequences only our own
//! styles pass, and only where styles are wanted.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use anstyle::Style;
use biopsy_model::printable::{is_harmful, printable, printable_json, printable_lines};

use crate::terminal::{ColorChoice, Terminal, stdout_is_terminal};

/// Numbers of the styles that are used (ECMA-48, SGR): nothing that hides text.
const STYLES: [&str; 13] =
    ["0", "1", "2", "31", "32", "33", "34", "35", "36", "1;31", "1;33", "1;34", "1;36"];

/// Prints a text to standard output. `colour`: it has styles of ours.
///
/// # Errors
/// Nobody takes it.
pub fn text(text: &str, colour: bool) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(safe(text, colour).as_bytes())?;
    out.flush()
}

/// Prints a JSON document to standard output.
///
/// # Errors
/// Nobody takes it.
pub fn json(document: String) -> io::Result<()> {
    stdout().write_all(printable_json(document).as_bytes())
}

/// Writes the file of another tool to standard output, as it is, or as a text where a terminal shows it.
///
/// # Errors
/// Nobody takes it.
pub fn file(bytes: &[u8]) -> io::Result<()> {
    if stdout_is_terminal() {
        return text(&String::from_utf8_lossy(bytes), false);
    }
    stdout().write_all(bytes)
}

/// Hands bytes to the process that started this one.
///
/// # Errors
/// It takes none.
pub fn hand_over(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(bytes)?;
    out.flush()
}

/// Standard output for files of any size: as they are, or as text where a terminal shows them.
#[derive(Debug)]
pub struct Shown;

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if stdout_is_terminal() {
            stdout().write_all(safe(&String::from_utf8_lossy(bytes), false).as_bytes())?;
            return Ok(bytes.len());
        }
        stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        stdout().flush()
    }
}

/// Standard output for what no terminal shows: memory.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn stdout() -> io::StdoutLock<'static> {
    io::stdout().lock()
}

/// Says something on one line of standard error.
pub fn say(line: impl fmt::Display) {
    error_line(&printable(&line.to_string()));
}

/// Says something under a heading of ours; line ends of the text stay.
pub fn say_headed(choice: ColorChoice, style: Style, heading: &str, text: &str) {
    let terminal = Terminal::of_stderr(choice);
    error_line(&format!("{} {}", terminal.paint(style, heading), printable_lines(text)));
}

/// Prints a text of several lines to standard error. `colour`: it has styles of ours.
pub fn to_stderr(text: &str, colour: bool) {
    let _ = stderr().write_all(safe(text, colour).as_bytes());
}

fn error_line(line: &str) {
    // Where that is a file on a full disk, or a terminal that is gone, nobody is left to be told: `eprintln!` would panic, and
    // leave the work half done.
    let _ = writeln!(stderr(), "{line}");
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
fn stderr() -> io::StderrLock<'static> {
    io::stderr().lock()
}

/// Where the log of biopsy's own doings goes: what is in it comes from everywhere, too.
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        stderr().write_all(safe(&line, false).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// Says panics the same way: their messages quote what was read.
pub fn say_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        to_stderr(&format!("thread `{name}`: {panic}\n"), false);
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            to_stderr(&format!("{trace}\n"), false);
        }
    }));
}

/// A text of several lines that commands nothing.
fn safe(text: &str, colour: bool) -> Cow<'_, str> {
    if !colour {
        return printable_lines(text);
    }
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable_lines(&rest[..at]));
        let style = own_style(&rest[at..]);
        out.push_str(style.unwrap_or("\\u{1b}"));
        rest = &rest[at + style.map_or(1, str::len)..];
    }
    out.push_str(&printable_lines(rest));
    Cow::Owned(out)
}

/// The style of ours that a text begins with.
fn own_style(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix("\u{1b}[")?;
    let end = numbers.find('m')?;
    STYLES.contains(&&numbers[..end]).then(|| &text[..end + 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_escape_sequences_our_styles_pass_alone() {
        let text = "\u{1b}[1mbold\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}[2J\u{1b}[8mhidden\u{9b}31m\n\tnext\r";
        assert_eq!(
            safe(text, true),
            "\u{1b}[1mbold\u{1b}[0m \\u{1b}]0;title\\u{7} \\u{1b}[2J\\u{1b}[8mhidden\\u{9b}31m\n\tnext\\r"
        );
        assert!(safe(text, false).starts_with("\\u{1b}[1mbold"));
        assert_eq!(safe("plain ✓\n", true), "plain ✓\n");
    }

    #[test]
    fn every_style_that_is_painted_passes() {
        let terminal = Terminal { width: None, colour: true, unicode: true };
        for style in [
            anstyle::AnsiColor::Red.on_default() | anstyle::Effects::BOLD,
            anstyle::AnsiColor::Cyan.on_default(),
            anstyle::AnsiColor::Green.on_default(),
            anstyle::AnsiColor::Yellow.on_default(),
            Style::new().bold(),
            Style::new().dimmed(),
        ] {
            let painted = terminal.paint(style, "x");
            assert_eq!(safe(&painted, true), painted);
        }
    }
}
