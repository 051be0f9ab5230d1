//! What may be typed after `biopsy export`.

use std::path::PathBuf;

use clap::Args;

use crate::symbols::SymbolArgs;

/// A format of heaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapFormat {
    /// What PerfView, Visual Studio and dotnet-gcdump open.
    GcDump,
    /// What the memory panel of Chrome's DevTools opens.
    HeapSnapshot,
    /// What viewers of pprof open.
    Pprof,
}

impl HeapFormat {
    /// How names of its files end.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::GcDump => "gcdump",
            Self::HeapSnapshot => "heapsnapshot",
            Self::Pprof => "heap.pb.gz",
        }
    }

    /// What opens it.
    pub fn opens_with(self) -> &'static str {
        match self {
            Self::GcDump => "open it in PerfView or Visual Studio, or with `dotnet-gcdump report FILE`",
            Self::HeapSnapshot => "open it in the memory panel of Chrome's DevTools (`Load profile`)",
            Self::Pprof => "`go tool pprof -http : FILE`, or any other pprof viewer",
        }
    }
}

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
