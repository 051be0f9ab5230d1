//! The promised numbers of SPECIFICATION.md, measured side by side with perf and samply in one run.

mod attaching;
mod catching;
mod compressing;
mod dotnet;
mod dumping;
mod facts;
mod following;
mod heap;
mod killing;
mod nettrace;
mod proc_usage;
mod recorder;
mod scrubbing;
mod serving;
mod statistics;
mod table;

use std::path::{Path, PathBuf};

use crate::run::{Outcome, release_program, target_folder};
use recorder::{Kind, Tools};
use table::{Bar, Table};

/// How to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Few and short rounds: shows that everything runs, not what it costs
    #[arg(long)]
    quick: bool,
    /// Rounds of each workload
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each run on the server
    #[arg(long)]
    seconds: Option<f64>,
    /// Leave out the recording of five minutes
    #[arg(long)]
    no_long: bool,
    /// Only these workloads: `serving` (M), `compressing` (Z), `long`, `dumping` (D), `dumping-large`, `following` (S),
    /// `killing` (K), `catching` (L), `scrubbing`, `dotnet` (N), `dotnet-attach` (N6), `nettrace`, `heap` (H)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these recorders: `none`, `states`, `biopsy`, `perf`, `samply`
    #[arg(long, value_delimiter = ',')]
    recorders: Vec<String>,
    /// A samply 0.13.1; without it, one is built once with `cargo install`
    #[arg(long)]
    samply: Option<PathBuf>,
    /// A biopsy; without it, the release program of this repository
    #[arg(long)]
    biopsy: Option<PathBuf>,
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 8 })
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 2.0 } else { 5.0 })
    }

    fn wants_recorder(&self, kind: Kind) -> bool {
        self.recorders.is_empty() || self.recorders.iter().any(|one| one == kind.key())
    }

    fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == workload)
    }
}

