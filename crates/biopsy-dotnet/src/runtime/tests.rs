//! Runtimes made by hand, whole and damaged.

mod checking;
mod code;
mod describing;
mod fields;
pub(crate) mod made;
mod methods;
mod modules;
mod ready;
mod threads;
mod types;
