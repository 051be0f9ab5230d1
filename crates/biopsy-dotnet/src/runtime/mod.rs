//! The runtime as it stands in the memory of a process: threads, modules, types, methods.
//!
//! ```text
//! image ─► find_runtimes ─► Runtime::open ─┬─► threads, modules
//!             layout files, descriptor ────┤   type_of, fields ─► heap
//!                                          └─► find_method, method_name ─► stack, names of live traces
//! ```
//!
//! Nothing of the process runs and no foreign code is loaded. Where the runtime keeps its data is said by the descriptor that it
//! exports (9 and later) or by a layout file (8); either is believed after checks only ([`Runtime::checks`]).
//!
//! All methods take `&self`: what was read once is cached, bounded. An image of a process that goes on running changes below the
//! cache: [`Runtime::forget`] before a new look.

mod cache;
mod check;
mod checks;
mod code;
mod discover;
mod error;
mod field;
mod fields;
mod find;
mod find_method;
mod gc;
mod handles;
mod il;
mod loaded_types;
mod local_files;
mod memory;
mod method;
mod method_names;
mod module;
mod modules;
mod open;
mod options;
mod places;
mod reader;
mod relocations;
mod stub;
#[cfg(test)]
pub(crate) mod tests;
mod thread;
mod threads;
mod tier;
mod type_names;
mod types;
mod version;

pub use check::{Check, CheckResult};
pub use error::RuntimeError;
pub use field::{Field, FieldPlace};
pub use find::{FoundRuntime, RuntimeKind, find_runtimes, find_runtimes_with};
pub use handles::{MethodDesc, TypeHandle};
pub use local_files::LocalFiles;
pub(crate) use memory::Memory;
pub use method::{CodeKind, Method, MethodName, Tier, UnwindInfo};
pub use module::Module;
pub use options::{MissingFiles, Options};
pub use reader::Runtime;
pub use stub::StubKind;
pub use thread::ManagedThread;
pub use types::{ElementType, TypeInfo, TypeShape};
pub use version::RuntimeVersion;
