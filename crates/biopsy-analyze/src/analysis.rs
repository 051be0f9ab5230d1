//! Everything a report of a recording draws.

use crate::completeness::Completeness;
use crate::findings::finding::Finding;
use crate::logs::LogSummary;
use crate::metrics::MetricSummary;
use crate::runtimes::RuntimeSummary;
use crate::trace::allocations::AllocationSummary;
use crate::trace::flame::Flames;
use crate::trace::function::{FunctionHandle, FunctionRow};
use crate::trace::threads::ThreadTable;
use crate::trace::waits::Waits;
use biopsy_model::MonoNanos;

/// Everything a report draws.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Analysis {
    /// The time axis all charts share: first and last moment of the recording. `None`: nothing was recorded.
    pub window: Option<(MonoNanos, MonoNanos)>,
    /// What was recorded and how whole it is.
    pub completeness: Completeness,
    /// Every function seen, by CPU total (then waiting total), largest first. [`FunctionHandle`]s index this table.
    pub functions: Vec<FunctionRow>,
    /// Flame graphs.
    pub flames: Flames,
    /// Threads and groups of threads.
    pub threads: ThreadTable,
    /// What waits for what, and who woke whom.
    pub waits: Waits,
    /// Who allocates native memory, and what stays. `None`: nobody watched.
    pub allocations: Option<AllocationSummary>,
    /// Metrics in brief, with the intervals worth looking at.
    pub metrics: MetricSummary,
    /// Log lines of interest.
    pub logs: LogSummary,
    /// What the runtimes of the tree said of themselves.
    pub runtimes: Vec<RuntimeSummary>,
    /// What an expert would say, the most important first. Never empty.
    pub findings: Vec<Finding>,
}

impl Analysis {
    /// The row of a function.
    #[must_use]
    pub fn function(&self, handle: FunctionHandle) -> Option<&FunctionRow> {
        self.functions.get(handle.0 as usize)
    }
}
