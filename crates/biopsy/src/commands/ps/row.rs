//! A row of `biopsy ps`.

use biopsy_target::{Allowed, Surveyed};

/// A process with its CPU use over the interval.
pub(super) struct Row {
    pub(super) process: Surveyed,
    /// `None`: it started within the interval.
    pub(super) cores: Option<f64>,
    /// Whether its runtime can be asked for its events; `None`: it is none of .NET.
    pub(super) events: Option<Allowed>,
}