/// Measures, prints the tables, writes `target/bench/bench-N.json`.
pub(crate) fn run(options: &Options) -> Outcome {
    let folder = target_folder()?.join("bench");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let tools = find_tools(options, &folder)?;
    let mut table = Table::new(facts::of_this_machine());
    println!("{}", table.facts());
    if options.wants("serving") {
        serving::measure(&tools, options, &mut table)?;
    }
    if options.wants("compressing") {
        compressing::measure(&tools, options, &mut table)?;
    }
    if options.wants("long") && !options.quick && !options.no_long {
        serving::measure_long(&tools, &mut table)?;
    }
    if options.wants("dumping") {
        dumping::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("dumping-large") && !options.quick && !options.no_long {
        dumping::measure_large(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("following") {
        following::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("killing") {
        killing::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("catching") {
        catching::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("scrubbing") {
        scrubbing::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("heap") {
        heap::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("dotnet") {
        dotnet::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("dotnet") || options.wants("dotnet-attach") {
        attaching::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("nettrace") {
        nettrace::measure(&tools.biopsy, options, &mut table)?;
    }
    println!("{}", table.summary());
    let file = fresh_file(&folder)?;
    std::fs::write(&file, table.json())
        .map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

fn find_tools(options: &Options, folder: &Path) -> Outcome<Tools> {
    let biopsy = match &options.biopsy {
        Some(path) => path.clone(),
        None => release_program()?,
    };
    let mut tools = Tools { biopsy, perf: None, samply: None };
    if !["serving", "compressing", "long"].iter().any(|workload| options.wants(workload)) {
        return Ok(tools);
    }
    if options.wants_recorder(Kind::Perf) {
        tools.perf = recorder::find_perf();
    }
    if options.wants_recorder(Kind::Samply) {
        tools.samply = recorder::find_samply(options.samply.as_deref(), folder);
    }
    for (peer, found) in [("perf", &tools.perf), ("samply", &tools.samply)] {
        if found.is_none() {
            println!("note: without {peer}");
        }
    }
    Ok(tools)
}

/// The recorders that take part, in the order of a round.
fn kinds(tools: &Tools, options: &Options) -> Vec<Kind> {
    let mut kinds = vec![Kind::None, Kind::States, Kind::WaitStacks];
    kinds.extend(tools.perf.is_some().then_some(Kind::Perf));
    kinds.extend(tools.samply.is_some().then_some(Kind::Samply));
    kinds.retain(|kind| options.wants_recorder(*kind));
    kinds
}

fn fresh_file(folder: &Path) -> Outcome<PathBuf> {
    (1..)
        .map(|number: u32| folder.join(format!("bench-{number}.json")))
        .find(|path| !path.exists())
        .ok_or_else(|| "no free name".to_owned())
}

/// Bars of SPECIFICATION.md, by row number.
const BARS: &[Bar] = &[
    Bar {
        row: "1",
        what: "M throughput with states and wake-ups, share of unrecorded",
        least: true,
        value: 0.90,
    },
    Bar { row: "2a", what: "the same, times that under perf -p", least: true, value: 1.4 },
    Bar { row: "2b", what: "the same, times that under samply", least: true, value: 1.4 },
    Bar {
        row: "3",
        what: "M throughput with wait stacks too, share of unrecorded",
        least: true,
        value: 0.85,
    },
    Bar { row: "4", what: "Z work per CPU second, share of unrecorded", least: true, value: 0.97 },
    Bar { row: "5", what: "recorder CPU on M, cores", least: false, value: 0.10 },
    Bar { row: "6", what: "output on M, MB/s", least: false, value: 0.5 },
    Bar { row: "7", what: "output on Z, KB/s", least: false, value: 30.0 },
    Bar { row: "8", what: "stop to result, short run of M, s", least: false, value: 1.0 },
    Bar { row: "9", what: "stop to result, 5 min of M, s", least: false, value: 2.0 },
    Bar { row: "10", what: "stacks to the thread's root on M, %", least: true, value: 99.0 },
    Bar { row: "11", what: "recorder memory, 5 min of M, MB", least: false, value: 100.0 },
    Bar { row: "12", what: "change of M's 99th percentile at attach, ms", least: false, value: 5.0 },
    Bar {
        row: "D1a",
        what: "pause inside the target, 4 KiB pages, share of gcore's",
        least: false,
        value: 0.04,
    },
    Bar { row: "D1b", what: "the same, share of createdump's", least: false, value: 0.04 },
    Bar { row: "D1c", what: "the same, ms", least: false, value: 25.0 },
    Bar { row: "D2a", what: "pause, huge pages, share of gcore's", least: false, value: 0.005 },
    Bar { row: "D2b", what: "the same, share of createdump's", least: false, value: 0.005 },
    Bar { row: "D2c", what: "the same, ms", least: false, value: 3.0 },
    Bar { row: "D2d", what: "pause after --collapse, ms", least: false, value: 3.0 },
    Bar { row: "D3a", what: "pause of 4 GiB, ns a present page", least: false, value: 90.0 },
    Bar { row: "D3b", what: "pause of 16 GiB, ns a present page", least: false, value: 90.0 },
    Bar { row: "D3c", what: "predicted pause by measured pause, worst of all", least: false, value: 2.0 },
    Bar { row: "D3d", what: "the same, 4 and 16 GiB", least: false, value: 2.0 },
    Bar { row: "D4", what: "raw dump of a quiet target, time by gcore's", least: false, value: 1.2 },
    Bar {
        row: "D5",
        what: "compressed dump, time by zstd of the same bytes on all cores",
        least: false,
        value: 1.2,
    },
    Bar { row: "D6", what: "compressed size by gcore's", least: false, value: 0.35 },
    Bar {
        row: "D6b",
        what: "compressed size of a .NET server of 70 to 90 MB, MB",
        least: false,
        value: 20.0,
    },
    Bar { row: "D7", what: "memory of biopsy, MB", least: false, value: 64.0 },
    Bar { row: "D7b", what: "memory of biopsy, 4 and 16 GiB, MB", least: false, value: 64.0 },
    Bar { row: "D8a", what: "scrubbing, memory of a .NET server, GB/s and core", least: true, value: 2.0 },
    Bar { row: "D8b", what: "the same, libraries", least: true, value: 2.0 },
    Bar { row: "D8c", what: "the same, source text", least: true, value: 2.0 },
    Bar {
        row: "D9",
        what: "targets harmed by SIGKILL of biopsy at random moments",
        least: false,
        value: 0.0,
    },
    Bar {
        row: "D10",
        what: "calls of the target that were broken off, worst of all",
        least: false,
        value: 0.0,
    },
    Bar { row: "D11", what: "launches of 1 ms that were caught, share", least: true, value: 1.0 },
    Bar {
        row: "D12a",
        what: "work of a target without signals that is followed, share of unfollowed",
        least: true,
        value: 0.98,
    },
    Bar { row: "D12b", what: "the same with 1,000 signals a second", least: true, value: 0.85 },
    Bar {
        row: "N1a",
        what: "ASP.NET Core at saturation under capture, share of unrecorded",
        least: true,
        value: 0.92,
    },
    Bar { row: "N1b", what: "the same, times that under dotnet-trace", least: true, value: 1.0 },
    Bar {
        row: "N2",
        what: "the same with every request's events, share of unrecorded",
        least: true,
        value: 0.88,
    },
    Bar {
        row: "N3a",
        what: "CPU per request of a server that waits, times unrecorded",
        least: false,
        value: 1.08,
    },
    Bar { row: "N3b", what: "the same, times that under dotnet-trace", least: false, value: 1.0 },
    Bar {
        row: "N4",
        what: "stacks of the saturated server to the thread's root, %",
        least: true,
        value: 99.0,
    },
    Bar { row: "N6a", what: "first sample after the command, ms", least: false, value: 300.0 },
    Bar {
        row: "N6b",
        what: "change of the 99th percentile of requests while attaching, ms",
        least: false,
        value: 5.0,
    },
    Bar { row: "N6c", what: "the same while detaching, ms", least: false, value: 5.0 },
    Bar { row: "N7a", what: "reading nettrace on one core, MB/s", least: true, value: 300.0 },
    Bar { row: "N7b", what: "`analyze` of 1,000 MiB of nettrace, MB of memory", least: false, value: 150.0 },
    Bar { row: "N8", what: "its counts equal to nettrace-check's (1: yes)", least: true, value: 1.0 },
    Bar {
        row: "H1",
        what: "pause of a heap snapshot of 10^7 objects, times dotnet-gcdump's",
        least: false,
        value: 0.034,
    },
    Bar { row: "H2", what: "whole command, times dotnet-gcdump's", least: false, value: 0.334 },
    Bar { row: "H3", what: "most memory of biopsy, bytes per object", least: false, value: 40.0 },
    Bar {
        row: "H4",
        what: "types of a core with 10^7 objects, times dotnet-dump's time",
        least: false,
        value: 0.334,
    },
    Bar { row: "H6", what: "`biopsy stacks` of a server with 200 threads, s", least: false, value: 1.0 },
    Bar { row: "H7", what: "its pause in the server, ms", least: false, value: 10.0 },
];
