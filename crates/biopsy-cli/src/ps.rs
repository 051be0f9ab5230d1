//! What may be typed after `biopsy ps`.

use clap::Args;

/// Show the processes as a tree: runtime, CPU, memory, threads, up-time, and what can be captured.
#[derive(Clone, Debug, Args)]
pub struct PsArgs {
    /// Only processes with this text in their name, arguments, unit or container id (or with this pid), and their
    /// children.
    pub filter: Option<String>,
    /// Kernel threads too.
    #[arg(long)]
    pub kernel: bool,
    /// For programs: one JSON document.
    #[arg(long)]
    pub json: bool,
}
