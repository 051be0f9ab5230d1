//! What may be typed after `biopsy analyze`.

use std::path::PathBuf;

use clap::Args;

use crate::symbols::SymbolArgs;

/// Arguments of `analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// A bundle, a recording's folder, a core (plain, zstd, gzip, lz4, xz), a minidump, a perf.data file, or a profile of pprof. Several of
    /// one incident become one report: dumps of one process at several moments tell who is stuck.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print the report as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}
