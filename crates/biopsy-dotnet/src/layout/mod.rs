//! Where the runtime keeps its data: descriptors that it exports, and layout files for versions without one.
//!
//! A descriptor is JSON in the memory of the runtime (`DotNetRuntimeContractDescriptor`, from .NET 9 on) that names types, offsets
//! of fields, globals and contracts; see `docs/design/datacontracts` of dotnet/runtime. The files in `layouts/` have the same
//! schema. For versions that export no descriptor (8) they say everything; for the others they say what the descriptor leaves
//! out. A version that nobody has met is a new file and no code ([`LayoutFiles::with`]).

mod error;
mod files;
pub mod fuzz;
pub(crate) mod json;
mod table;
#[cfg(test)]
mod tests;

pub use error::LayoutError;
pub use files::{LayoutFile, LayoutFiles, LayoutMatch};
pub use table::{Global, Layout};
