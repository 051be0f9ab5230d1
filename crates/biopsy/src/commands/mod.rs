//! The commands that read, and those that tell.

pub(crate) mod analyze;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
mod export;
pub(crate) mod heap;
pub(crate) mod input;
pub(crate) mod kill;
pub(crate) mod lab;
pub(crate) mod list;
pub(crate) mod ps;
pub(crate) mod redact;
pub(crate) mod restore;
mod shell;
pub(crate) mod symbols;
pub(crate) mod verify_deletion;

pub(crate) use analyze::analyze;
pub(crate) use compare::compare;
pub(crate) use explain::explain;
pub(crate) use export::export;
pub(crate) use heap::heap;
pub(crate) use kill::run as kill;
pub(crate) use lab::lab;
pub(crate) use list::run as list;
pub(crate) use redact::redact;
pub(crate) use restore::run as restore;
pub(crate) use shell::{completions, man};
pub(crate) use verify_deletion::verify_deletion;

use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;
use biopsy_capture::{Failure, FailureKind};
use biopsy_model::printable::printable;

/// `biopsy ps`.
pub(crate) fn ps(args: &ps::PsArgs, terminal: Terminal) -> Result<Code, Failure> {
    let mut shown = Vec::new();
    match ps::run(args, &mut shown, &terminal) {
        Ok(()) if args.json => out::json(shown),
        Ok(()) => {
            let on = biopsy_standby::restore::summary();
            shown.extend(on.iter().flat_map(|on| format!("\n{}\n", printable(on)).into_bytes()));
            out::bytes_of_text(&shown, terminal.colour)
        }
        Err(ps::PsError::Write(error)) => out::written(Err(error)),
        Err(error) => Err(Failure::from_error(FailureKind::Target, &error).with_hint(error.hint())),
    }
}

/// `biopsy doctor`.
pub(crate) fn doctor(args: &doctor::DoctorArgs, terminal: Terminal) -> Result<Code, Failure> {
    let mut shown = Vec::new();
    out::written(doctor::run(args, &mut shown, &terminal))?;
    if args.json { out::json(shown) } else { out::bytes_of_text(&shown, terminal.colour) }
}
