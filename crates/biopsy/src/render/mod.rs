//! How things look on a terminal.

mod forecast;
pub(crate) mod out;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod table;
pub(crate) mod terminal;
