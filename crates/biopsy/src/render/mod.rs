//! How things look on a terminal.

pub(crate) mod table;
pub(crate) mod terminal;
