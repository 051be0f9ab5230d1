//! Managed code in stacks: how to unwind it, and what it is called.
//!
//! ```text
//! address ─► Runtime::find_method ─┬─► UNWIND_INFO ─► biopsy_stacks::unwind::windows_rule ─► the caller's frame
//!                                  └─► method_name ─► names::display ─► `Feed.GetAsync (async)`
//! ```
//!
//! One stack has native and managed frames: `biopsy_stacks` walks it and asks here about code that no ELF file has. The runtime
//! describes each method's frame (compiled at run time or ahead) as Windows does; that is exact at every instruction, which
//! frame pointers are not. Where the runtime went from managed to native code it leaves explicit frames ([`explicit_frames`]).
//! `docs/design/12-mixed-stacks.md` has the reasons and the numbers.

mod explicit;
mod method_names;
mod notes;
#[cfg(test)]
mod tests;
mod unwind;

pub use explicit::{ExplicitFrame, FrameKinds, explicit_frames};
pub use method_names::{MethodText, method_text};
pub use notes::ExplicitFrames;
pub use unwind::ManagedUnwind;
