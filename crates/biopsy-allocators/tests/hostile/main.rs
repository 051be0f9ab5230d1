//! Processes that were made by hand, whole and broken: what they hold is counted, never twice, and what cannot be told is said.

mod arenas;
mod books;
mod caches;
mod cut;
mod listed;
mod made;
mod mapped;
mod pieces;
mod processes;
mod sums;
