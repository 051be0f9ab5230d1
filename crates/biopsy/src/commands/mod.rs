//! The commands that read, and those that tell.

mod analyze;
pub(crate) mod core;
pub(crate) mod doctor;
mod export;
mod input;
pub(crate) mod ps;
mod shell;

use std::io;

pub(crate) use analyze::analyze;
pub(crate) use export::export;
pub(crate) use shell::{completions, man};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::Terminal;

/// `biopsy ps`.
pub(crate) fn ps(args: &ps::PsArgs, terminal: Terminal) -> Result<Code, Failure> {
    match ps::run(args, &mut io::stdout().lock(), &terminal) {
        Ok(()) => Ok(Code::Ok),
        Err(ps::PsError::Write(error)) => written(Err(error)),
        Err(error) => Err(Failure::from_error(Code::Target, &error).with_hint(error.hint())),
    }
}

/// `biopsy doctor`.
pub(crate) fn doctor(args: &doctor::DoctorArgs, terminal: Terminal) -> Result<Code, Failure> {
    written(doctor::run(args, &mut io::stdout().lock(), &terminal))
}

/// A closed pipe means that the reader has seen enough.
pub(crate) fn written(result: io::Result<()>) -> Result<Code, Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::Output, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(Code::Ok),
    }
}
