//! Two recordings of one program held against each other: what got slower or faster, and what the noise would hide.
//!
//! ```text
//! Capture ─► slices: each quantity, by slices of time ─► noise: how much a mean wavers ─┐
//! Capture ─► slices ─► noise ───────────────────────────────────────────────────────────┴► judge: differences
//! ```
//!
//! Everything is a rate: per second, or per request where both recordings counted requests, so that the length of a recording does not
//! matter. The noise is estimated from inside of each recording; a difference below it is not claimed.

mod beside;
mod comparable;
mod difference;
mod judge;
mod noise;
mod remarks;
mod request;
mod slices;
mod tree;

use biopsy_model::MonoNanos;

use crate::recorded::Recorded;

pub use comparable::{Comparable, NotComparable, Together};
pub use difference::{Difference, Quantity, Unit};
pub use tree::{DifferenceNode, DifferenceTree};

/// Two recordings held against each other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    /// The earlier, or the good one.
    pub before: Side,
    /// The later, or the bad one.
    pub after: Side,
    /// What rates are per.
    pub unit: Unit,
    /// Differences that are claimed: those that cost most time first.
    pub differences: Vec<Difference>,
    /// The largest quantities of which no difference is claimed, with the noise that one would have to exceed.
    pub unchanged: Vec<Difference>,
    /// How many quantities were compared.
    pub compared: usize,
    /// CPU time by call, of both.
    pub cpu: DifferenceTree,
    /// What a reader should know before believing any of it.
    pub remarks: Vec<String>,
    /// Why nothing is claimed at all, where nothing can be.
    pub refused: Option<String>,
}

/// One of the two recordings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Side {
    /// Name of its target.
    pub name: String,
    /// Its length.
    pub seconds: f64,
    /// When it began, on its machine.
    pub start: MonoNanos,
    /// The same on the wall clock, nanoseconds since 1970 in UTC; 0: not known.
    pub start_unix_nanos: i128,
    /// CPU in use, in cores.
    pub cores: f64,
    /// CPU samples.
    pub samples: u64,
    /// Requests that were answered; `None`: they were not counted.
    pub requests: Option<u64>,
}

/// Holds two recordings against each other.
#[must_use]
pub fn compare(before: &Recorded, after: &Recorded) -> Comparison {
    let (first, second) = (slices::read(before), slices::read(after));
    let unit = match (first.requests, second.requests) {
        (Some(one), Some(other)) if one >= request::ENOUGH && other >= request::ENOUGH => Unit::Request,
        _ => Unit::Second,
    };
    let (mut remarks, refused) = remarks::about(before, after, &first, &second);
    let judged = judge::judge(&first, &second, unit, request::times(before, after));
    remarks.extend(judged.rest.and_then(remarks::rest));
    let (differences, unchanged) =
        if refused.is_some() { (Vec::new(), Vec::new()) } else { (judged.claimed, judged.others) };
    Comparison {
        before: side(before, &first),
        after: side(after, &second),
        unit,
        differences,
        unchanged,
        compared: judged.compared,
        cpu: tree::merge(&first, &second, unit),
        remarks,
        refused,
    }
}

fn side(of: &Recorded, slices: &slices::Slices) -> Side {
    let header = &of.capture.header;
    Side {
        name: header.target_name.clone(),
        seconds: slices.seconds,
        start: header.start.mono,
        start_unix_nanos: header.start.wall_unix_nanos,
        // Of no time there is no average.
        cores: if slices.seconds > 0.0 { slices.cpu_seconds / slices.seconds } else { 0.0 },
        samples: slices.samples,
        requests: slices.requests,
    }
}

#[cfg(test)]
mod tests;
