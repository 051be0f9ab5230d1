//! Why a process cannot be watched.

use std::path::PathBuf;

use biopsy_dotnet_ipc::IpcError;
use biopsy_model::ProcessKey;
use biopsy_target::catch::CatchError;

/// The process cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// No trigger was given.
    #[error("no trigger was given")]
    NoTrigger,
    /// It cannot be followed to its end or crash.
    #[error("process {pid} cannot be followed to its end", pid = key.pid)]
    Follow {
        /// The process.
        key: ProcessKey,
        /// Why.
        #[source]
        source: CatchError,
    },
    /// The log cannot be followed.
    #[error("the log `{}` cannot be followed", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The kernel does not tell how long tasks stand still.
    #[error("pressure cannot be read in `{}`", path.display())]
    Pressure {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Its runtime cannot be listened to.
    #[error("what the runtime of process {pid} says cannot be listened to", pid = key.pid)]
    DotNet {
        /// The process.
        key: ProcessKey,
        /// Why.
        #[source]
        source: IpcError,
    },
    /// The process writes its output into no file.
    #[error("process {pid} has no regular file as stdout or stderr", pid = key.pid)]
    NoOutputFile {
        /// The process.
        key: ProcessKey,
    },
}

impl WatchError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTrigger => Some("give one with `--on`, for example `--on crash`".to_owned()),
            Self::Follow { source, .. } => source.hint(),
            Self::NoOutputFile { .. } => Some("name the log: `log:/path/to/file:REGEX`".to_owned()),
            Self::DotNet { source, .. } => source.hint(),
            Self::Pressure { .. } => Some(
                "this kernel was built or started without pressure stall information: boot it with `psi=1`, or wait for `cpu`, `memory` or `hang`".to_owned(),
            ),
            Self::Log { .. } => None,
        }
    }
}
