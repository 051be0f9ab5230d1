//! The one door through which text goes into a recording: masked and counted.

use std::borrow::Cow;
use std::sync::Arc;

use biopsy_redact::{RedactionLog, Redactor};

/// The redactor of a recording together with the log of what it masked.
#[derive(Clone)]
pub struct Masking {
    redactor: Arc<Redactor>,
    log: Arc<RedactionLog>,
}

impl Masking {
    /// Joins the two.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>, log: Arc<RedactionLog>) -> Masking {
        Masking { redactor, log }
    }

    /// `text` without its secrets, counted for `member`.
    #[must_use]
    pub fn text<'t>(&self, member: &str, text: &'t str) -> Cow<'t, str> {
        let redacted = self.redactor.text(text);
        self.log.add(member, &redacted.hits);
        redacted.text
    }

    /// The redactor, for what is not running text.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The log of what was masked.
    #[must_use]
    pub fn log(&self) -> &RedactionLog {
        &self.log
    }
}

impl std::fmt::Debug for Masking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masking").finish_non_exhaustive()
    }
}
