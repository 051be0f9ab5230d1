//! Why files cannot be written again.

use std::io;
use std::path::PathBuf;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// What is to be read cannot be.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is packed, and the packing is damaged or is none of text.
    #[error("cannot unpack `{}`", path.display())]
    Unpack {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The result cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody asked it to end.
    #[error("it was stopped")]
    Stopped,
    /// There is something already.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// The result would be among what is read.
    #[error("`{}` is inside of what is read", path.display())]
    Inside {
        /// The result.
        path: PathBuf,
    },
    /// Neither a file nor a folder.
    #[error("`{}` is neither a regular file nor a folder", path.display())]
    NoFile {
        /// What.
        path: PathBuf,
    },
    /// Several files do not go to where one is wanted.
    #[error("a folder does not fit standard output")]
    Folder,
    /// The one file that was asked for is no text.
    #[error("`{}` is left out: {why}", path.display())]
    LeftOut {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A second opinion on what was written found secrets in it; nothing is left of it.
    #[error("the check of what was written found something: {}", findings.join("; "))]
    Secrets {
        /// What, and where.
        findings: Vec<String>,
    },
}

impl RewriteError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Exists { .. } => Some("name another place with `--output`; nothing is ever overwritten"),
            Self::Inside { .. } => Some("name a place outside with `--output`"),
            Self::NoFile { .. } => Some("`-` reads standard input"),
            Self::Secrets { .. } => Some(
                "nothing was kept; add the key or the shape to a policy, and report it: it is a fault of the rules",
            ),
            Self::Folder => Some("name a folder with `--output`"),
            Self::Stopped
            | Self::Read { .. }
            | Self::Unpack { .. }
            | Self::Write { .. }
            | Self::LeftOut { .. } => None,
        }
    }

    /// Whether it is the place of the result that is at fault.
    #[must_use]
    pub fn is_output(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Exists { .. } | Self::Inside { .. })
    }
}
