//! What can go wrong when a recording is written, and when one is opened.

use std::io;
use std::path::{Path, PathBuf};

use crate::FormatVersion;

/// A recording or bundle could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is something of that name.
    #[error("cannot create `{}`: it exists already", path.display())]
    Exists {
        /// What was to be created.
        path: PathBuf,
    },
    /// The disk, or a quota, is full.
    #[error("cannot {doing} `{}`: {}", path.display(), no_room(.source))]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What is kept, for the hint.
        kept: Option<PathBuf>,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A folder that is to be packed or sealed is not a recording.
    #[error("`{}` is not a biopsy recording: it has no `biopsy.json`", path.display())]
    NotARecording {
        /// The folder.
        path: PathBuf,
    },
    /// A name that must not be in a recording.
    #[error("`{name}` cannot be the name of a member of a recording")]
    BadName {
        /// The name.
        name: String,
    },
    /// A value could not be written as JSON.
    #[error("cannot write `{name}` as JSON")]
    Json {
        /// The member.
        name: String,
        /// The serialiser's reason.
        #[source]
        source: serde_json::Error,
    },
}

/// Which kind of "full": each asks for something else.
fn no_room(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::QuotaExceeded => "the disk quota is used up",
        io::ErrorKind::FileTooLarge => "larger than the file system or a limit of this process allows",
        _ => "no space left",
    }
}

impl WriteError {
    /// What went wrong while something was done to a file.
    #[must_use]
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::DiskFull { doing, path, kept: None, source }
            }
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            _ => Self::Io { doing, path, source },
        }
    }

    /// Says that the folder of the recording is still there.
    pub(crate) fn keeping(self, folder: &Path) -> Self {
        match self {
            Self::DiskFull { doing, path, source, kept: _ } => {
                Self::DiskFull { doing, path, source, kept: Some(folder.to_path_buf()) }
            }
            other => other,
        }
    }

    /// Names `out` where it named something below `folder`: what failed was writing the bundle.
    pub(crate) fn instead_of(self, folder: &Path, out: &Path) -> Self {
        let rename = |path: PathBuf| if path.starts_with(folder) { out.to_path_buf() } else { path };
        match self {
            Self::DiskFull { doing: "write", path, kept, source } => {
                Self::DiskFull { doing: "write", path: rename(path), kept, source }
            }
            Self::Io { doing: "write", path, source } => {
                Self::Io { doing: "write", path: rename(path), source }
            }
            other => other,
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => Some("choose another name; nothing is ever overwritten".to_owned()),
            Self::DiskFull { kept: Some(folder), .. } => Some(format!(
                "what was recorded is kept in `{}`; free some space, or write the bundle to another disk",
                folder.display()
            )),
            Self::DiskFull { .. } => Some("free some space, or record to another disk".to_owned()),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("the folder it is to be created in does not exist".to_owned())
            }
            Self::Io { .. } | Self::NotARecording { .. } | Self::BadName { .. } | Self::Json { .. } => None,
        }
    }
}

/// A recording could not be opened at all. Whatever leaves something to show is a warning instead.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing of that name.
    #[error("cannot open `{}`: no such file or folder", path.display())]
    NotFound {
        /// What was named.
        path: PathBuf,
    },
    /// Neither a folder with a header nor a zip with one.
    #[error("`{}` is not a biopsy recording: {reason}", path.display())]
    NotARecording {
        /// What was named.
        path: PathBuf,
        /// What it lacks.
        reason: &'static str,
    },
    /// Written by a newer biopsy, in a format that this one would misread.
    #[error("`{}` has format {found}, this biopsy reads up to {supported}", path.display())]
    NewerFormat {
        /// The recording (or the member).
        path: PathBuf,
        /// Its version.
        found: FormatVersion,
        /// Ours.
        supported: FormatVersion,
    },
    /// The header is there but cannot be read.
    #[error("cannot read the header of `{}`", path.display())]
    BadHeader {
        /// The recording.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The zip's directory cannot be read.
    #[error("cannot read the zip directory of `{}`", path.display())]
    BadZip {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: zip::result::ZipError,
    },
    /// It is sealed, and does not open.
    #[error(transparent)]
    Sealed(#[from] biopsy_seal::UnsealError),
    /// Larger than the reader accepts.
    #[error("`{}` claims {claimed} {what}, the limit is {limit}", path.display())]
    OverLimit {
        /// The recording.
        path: PathBuf,
        /// Of what there is too much.
        what: &'static str,
        /// What it claims.
        claimed: u64,
        /// What is accepted.
        limit: u64,
    },
    /// The system refused.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// What was being read.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if source.kind() == io::ErrorKind::NotFound {
            Self::NotFound { path }
        } else {
            Self::Io { path, source }
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NewerFormat { .. } => Some("open it with a newer biopsy".to_owned()),
            Self::BadZip { .. } => Some(
                "a bundle whose download or copy was cut short cannot be opened; copy it again and compare sizes"
                    .to_owned(),
            ),
            Self::NotARecording { reason, .. } if reason.contains("--identity") => None,
            Self::NotARecording { .. } => {
                Some("name a recording folder, or the .zip that biopsy wrote".to_owned())
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("recordings are readable by the user who made them only".to_owned())
            }
            Self::NotFound { .. }
            | Self::BadHeader { .. }
            | Self::Sealed(_)
            | Self::OverLimit { .. }
            | Self::Io { .. } => None,
        }
    }
}
