//! The promised numbers of SPECIFICATION.md, measured side by side with perf and samply in one run.

mod attaching;
mod bars;
mod catching;
mod compressing;
mod dotnet;
mod dumping;
mod facts;
mod following;
mod heap;
mod killing;
mod nettrace;
mod recorder;
mod scrubbing;
mod serving;
mod statistics;
mod table;
mod weather;

use std::path::{Path, PathBuf};

use crate::run::{Outcome, release_program, target_folder};
use recorder::{Kind, Tools};
use table::Table;

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
    /// Only these recorders: `none`, `states`, `biopsy`, `perf`, `samply`; of a .NET server `trace`, `capture`, `requests`, `debug`,
    /// `dotnet-trace`
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
        self.wants_named(kind.key())
    }

    fn wants_named(&self, recorder: &str) -> bool {
        self.recorders.is_empty() || self.recorders.iter().any(|one| one == recorder)
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
