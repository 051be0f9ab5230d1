//! What rules over all evidence look at.

use biopsy_model::capture::Capture;

use crate::analysis::Analysis;
use crate::footprint::FootprintSummary;
use crate::heap::{Growth, HeapSummary};

/// All evidence of one incident.
#[derive(Clone, Copy)]
pub(crate) struct Incident<'a> {
    /// What was recorded over time, and what it says.
    pub(crate) recorded: Option<(&'a Capture, &'a Analysis)>,
    /// Managed heaps at one moment.
    pub(crate) heaps: &'a [HeapSummary],
    /// What grew between them; `None`: there is one, or none.
    pub(crate) growth: Option<&'a Growth>,
    /// Where the memory went, at one moment each.
    pub(crate) footprints: &'a [FootprintSummary],
}
