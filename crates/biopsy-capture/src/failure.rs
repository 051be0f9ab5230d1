//! Why a verb failed: what went wrong, its causes, and what the reader can do.

use std::error::Error;

use biopsy_sys::memory_folder::is_by_descriptor;

/// What is said of a folder that stays because something went wrong.
pub(crate) const KEPT: &str = "what was recorded is kept in";
/// What is said of a result that was made before something went wrong.
pub const MADE: &str = "the result itself is whole:";

/// What kind of failure it is; programs tell it by their exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// A mistake in biopsy itself.
    Bug,
    /// What was asked for makes no sense.
    Usage,
    /// It was stopped before there was a result.
    Stopped,
    /// No such process, several of them, or it ended before anything was recorded.
    Target,
    /// Not permitted, and nothing could be done without.
    Permission,
    /// The file is not a recording, is damaged beyond use, or is from a newer version.
    BadInput,
    /// The result cannot be written.
    Output,
    /// The check for secrets found something: no bundle was made, the folder is kept.
    Secrets,
    /// biopsy itself ran out of memory, or may start no more threads.
    Memory,
    /// Something could not be sent; it is kept.
    Delivery,
}

/// Why a verb, or a command, has no result.
#[derive(Debug)]
pub struct Failure {
    /// For programs.
    pub kind: FailureKind,
    message: String,
    hint: Option<String>,
    is_passing: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// With its sentence.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, is_passing: false }
    }

    /// From an error, with its chain of causes.
    pub fn from_error(kind: FailureKind, error: &dyn Error) -> Self {
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
        Self::new(kind, message)
    }

    /// With what the reader can do.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// It is of the moment, or not: what is, may be over a little later.
    #[must_use]
    pub(crate) fn passing(mut self, is_passing: bool) -> Self {
        self.is_passing = is_passing;
        self
    }

    /// Whether it may be over a little later.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Says how often it was tried.
    #[must_use]
    pub(crate) fn after_tries(mut self, tries: u32) -> Self {
        if tries > 1 {
            self.message = format!("{} (tried {tries} times)", self.message);
        }
        self
    }

    /// Names what is left at `path`, if something is and neither message nor hint has named it.
    #[must_use]
    pub fn naming(mut self, what: &str, path: &std::path::Path) -> Self {
        let shown = path.display().to_string();
        let told =
            self.message.contains(&shown) || self.hint.as_ref().is_some_and(|hint| hint.contains(&shown));
        // What is in memory alone goes with this process.
        if !told && !is_by_descriptor(path) && path.symlink_metadata().is_ok() {
            let sentence = format!("{what} `{shown}`");
            self.hint = Some(match self.hint.take() {
                Some(hint) => format!("{hint}; {sentence}"),
                None => sentence,
            });
        }
        self
    }

    /// What the reader can do, where something was checked to help.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl Error for Failure {}
