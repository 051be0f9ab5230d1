//! perf_event_open(2): events and the ring buffer they write to.

mod event;
mod ring;

pub use event::{Event, EventConfig, Scope, Source};
pub use ring::{Record, Ring, RingStatus};
