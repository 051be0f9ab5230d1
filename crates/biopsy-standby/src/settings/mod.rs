//! Settings that hold, and changing them.

mod edit;
mod load;
mod own;
mod set;

pub use edit::{Edited, edit};
pub use load::{Loaded, files, load, parse};
pub use own::{own_file, text_of, write};
pub use set::{Set, set};
