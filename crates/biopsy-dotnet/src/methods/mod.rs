//! Which method code at an address belongs to, as the runtime's events or its files tell.
//!
//! Method bodies come and go: a method is compiled again at a higher tier, dynamic methods and unloadable assemblies are
//! collected, and their memory is used again. So every body has the time from which and up to which it was there, as far as
//! that was told, and questions may be asked for a moment.

mod debug_info;
mod events;
mod fuzz;
mod il_map;
mod map;
mod method;
mod perf_map;

use biopsy_model::Avma;
use biopsy_model::symbol::Function;

pub(crate) use debug_info::{DEBUG_INFO_BYTES, DebugInfoFormat, parse_debug_info};
pub use events::{MethodEvent, feed, feed_payload};
pub use fuzz::fuzz_methods;
pub use il_map::IlMap;
pub use map::{MethodLimits, MethodMap};
pub use method::{Method, MethodKind, MethodName, Tier};
pub use perf_map::{display_perf_map_name, parse_perf_map_line};

/// Names code addresses of one process.
pub trait NameAddresses {
    /// The function whose code is at this address now (for callers: the return address minus one).
    fn name(&self, address: Avma) -> Option<Function>;
}

/// Nothing is known.
impl NameAddresses for () {
    fn name(&self, _address: Avma) -> Option<Function> {
        None
    }
}
