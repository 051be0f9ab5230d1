//! What may be typed after `biopsy stacks`.

use std::time::Duration;

use clap::Args;

use crate::typed::duration;

/// Show the stacks of all threads of a process now, with a pause of milliseconds: managed and native frames in one stack, equal
/// stacks together, locks and deadlocks, the thread pool, asynchronous operations. Works when the process hangs.
#[derive(Debug, Args)]
pub struct StacksArgs {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// The processes below it, too, one after the other.
    #[arg(long, conflicts_with = "looks")]
    pub tree: bool,
    /// One stack for each thread. [default: equal stacks are shown once]
    #[arg(long, conflicts_with = "grouped")]
    pub all: bool,
    /// Equal stacks once, with the threads that stand in them; the default.
    #[arg(long)]
    pub grouped: bool,
    /// Show native frames of managed threads too, and what compilers and the runtime add to stacks. [default: native frames
    /// inside of managed code are put together, the glue of async methods is left out]
    #[arg(long)]
    pub native: bool,
    /// Frames of one stack at most; what is left out is counted.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub frames: usize,
    /// Do not look at the managed heap: no asynchronous operations.
    #[arg(long)]
    pub no_heap: bool,
    /// Refuse if the process would have to stand still longer than this.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub max_pause: Duration,
    /// Look so many times, and say which threads did not run in between: these are stuck, or have nothing to do; a wait that came anew
    /// each time is no hang. The process stands still for each look.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub looks: u8,
    /// Time between two looks.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub every: Duration,
    /// For programs: print the report as one JSON document.
    #[arg(long)]
    pub json: bool,
}
