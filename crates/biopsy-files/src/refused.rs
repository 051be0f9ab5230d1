//! Why a file is not opened.

use std::io;
use std::path::PathBuf;

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is something that is not read like a file.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// A link, where none are followed.
    #[error("`{}` is a link", path.display())]
    Link {
        /// The part of the path that is one.
        path: PathBuf,
    },
    /// A link, where those of its maker lead to files that the maker may not read.
    #[error(
        "user {maker} made a link or a name that leads to it, and may not read it: it belongs to user {owner}"
    )]
    Foreign {
        /// Who made the link.
        maker: u32,
        /// Who owns the file.
        owner: u32,
    },
    /// A file system whose files can make readers wait.
    #[error("`{}` is on a file system of type {kind}, which can keep its readers waiting", path.display())]
    FileSystem {
        /// The part of the path that is on it.
        path: PathBuf,
        /// Its type.
        kind: String,
    },
    /// More links than the kernel would follow.
    #[error("it is behind more than {limit} links")]
    TooManyLinks {
        /// How many are followed.
        limit: usize,
    },
    /// The system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Io(error) => error,
            Refused::NotRegular(_) => Self::new(io::ErrorKind::InvalidInput, refused),
            other => Self::new(io::ErrorKind::PermissionDenied, other),
        }
    }
}
