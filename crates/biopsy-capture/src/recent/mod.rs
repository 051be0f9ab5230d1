//! The minutes before: a recorder that goes on for days and keeps the last minutes of a process in memory.
//!
//! [`keep`] is that recorder (`flight`: what it records; `listener`: it answers; `last`: what it makes of a process that ended). A capture
//! asks it for what there is ([`ask`]) and puts it before its own recording.

mod answer;
mod ask;
mod flight;
mod keep;
mod last;
mod listener;
mod place;

pub(crate) use answer::Recent;
pub use ask::is_kept;
pub(crate) use ask::{Stead, ask};
pub use keep::{KeepPlan, keep};
pub use place::RecentPlace;
