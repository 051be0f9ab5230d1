//! The one place through which this program prints. What it says may quote what customers sent: nothing of it commands a terminal.

use std::io::{self, Write};

use biopsy_model::printable::{printable, printable_lines};

/// Says something on one line of standard error.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn say(line: &str) {
    // Where nobody can be told there is nothing else to do.
    let _ = writeln!(io::stderr().lock(), "{}", printable(line));
}

/// Prints a text of several lines to standard output.
///
/// # Errors
/// Nobody takes it.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(printable_lines(text).as_bytes())?;
    out.flush()
}

/// Hands bytes to the process that started this one.
///
/// # Errors
/// It takes none.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn hand_over(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
