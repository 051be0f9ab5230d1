//! How things look on a terminal.

pub(crate) mod table;
pub(crate) mod terminal;

/// Writes a line to standard error. Where that is a file on a full disk, or a terminal that is gone, nobody is left to be told:
/// `eprintln!` would panic, and leave the work half done.
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($part)*);
    }};
}
pub(crate) use tell;
