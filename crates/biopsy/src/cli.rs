//! What may be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::capture::CaptureArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::heap::HeapArgs;
use crate::commands::kill::KillArgs;
use crate::commands::lab::HandedOn;
use crate::commands::list::ListArgs;
use crate::commands::ps::PsArgs;
use crate::commands::redact::RedactArgs;
use crate::commands::restore::RestoreArgs;
use crate::commands::symbols::SymbolArgs;
use crate::commands::verify_deletion::VerifyDeletionArgs;
use crate::config::ConfigArgs;
use crate::dump::DumpArgs;
use crate::recent::RecentArgs;
use crate::render::terminal::ColorChoice;
use crate::send::SendArgs;
use crate::snapshot::{HeapFormat, SnapshotArgs};
use crate::stacks::StacksArgs;
use crate::watch::WatchArgs;

/// Takes evidence from a living server without hurting it: a timeline trace, metrics, logs and context on one clock,
/// in one bundle, with a report that names the cause.
#[derive(Debug, Parser)]
#[command(name = "biopsy", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Say more about what biopsy itself does; twice for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Ask the command to end when this process, which started it, ends: what the watcher begins does not outlive it.
    #[arg(long, global = true, hide = true, value_name = "PID")]
    pub(crate) until_parent_ends: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a trace, metrics, logs and context of a process and its children into one bundle with a report.
    Capture(Box<CaptureArgs>),
    /// Record a timeline trace alone; attach to a process, or start a program and record it from the beginning.
    Trace(Box<CaptureArgs>),
    Dump(Box<DumpArgs>),
    Snapshot(SnapshotArgs),
    Heap(HeapArgs),
    Stacks(StacksArgs),
    /// Report on a recording (also one that was cut short), a core or minidump of any writer, a perf.data file or a profile of pprof.
    Analyze(AnalyzeArgs),
    Compare(CompareArgs),
    Explain(ExplainArgs),
    /// Write a recording in the format of another tool.
    Export(ExportArgs),
    Redact(RedactArgs),
    Send(Box<SendArgs>),
    VerifyDeletion(VerifyDeletionArgs),
    /// Start the vendor's side, where `biopsy-lab` is installed: takes in what customers send, and analyses it.
    Lab(HandedOn),
    /// Ask a customer for evidence, where `biopsy-lab` is installed.
    Request(HandedOn),
    /// Look at cases and delete them, where `biopsy-lab` is installed.
    Case(HandedOn),
    /// Read what was sent for a case, where it is, where `biopsy-lab` is installed.
    Open(HandedOn),
    #[command(hide = true)]
    Recent(RecentArgs),
    Config(ConfigArgs),
    Watch(WatchArgs),
    List(ListArgs),
    Kill(KillArgs),
    Restore(RestoreArgs),
    Ps(PsArgs),
    Doctor(DoctorArgs),
    /// Write the completions of a shell to standard output.
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder.
    Man(ManArgs),
}

/// Arguments of `analyze`.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    /// A bundle, a recording's folder, a core (plain, zstd, gzip, lz4, xz), a minidump, a perf.data file, or a profile of pprof. Several of
    /// one incident become one report: dumps of one process at several moments tell who is stuck.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print the report as Markdown.
    #[arg(long)]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A bundle, a recording's folder, a perf.data file, a profile of pprof; for heaps a core, too.
    pub(crate) file: PathBuf,
    /// The format: firefox, perfetto, pprof, speedscope, collapsed, collapsed-waits; for heaps: gcdump, heapsnapshot.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: ExportFormat,
    /// Of a heap: which snapshot of a recording. [default: the last]
    #[arg(long, value_name = "N")]
    pub(crate) snapshot: Option<u32>,
    /// Where it goes; `-`: standard output. [default: beside FILE, with the format's ending]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// A format to export to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExportFormat {
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

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder, which must exist.
    pub(crate) folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
