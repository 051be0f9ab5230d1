//! What rules need of the trace beyond the tables of an analysis.

use super::costs::CostSum;
use super::managed_waits::ManagedWaitSum;
use super::wait_sums::WaitFacts;
use biopsy_model::Nanos;

/// Sums that no table shows.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) waits: WaitFacts,
    /// CPU time below the heading `kernel: scheduling`.
    pub(crate) scheduling: Nanos,
    /// CPU time with a kernel function innermost, scheduling included.
    pub(crate) kernel: Nanos,
    /// What CPU time goes to besides the program's own work, most time first.
    pub(crate) costs: Vec<CostSum>,
    /// How threads of a managed runtime wait.
    pub(crate) managed: Vec<ManagedWaitSum>,
}
