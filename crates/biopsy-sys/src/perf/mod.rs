//! perf_event_open(2): events, the ring buffer they write to, and probes of functions.

mod event;
mod probe;
mod ring;

pub use event::{Event, EventConfig, Scope, Source};
pub use probe::{Probe, ProbeAt};
pub use ring::{Record, Ring, RingStatus};
