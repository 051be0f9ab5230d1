//! The command line as types: what may be typed, with its help, and the plans that are made of it.
//!
//! Each verb has a file. Its `Args` say what may be typed; where the verb does something, `plan` makes of them what
//! `biopsy-capture` or `biopsy-standby` does, or says what does not fit together. Completions and manual pages are made from
//! [`Cli`], and commands of rules are held against it ([`standing::check`]) before a watcher starts them.
//!
//! Nothing is done here. Of the machine it reads what was typed elsewhere: a link, or what comes through the gate, on standard input.

#![forbid(unsafe_code)]

mod analyze;
mod capture;
mod compare;
mod config;
mod doctor;
mod dump;
mod explain;
mod export;
mod heap;
mod kill;
mod lab;
mod list;
mod logs;
mod open;
mod ps;
mod recent;
mod redact;
mod restore;
mod send;
mod shell;
mod snapshot;
mod stacks;
pub mod standing;
mod symbols;
mod typed;
mod verify_deletion;
mod watch;

pub use analyze::AnalyzeArgs;
pub use capture::CaptureArgs;
pub use compare::CompareArgs;
pub use config::ConfigArgs;
pub use config::ConfigCommand;
pub use doctor::DoctorArgs;
pub use dump::DumpArgs;
pub use explain::ExplainArgs;
pub use export::{ExportArgs, ExportFormat};
pub use heap::HeapArgs;
pub use heap::Question;
pub use kill::KillArgs;
pub use lab::HandedOn;
pub use list::ListArgs;
pub use logs::{Around, Level, LogsArgs};
pub use open::OpenFromArgs;
pub use ps::PsArgs;
pub use recent::RecentArgs;
pub use redact::RedactArgs;
pub use restore::RestoreArgs;
pub use send::SendArgs;
pub use shell::{CompletionsArgs, ManArgs};
pub use snapshot::SnapshotArgs;
pub use stacks::StacksArgs;
pub use symbols::SymbolArgs;
pub use typed::typed;
pub use verify_deletion::VerifyDeletionArgs;
pub use watch::ServiceVerb;
pub use watch::WatchArgs;

use biopsy_terminal::ColorChoice;
use clap::{Parser, Subcommand};

/// Takes evidence from a living server without hurting it: a timeline trace, metrics, logs and context on one clock,
/// in one bundle, with a report that names the cause.
#[derive(Debug, Parser)]
#[command(name = "biopsy", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Say more about what biopsy itself does; twice for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Ask the command to end when this process, which started it, ends: what the watcher begins does not outlive it.
    #[arg(long, global = true, hide = true, value_name = "PID")]
    pub until_parent_ends: Option<u32>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
#[expect(
    missing_docs,
    reason = "what a verb does is said at its arguments: here it would take the place of their help"
)]
pub enum Command {
    /// Record a trace, metrics, logs and context of a process and its children into one bundle with a report.
    Capture(Box<CaptureArgs>),
    /// Record a timeline trace alone; attach to a process, or start a program and record it from the beginning.
    Trace(Box<CaptureArgs>),
    Dump(Box<DumpArgs>),
    Snapshot(SnapshotArgs),
    Heap(HeapArgs),
    Logs(LogsArgs),
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
    /// Read what was sent for a case: where it is, where `biopsy-lab` is installed; or `--from` a lab that has no key to it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
