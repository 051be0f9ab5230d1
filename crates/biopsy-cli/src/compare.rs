//! What may be typed after `biopsy compare`.

use std::path::PathBuf;

use clap::Args;

use crate::symbols::SymbolArgs;

/// Say what got slower or faster between two recordings of one program: functions, waits, locks, requests; in rates, with the noise, and
/// nothing that is below it. Of heap snapshots: what grew, by type and by who holds it.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The earlier one, or the good one: a bundle, a recording's folder, a perf.data file.
    pub before: PathBuf,
    /// The later one, or the bad one. Of heaps none is needed where the first is a recording with several snapshots, or `.gcdump` files or
    /// cores may follow.
    pub after: Vec<PathBuf>,
    /// Write the comparison as a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}
