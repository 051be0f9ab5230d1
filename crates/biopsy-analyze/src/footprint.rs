//! Where the memory of a process went, for reports.

use biopsy_model::footprint::Footprint;

/// What a report shows of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FootprintSummary {
    /// Of the process, for headings.
    pub name: String,
    /// What was found.
    pub facts: Footprint,
}
