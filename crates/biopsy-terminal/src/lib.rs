//! What a program of ours prints, on a terminal or not: the one place that opens standard output and standard error, what a terminal can
//! show, tables that fit it, and trees.
//!
//! It knows nothing of what is printed. `biopsy` and `biopsy-lab` print through it alone; nothing that is read from a process, a log or a
//! customer commands a terminal on the way.

#![forbid(unsafe_code)]

pub mod fitted;
pub mod out;
pub mod table;
pub mod terminal;
pub mod tree;

pub use fitted::write_fitted;
pub use table::{Align, Cell, Column, write_table};
pub use terminal::{ColorChoice, NOTE, Terminal};
pub use tree::{TreeLine, tree_lines};
