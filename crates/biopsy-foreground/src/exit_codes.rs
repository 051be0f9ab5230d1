//! What the exit code says. Part of the stable interface: `docs/guide/exit-codes.md`.

use std::process::ExitCode;

use biopsy_capture::FailureKind;

/// Exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Code {
    /// All well.
    Ok = 0,
    /// A mistake in biopsy itself.
    Bug = 1,
    /// The command line makes no sense (clap uses the same).
    Usage = 2,
    /// There is a result, but less than was asked for; the warnings say what is missing.
    Partial = 3,
    /// No such process, several of them, or it ended before anything was recorded.
    Target = 4,
    /// Not permitted, and nothing could be recorded without.
    Permission = 5,
    /// The file is not a recording, is damaged beyond use, or is from a newer version.
    BadInput = 6,
    /// The result cannot be written.
    Output = 7,
    /// The check for secrets found something: no bundle was made, the folder is kept.
    Secrets = 8,
    /// biopsy itself ran out of memory, or may start no more threads.
    Memory = 9,
    /// It could not be sent; the sealed file is kept.
    Delivery = 10,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

impl From<FailureKind> for Code {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Bug => Self::Bug,
            FailureKind::Usage => Self::Usage,
            FailureKind::Stopped => Self::Partial,
            FailureKind::Target => Self::Target,
            FailureKind::Permission => Self::Permission,
            FailureKind::BadInput => Self::BadInput,
            FailureKind::Output => Self::Output,
            FailureKind::Secrets => Self::Secrets,
            FailureKind::Memory => Self::Memory,
            FailureKind::Delivery => Self::Delivery,
        }
    }
}
