//! What may be typed after `biopsy export`.

use std::path::PathBuf;

use biopsy_capture::snapshot::HeapFormat;
use clap::Args;

use crate::symbols::SymbolArgs;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A bundle, a recording's folder, a perf.data file, a profile of pprof; for heaps a core, too.
    pub file: PathBuf,
    /// The format: firefox, perfetto, pprof, speedscope, collapsed, collapsed-waits; for heaps: gcdump, heapsnapshot, and pprof
    /// where `--snapshot` is given, or nothing was recorded over time.
    #[arg(long, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// Of a heap: which snapshot of a recording. [default: the last]
    #[arg(long, value_name = "N")]
    pub snapshot: Option<u32>,
    /// Where it goes; `-`: standard output. [default: beside FILE, with the format's ending]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

/// A format to export to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// Of a trace.
    Trace(biopsy_report::export::Format),
    /// Of a heap.
    Heap(HeapFormat),
}

impl std::str::FromStr for ExportFormat {
    type Err = biopsy_report::export::UnknownFormat;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "gcdump" => Ok(Self::Heap(HeapFormat::GcDump)),
            "heapsnapshot" => Ok(Self::Heap(HeapFormat::HeapSnapshot)),
            _ => name.parse().map(Self::Trace),
        }
    }
}
