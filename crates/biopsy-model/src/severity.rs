//! How bad something is that was found.

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Severity {
    /// Nothing wrong: what the process does.
    #[default]
    Info,
    /// Worth knowing; may be as intended.
    Notice,
    /// Most likely a problem.
    Warning,
    /// Most likely *the* problem.
    Critical,
}

impl Severity {
    /// All, the least first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Notice, Self::Warning, Self::Critical];

    /// One lower-case word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}
