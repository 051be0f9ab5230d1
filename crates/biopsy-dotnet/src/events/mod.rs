//! What the events of a trace mean: decoded payloads, and the collector that makes a `RuntimeTrace` of them.
//!
//! [`runtime`] decodes the runtime's own events by id and version; events of the application's libraries describe themselves
//! (see [`crate::nettrace::Event::values`]). [`Collector`] takes one event after the other, of a live session or of a file, and
//! keeps exact totals and groups, and of the single events the ones worth looking at, in bounded memory.

mod activity;
mod allocations;
mod collections;
mod collector;
mod commands;
mod contention;
mod counters;
mod diagnostic_source;
mod exceptions;
mod group_text;
mod join;
mod kept;
mod kind;
mod limits;
mod messages;
mod names;
mod request_groups;
mod requests;
pub mod runtime;
mod stacks;

#[cfg(test)]
mod tests;

pub use collector::Collector;
pub use join::join;
pub use limits::Limits;
pub use names::event_name;

/// Reads arbitrary bytes as nettrace and collects what is in it.
pub fn fuzz_events(bytes: &[u8]) {
    let Ok(mut reader) = crate::nettrace::Reader::new(bytes, &crate::nettrace::Limits::small()) else {
        return;
    };
    reader.sort_by_time(true);
    let mut collector =
        Collector::new(biopsy_model::Pid(1), "fuzz".to_owned(), &Limits::small(), str::to_owned);
    while let Ok(Some(event)) = reader.next_event() {
        collector.event(&event);
    }
    collector.lost(reader.lost(), reader.unknown(), false);
    drop(collector.finish(&()));
}
