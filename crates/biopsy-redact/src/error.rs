//! What can go wrong while a redactor is made.

use crate::keywords::TooManyKeywords;

/// Why a [`crate::Redactor`] could not be made. Redacting itself cannot fail.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum RedactError {
    /// The kernel gave no random bytes for the key of the bundle; there is no fallback, since a guessable key
    /// would make every pseudonym a riddle that can be solved.
    #[error("no random bytes for the bundle key: {0}")]
    Random(getrandom::Error),
    /// A rule pack is not the TOML that we expect.
    #[error("rule pack `{pack}` cannot be read")]
    Pack {
        /// Name of the pack.
        pack: String,
        /// What the parser said.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A rule in a pack is wrong.
    #[error("rule `{rule}` of pack `{pack}`: {problem}")]
    Rule {
        /// Name of the pack.
        pack: String,
        /// Id of the rule.
        rule: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The keywords of all rules cannot be searched for.
    #[error("keywords of the rule packs cannot be used")]
    Keywords(#[source] TooManyKeywords),
}

impl RedactError {
    /// What the reader can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Random(_) => Some("getrandom(2) must work for biopsy to record; check the seccomp profile"),
            Self::Pack { .. } | Self::Rule { .. } | Self::Keywords(_) => {
                Some("docs/design/04-redaction.md describes the form of a rule")
            }
        }
    }
}
