//! What can go wrong in a conversation with a runtime.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use biopsy_bytes::ReadError;
use biopsy_model::Pid;

use crate::hresult::HResult;
use crate::silence::Silence;

/// A runtime could not be spoken with, or refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpcError {
    /// The process has ended.
    #[error("process {pid} has ended")]
    Ended {
        /// Which.
        pid: Pid,
    },
    /// There is no diagnostics socket of this process.
    #[error("process {pid} has no diagnostics socket: {why}")]
    NoSocket {
        /// Which.
        pid: Pid,
        /// Why, as far as it can be told from outside.
        why: NoSocket,
    },
    /// What listens at the socket is not the process.
    #[error(
        "the diagnostics socket of process {pid} belongs to {} of uid {found_uid}, not to it",
        owner(*found_pid)
    )]
    WrongOwner {
        /// The process that is meant.
        pid: Pid,
        /// Who listens; 0: a process that cannot be seen from here.
        found_pid: u32,
        /// Its user.
        found_uid: u32,
    },
    /// The socket does not take the connection.
    #[error("process {pid} does not take a connection at `{}`", path.display())]
    Connect {
        /// The process.
        pid: Pid,
        /// The socket, as the process sees it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No answer came within the time.
    #[error("process {pid} did not answer `{command}` within {} ms: {why}", waited.as_millis())]
    Silent {
        /// The process.
        pid: Pid,
        /// What was asked.
        command: &'static str,
        /// How long was waited.
        waited: Duration,
        /// Why, as far as it can be told from outside.
        why: Silence,
    },
    /// The connection was closed instead of an answer.
    #[error("process {pid} closed the connection instead of answering `{command}`")]
    Closed {
        /// The process.
        pid: Pid,
        /// What was asked.
        command: &'static str,
    },
    /// The runtime answered with an error.
    #[error("process {pid} refused `{command}`: {code}{}", told(detail.as_deref()))]
    Refused {
        /// The process.
        pid: Pid,
        /// What was asked.
        command: &'static str,
        /// The code.
        code: HResult,
        /// What the runtime adds, where it does.
        detail: Option<String>,
    },
    /// The answer is none that the protocol knows.
    #[error("process {pid} answered `{command}` with something that is no answer")]
    Malformed {
        /// The process.
        pid: Pid,
        /// What was asked.
        command: &'static str,
        /// Where.
        #[source]
        source: ReadError,
    },
    /// The command is longer than a message can be.
    #[error("`{command}` is longer than the 64 KiB of a message; ask for less")]
    TooLong {
        /// Which.
        command: &'static str,
    },
    /// Writing or reading failed.
    #[error("talking to process {pid} failed at `{command}`")]
    Io {
        /// The process.
        pid: Pid,
        /// What was asked.
        command: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The port for runtimes that start could not be made.
    #[error("cannot make a port for starting runtimes at `{}`", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn owner(pid: u32) -> String {
    if pid == 0 { "a process outside of what is visible here".to_owned() } else { format!("process {pid}") }
}

fn told(detail: Option<&str>) -> String {
    detail.map(|detail| format!(": {detail}")).unwrap_or_default()
}

impl IpcError {
    /// What the reader can do, where that was checked.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSocket { why, .. } => why.hint(),
            Self::Silent { why, .. } => why.hint(),
            _ => None,
        }
    }

    /// The process is gone, or going: no fault of anybody.
    #[must_use]
    pub fn is_end(&self) -> bool {
        match self {
            Self::Ended { .. } => true,
            Self::Silent { why, .. } => *why == Silence::Ended,
            Self::NoSocket { why, .. } => *why == NoSocket::Exiting,
            _ => false,
        }
    }

    /// The runtime is older (or newer) than the command.
    #[must_use]
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.is_unknown())
    }
}

/// Why there is no diagnostics socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoSocket {
    /// Switched off.
    #[error("it was started with `{variable}=0`")]
    SwitchedOff {
        /// By this variable.
        variable: String,
    },
    /// Its runtime is not loaded (yet).
    #[error("no .NET runtime is loaded in it")]
    NoRuntime,
    /// Loaded, and not so far yet.
    #[error("its runtime is starting")]
    Starting,
    /// It is ending.
    #[error("it is ending, its runtime has closed the socket")]
    Exiting,
    /// Compiled ahead of time without event support.
    #[error("it was compiled ahead of time (Native AOT) without `EventSourceSupport`")]
    NativeAot,
    /// Another process of the same pid left one behind.
    #[error("`{found}` is of an earlier process with the same pid")]
    Stale {
        /// Name of the file.
        found: String,
    },
    /// The folder is too long for a socket's name.
    #[error("the folder of its `TMPDIR` ({length} bytes) is too long for a socket")]
    FolderTooLong {
        /// Bytes.
        length: usize,
    },
    /// The folder is not there.
    #[error("its `TMPDIR` `{folder}` does not exist")]
    NoFolder {
        /// As the process sees it.
        folder: String,
    },
    /// We may not look.
    #[error("its files may not be looked at: it belongs to another user")]
    NotPermitted,
    /// It was deleted, by a cleaner of temporary files for example.
    #[error("there is none in `{folder}`, although its runtime runs: it was deleted, or could not be made")]
    Missing {
        /// As the process sees it.
        folder: String,
    },
}

impl NoSocket {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::SwitchedOff { variable } => {
                Some(format!("start it without `{variable}=0` to have the runtime's events"))
            }
            Self::NativeAot => {
                Some("publish it with `<EventSourceSupport>true</EventSourceSupport>`".to_owned())
            }
            Self::FolderTooLong { .. } => Some("start it with a shorter `TMPDIR`".to_owned()),
            Self::NotPermitted => Some("run biopsy as that user, or as root".to_owned()),
            _ => None,
        }
    }
}
