//! One event.

use super::metadata::EventMetadata;
use super::value::Values;
use biopsy_model::{Avma, MonoNanos, Pid, Tid};

/// One event. It borrows from the reader and is gone with the next one.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What kind of event.
    pub metadata: &'a EventMetadata,
    /// The process, where the stream says.
    pub pid: Option<Pid>,
    /// The thread that it is about, as the process sees itself (its pid namespace); 0 where that is not reported.
    pub tid: Tid,
    /// CPU that it was written on.
    pub processor: u32,
    /// When, in ticks of the stream's clock.
    pub ticks: u64,
    /// The same in nanoseconds: on Linux `CLOCK_MONOTONIC`.
    pub time: MonoNanos,
    /// The activity it belongs to; all 0: none.
    pub activity: [u8; 16],
    /// The activity that began this one; all 0: none.
    pub related_activity: [u8; 16],
    /// W3C trace id (version 6 only).
    pub trace: Option<[u8; 16]>,
    /// W3C span id (version 6 only).
    pub span: Option<u64>,
    /// Addresses of code, innermost first. Only managed frames in what .NET writes.
    pub stack: &'a [Avma],
    /// Bytes, written as [`EventMetadata::fields`] say.
    pub payload: &'a [u8],
}

impl<'a> Event<'a> {
    /// The payload's values, as far as the stream describes them.
    #[must_use]
    pub fn values(&self) -> Values<'a> {
        Values::new(&self.metadata.fields, self.payload)
    }
}
