//! Why nothing can be caught.

use std::io;

use biopsy_model::Pid;

use crate::process::identity::IdentityError;

/// Processes cannot be caught, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatchError {
    /// Neither way is open.
    #[error("starting processes cannot be held: {gate}; {parent}")]
    NoWay {
        /// Why not by permission events.
        gate: String,
        /// Why not by tracing the parent.
        parent: String,
    },
    /// The process that was named is not there.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Somebody else traces it.
    #[error("process {pid} is being traced by process {tracer}")]
    Traced {
        /// The process.
        pid: Pid,
        /// The debugger.
        tracer: Pid,
    },
    /// It may not be traced.
    #[error("process {pid} cannot be traced")]
    Refused {
        /// The process.
        pid: Pid,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Tracing it would take rights away from programs that it starts.
    #[error(
        "tracing process {pid} without CAP_SYS_PTRACE would take their rights from setuid programs that it starts"
    )]
    WouldDisarmSetuid {
        /// The process.
        pid: Pid,
    },
    /// A process needed for catching could not be had.
    #[error("cannot catch processes")]
    Io(#[from] io::Error),
    /// The thread that holds the processes has ended.
    #[error("the thread that catches processes has ended")]
    Ended,
}

impl CatchError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoWay { .. } => Some(
                "run as root (permission events need CAP_SYS_ADMIN), or name the parent process and run as its user".to_owned(),
            ),
            Self::Traced { tracer, .. } => Some(format!("end the debugger (process {tracer}) first")),
            Self::WouldDisarmSetuid { .. } => Some("run as root, or grant CAP_SYS_PTRACE".to_owned()),
            Self::Identity(error) => error.hint(),
            Self::Refused { .. } | Self::Io(_) | Self::Ended => None,
        }
    }
}
