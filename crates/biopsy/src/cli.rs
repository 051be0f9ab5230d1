//! What may be typed.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_record::dotnet::AppLogLevel;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::doctor::DoctorArgs;
use crate::commands::ps::PsArgs;
use crate::dump::DumpArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::ColorChoice;
use crate::snapshot::SnapshotArgs;
use crate::stacks::StacksArgs;

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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a trace, metrics, logs and context of a process and its children into one bundle with a report.
    Capture(Box<CaptureArgs>),
    /// Record a timeline trace alone; attach to a process, or start a program and record it from the beginning.
    Trace(Box<CaptureArgs>),
    Dump(Box<DumpArgs>),
    Snapshot(SnapshotArgs),
    Stacks(StacksArgs),
    /// Report on a recording (also one that was cut short), a core or minidump of any writer, or a perf.data file.
    Analyze(AnalyzeArgs),
    /// Write a recording in the format of another tool.
    Export(ExportArgs),
    Ps(PsArgs),
    Doctor(DoctorArgs),
    /// Write the completions of a shell to standard output.
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder.
    Man(ManArgs),
}

/// Arguments of `capture` and `trace`.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    #[arg(required_unless_present = "program", conflicts_with = "program")]
    pub(crate) target: Option<String>,
    /// How long: `60s`, `3m`, `1h30m`. Without it, until Ctrl-C.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Where the bundle goes; it must not exist. [default: biopsy-NAME-DATE-TIME.biopsy.zip here]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the recording as a folder instead of packing it.
    #[arg(long)]
    pub(crate) folder: bool,
    /// Do not record the processes that the target started and starts.
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Samples per second and CPU. [default: 249, for `trace` 999; less on machines with many CPUs]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) frequency: Option<u32>,
    /// Waits at least this long are written one by one; shorter ones are counted.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1ms")]
    pub(crate) wait_threshold: Duration,
    /// How often waiting threads are looked at for their stacks.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20ms", conflicts_with = "no_wait_stacks")]
    pub(crate) wait_period: Duration,
    /// Take no stacks of waiting threads.
    #[arg(long)]
    pub(crate) no_wait_stacks: bool,
    /// Use one way of tracing only, for comparisons; normally the best that works is chosen.
    #[arg(long, value_name = "METHOD", value_enum)]
    pub(crate) method: Option<Method>,
    /// Time between readings of metrics.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub(crate) metrics_every: Duration,
    /// Take these logs, cut to the time of the recording; may be repeated. Quote patterns.
    #[arg(long, value_name = "GLOB")]
    pub(crate) logs: Vec<String>,
    /// Take the journal of this systemd unit; may be repeated.
    #[arg(long, value_name = "UNIT")]
    pub(crate) journal: Vec<String>,
    /// Time before and after the recording that is taken of logs as well.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) log_margin: Duration,
    /// Of .NET processes: take log messages of this level and above, without changing what the application writes elsewhere.
    /// Trace, Debug, Information, Warning, Error, Critical, None.
    #[arg(long, value_name = "LEVEL", value_parser = log_level, default_value = "None")]
    pub(crate) log_level: AppLogLevel,
    /// Of .NET processes: only log messages of categories that begin like this; may be repeated.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) log_category: Vec<String>,
    /// Of .NET processes: each request with its status and trace id, and the application's own request log.
    #[arg(long)]
    pub(crate) requests: bool,
    /// Of .NET processes: a sample of allocations with their stacks.
    #[arg(long)]
    pub(crate) allocations: bool,
    /// Of .NET processes: counters of this EventSource, or instruments of this Meter, too; may be repeated. Meters of the
    /// application are found by themselves.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) counters: Vec<String>,
    /// Do not speak with .NET runtimes.
    #[arg(long, conflicts_with_all = ["log_category", "requests", "allocations", "counters"])]
    pub(crate) no_runtime_events: bool,
    /// At the end, freeze each process for milliseconds and read from its memory who holds which lock and what asynchronous
    /// operations await; as `biopsy stacks` does.
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Wait for this to happen before recording: what `biopsy dump --on` knows. May be repeated: any of them.
    #[arg(long = "on", value_name = "TRIGGER", conflicts_with = "program")]
    pub(crate) on: Vec<String>,
    /// Start a program (behind `--`) instead of attaching to a process; `--` alone says so too.
    #[arg(long, conflicts_with = "target", requires = "program")]
    pub(crate) launch: bool,
    /// Stop when the recording has this many megabytes.
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    pub(crate) max_size: u64,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Start this program with its arguments and record it from its first instruction.
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<std::ffi::OsString>,
}

/// Ways of tracing, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Method {
    /// Programs in the kernel count states and take samples.
    Bpf,
    /// Events of each CPU, filtered by biopsy.
    PerfPerCpu,
    /// Events of each thread.
    PerfPerTask,
    /// Events of each thread without the kernel's part.
    PerfUserOnly,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Bpf => "bpf",
            Method::PerfPerCpu => "perf-per-cpu",
            Method::PerfPerTask => "perf-per-task",
            Method::PerfUserOnly => "perf-user-only",
        }
    }
}

/// Arguments of `analyze`.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    /// A bundle, a recording's folder, a core (plain, zstd, gzip, lz4, xz), a minidump, or a perf.data file.
    pub(crate) file: PathBuf,
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

/// Where files may be looked for that a dump or recording names.
#[derive(Debug, Args)]
pub(crate) struct SymbolArgs {
    /// Look for the programs and libraries of the process below FOLDER, at the paths that it knew; `/`: on this machine. Only
    /// those are used that are the same. Without it no file is opened because a dump names it. Can be given several times.
    #[arg(long = "symbols", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

impl SymbolArgs {
    /// The folders by names without links, which are not followed below them.
    pub(crate) fn roots(&self) -> Result<Vec<PathBuf>, Failure> {
        let real = |folder: &PathBuf| {
            std::fs::canonicalize(folder).map_err(|error| {
                Failure::new(Code::Usage, format!("cannot look for files in `{}`: {error}", folder.display()))
            })
        };
        self.folders.iter().map(real).collect()
    }
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A bundle, a recording's folder, a perf.data file; for heaps a core, too.
    pub(crate) file: PathBuf,
    /// The format: firefox, perfetto, pprof, speedscope, collapsed, collapsed-waits; for heaps: gcdump.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: ExportFormat,
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
    /// Of a heap: what PerfView, Visual Studio and dotnet-gcdump open.
    GcDump,
}

impl std::str::FromStr for ExportFormat {
    type Err = biopsy_report::export::UnknownFormat;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "gcdump" { Ok(Self::GcDump) } else { name.parse().map(Self::Trace) }
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

fn log_level(text: &str) -> Result<AppLogLevel, String> {
    AppLogLevel::parse(text)
        .ok_or_else(|| "a level is Trace, Debug, Information, Warning, Error, Critical or None".to_owned())
}

/// `90s`, `3m`, `1h30m`, `20ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|_| "a duration looks like `60s`, `3m`, `1h30m` or `20ms`".to_owned())?;
    let duration = Duration::try_from(signed).map_err(|_| "a duration is not negative".to_owned())?;
    if duration.is_zero() { Err("a duration is not zero".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert!(duration("60").is_err());
        assert!(duration("-5s").is_err());
        assert!(duration("0s").is_err());
    }
}
