//! Assemblies: PE files, ECMA-335 metadata, portable debug information.
//!
//! Bytes come from a file, from the memory of a process (laid out as sections say, or as in the file), or from an assembly that
//! is made at run time. Tables are read where they are asked for, bounded, without recursion: all of it may be damaged or hostile.

mod error;
pub mod fuzz;
mod names;
pub mod pdb;
mod pe;
mod schema;
mod signature;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

pub use error::MetadataError;
pub use names::{MethodRow, TypePath, TypeSegment};
pub use pe::{PeFile, PeLayout, ReadAt};
pub use schema::Table;
pub use signature::method_parameters;
pub use tables::{Metadata, RowOf};
