//! Metrics in brief: the intervals in which a resource was short, and the trends of what grows.
//! The tables themselves are drawn from the recording.

use biopsy_model::MonoNanos;

/// What the metrics say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricSummary {
    /// Intervals worth looking at, in order of time; shade them in charts.
    pub notables: Vec<Notable>,
    /// Trends of the target's processes.
    pub trends: Vec<Trend>,
}

/// What is notable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NotableKind {
    /// All CPUs of the machine busy.
    CpuSaturated,
    /// The hypervisor gave CPUs to others.
    Steal,
    /// Tasks stalled for want of CPU (PSI).
    CpuPressure,
    /// Tasks stalled for want of memory (PSI).
    MemoryPressure,
    /// Tasks stalled on disk (PSI).
    IoPressure,
    /// Swapping.
    Swapping,
    /// Memory nearly used up.
    MemoryShort,
    /// The cgroup's CPU quota was used up.
    Throttled,
    /// A disk busy most of the time.
    DiskBusy,
}

/// An interval in which something was short.
#[derive(Clone, PartialEq, Debug)]
pub struct Notable {
    /// What.
    pub kind: NotableKind,
    /// From.
    pub from: MonoNanos,
    /// Until.
    pub to: MonoNanos,
    /// Table the reading is in.
    pub table: String,
    /// Column of that table.
    pub column: String,
    /// Key of the row (device, cgroup); empty where the table has none.
    pub key: String,
    /// The worst reading.
    pub worst: f64,
    /// Mean over the interval.
    pub mean: f64,
    /// One short sentence for a tool tip.
    pub text: String,
}

/// How one reading of one process went over the window (least squares).
#[derive(Clone, PartialEq, Debug)]
pub struct Trend {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Key of the row, joined by a space.
    pub key: String,
    /// First reading.
    pub first: f64,
    /// Last reading.
    pub last: f64,
    /// Change a minute.
    pub per_minute: f64,
    /// How straight the line is: r², 0 to 1.
    pub fit: f64,
    /// It grew steadily and by a noteworthy amount.
    pub growing: bool,
}
