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
mod logs;
pub(crate) mod open;
pub(crate) mod ps;
pub(crate) mod redact;
pub(crate) mod restore;
mod shell;
mod sources;
pub(crate) mod verify_deletion;

pub(crate) use analyze::analyze;
pub(crate) use compare::compare;
pub(crate) use doctor::doctor;
pub(crate) use explain::explain;
pub(crate) use export::export;
pub(crate) use heap::heap;
pub(crate) use kill::run as kill;
pub(crate) use lab::{lab, lab_verb};
pub(crate) use list::run as list;
pub(crate) use logs::logs;
pub(crate) use open::open;
pub(crate) use ps::ps;
pub(crate) use redact::redact;
pub(crate) use restore::run as restore;
pub(crate) use shell::{completions, man};
pub(crate) use verify_deletion::verify_deletion;
