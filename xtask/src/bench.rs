//! The promised numbers of SPECIFICATION.md, measured side by side with perf and samply in one run.

mod attaching;
mod bars;
mod cases;
mod catching;
mod compressing;
mod delivery;
mod dotnet;
mod dumping;
mod facts;
mod following;
mod heap;
mod killing;
mod nettrace;
mod options;
mod recorder;
mod scrubbing;
mod serving;
mod statistics;
mod table;
mod watching;
mod weather;

use std::path::{Path, PathBuf};

pub(crate) use options::Options;

use crate::redaction;
use crate::run::{Outcome, release_program, target_folder};
use recorder::{Kind, Tools};
use table::Table;

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
    if options.wants("watch") {
        watching::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("delivery") {
        delivery::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("cases") {
        cases::measure(options, &mut table)?;
    }
    if options.wants("nettrace") {
        nettrace::measure(&tools.biopsy, options, &mut table)?;
    }
    if options.wants("redaction") && !options.quick {
        redaction::run(&redaction::Options::usual())?;
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

fn fresh_file(folder: &Path) -> Outcome<PathBuf> {
    (1..)
        .map(|number: u32| folder.join(format!("bench-{number}.json")))
        .find(|path| !path.exists())
        .ok_or_else(|| "no free name".to_owned())
}
