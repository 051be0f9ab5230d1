//! Why the lab did not do something.

use std::io;
use std::path::PathBuf;

/// Why the lab did not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A file of the lab cannot be read or written.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database refuses.
    #[error("the lab's database refuses")]
    Database(#[from] sqlx::Error),
    /// The storage refuses.
    #[error("the lab's storage refuses: {0}")]
    Storage(String),
    /// There is no such case.
    #[error("there is no case `{0}`")]
    NoCase(String),
    /// A case was deleted.
    #[error("case `{0}` was deleted; its certificate is what is left of it")]
    Deleted(String),
    /// The lab has no key to a case.
    #[error("case `{0}` is sealed to keys that the lab does not have")]
    Sealed(String),
    /// The key that a case is wrapped with is not there.
    #[error(
        "the key that opens case `{case}` is gone: it was wrapped with `{kek}`, which is not in the folder of keys"
    )]
    KeyGone {
        /// Which case.
        case: String,
        /// The wrapping key.
        kek: String,
    },
    /// The database is older than the keys: a back-up that was put back.
    #[error(
        "the database names `{0}` as its wrapping key, and there is none of that name in the folder of keys"
    )]
    OlderThanKeys(String),
    /// Something that was kept cannot be read.
    #[error("cannot read {what}")]
    Damaged {
        /// What.
        what: &'static str,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Analysis did not end well.
    #[error("the analysis failed: {0}")]
    Worker(String),
    /// A sealed file cannot be read.
    #[error(transparent)]
    Unseal(#[from] biopsy_seal::UnsealError),
    /// Something cannot be sealed.
    #[error(transparent)]
    Seal(#[from] biopsy_seal::SealError),
    /// Something over all cases was not done.
    #[error(transparent)]
    Cases(#[from] biopsy_cases::CasesError),
    /// A document cannot be signed.
    #[error(transparent)]
    Signed(#[from] biopsy_deliver::SignedError),
}

impl LabError {
    /// For `map_err`, with what was tried.
    pub fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OlderThanKeys(_) => Some(
                "a database from a back-up holds no case that can be read once the keys have moved on; to go on with it, put back the folder \
                 of keys of the same moment, if there is one",
            ),
            Self::Sealed(_) => Some(
                "whoever has one reads it with `biopsy open CASE --from LAB --token-file FILE --identity KEYFILE`",
            ),
            Self::Cases(error) => error.hint(),
            _ => None,
        }
    }

    /// Whoever typed it can do better: the exit code says so.
    #[must_use]
    pub fn is_of_usage(&self) -> bool {
        use biopsy_cases::CasesError;
        matches!(
            self,
            Self::Usage(_)
                | Self::Cases(
                    CasesError::OnlyReads { .. } | CasesError::Question { .. } | CasesError::TooLarge { .. }
                )
        )
    }
}

/// An error as a sentence, causes included.
#[must_use]
pub fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    text
}
