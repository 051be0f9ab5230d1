//! What `config`, `watch`, `kill`, `restore` and `doctor` share of what stands by: where it is, its settings, what is on.

pub(crate) mod commands;
pub(crate) mod journal;
pub(crate) mod observed;
pub(crate) mod places;
pub(crate) mod restore;
pub(crate) mod results;
pub(crate) mod settings;
