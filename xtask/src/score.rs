//! `cargo xtask score`: how often the first finding is the cause, on programs whose cause is known.
//!
//! The programs are those of `fixtures/sick/`; each is built, started, looked at as its truth file says, and ended, one after the
//! other. Needs root, as biopsy does for most of it; a language that is not on the machine is skipped.

mod build;
mod corpus;
mod grade;
pub(crate) mod leaks;
mod observation;
mod observe;
mod running;
mod table;
mod truth;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use regex::Regex;

use crate::run::{Outcome, release_program, target_folder};
use build::{Tools, build};
use corpus::{Half, Specimen, contradictions, find_specimens, unknown_ids};
use observation::Observation;
use running::Stop;
use table::{Expected, Graded, render_json, render_table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only programs whose name (`first/c/ledger`) matches
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Only programs that were written before the rules (`first`), that were opened for tuning later (`second`), or that are held out
    /// (`third`, `fourth`)
    #[arg(long)]
    half: Option<Half>,
    /// Look at running programs in this way instead of what their truth files say: `capture 5s` is what is typed first. Those that
    /// end while they are watched are left out
    #[arg(long, value_name = "OBSERVATION", value_parser = |text: &str| Observation::try_from(text.to_owned()))]
    observe: Option<Observation>,
    /// Which biopsy [default: the release build]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Build and list the programs, and look at none
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let all = find_specimens(options.half)?;
    let mut wrong = contradictions(&all);
    wrong.extend(unknown_ids(&all)?);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let is_wanted =
        |specimen: &Specimen| options.only.as_ref().is_none_or(|only| only.is_match(&specimen.name));
    let mut specimens: Vec<Specimen> = all.into_iter().filter(is_wanted).collect();
    if let Some(observation) = &options.observe {
        specimens.retain(|specimen| !specimen.truth.observe.is_triggered());
        specimens.iter_mut().for_each(|specimen| specimen.truth.observe = observation.clone());
    }
    let folder = target_folder()?.join("sick");
    let stop = Stop::listen()?;
    let (built, skipped) = build_all(specimens, &folder, &stop)?;
    if options.build {
        built.iter().for_each(|(specimen, _)| println!("{:<40} {}", specimen.name, specimen.truth.cause));
        return Ok(());
    }
    let program = program_of(options.program.as_deref())?;
    let reports = folder.join("reports");
    std::fs::create_dir_all(&reports)
        .map_err(|error| format!("cannot make `{}`: {error}", reports.display()))?;
    let mut results = Vec::new();
    for (specimen, command) in &built {
        if stop.asked() {
            break;
        }
        let began = Instant::now();
        let report = reports.join(format!("{}.json", specimen.name.replace('/', "-")));
        let found = observe::observe(&program, specimen, command, &folder.join("run"), &report, &stop);
        let graded = graded(specimen, found);
        if stop.asked() {
            break;
        }
        let first = graded.first.as_ref().map_or("-", |first| first.id.as_str());
        let word = if graded.grade.right { "right" } else { "WRONG" };
        println!("{word} {:<36} {first:<24} {:.1} s", specimen.name, began.elapsed().as_secs_f64());
        results.push(graded);
    }
    println!("\n{}", render_table(&results));
    if !skipped.is_empty() {
        println!("skipped: {}", skipped.join(", "));
    }
    let file = folder.join("score.json");
    std::fs::write(&file, render_json(&program.display().to_string(), &results, &skipped))
        .map_err(|error| format!("`{}`: {error}", file.display()))?;
    stop.check()
}

/// A specimen with the command that runs it.
type Built = (Specimen, Command);

/// What was built, and the names of those whose language is not there.
fn build_all(specimens: Vec<Specimen>, folder: &Path, stop: &Stop) -> Outcome<(Vec<Built>, Vec<String>)> {
    let mut tools = BTreeMap::new();
    let mut built = Vec::new();
    let mut skipped = Vec::new();
    for specimen in specimens {
        stop.check()?;
        let language = specimen.truth.language;
        let Some(tools) = tools.entry(language).or_insert_with(|| Tools::of(language)) else {
            skipped.push(specimen.name);
            continue;
        };
        let command = build(&specimen, tools, &folder.join("programs"))
            .map_err(|error| format!("{}: {error}", specimen.name))?;
        built.push((specimen, command));
    }
    Ok((built, skipped))
}

/// The program that is asked for, or the release build.
fn program_of(asked: Option<&Path>) -> Outcome<PathBuf> {
    match asked {
        Some(program) => program.canonicalize().map_err(|error| format!("`{}`: {error}", program.display())),
        None => release_program(),
    }
}

fn graded(specimen: &Specimen, found: Outcome<Vec<grade::Finding>>) -> Graded {
    let truth = &specimen.truth;
    let (findings, failure) = match found {
        Ok(findings) => (findings, None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    Graded {
        name: specimen.name.clone(),
        language: truth.language,
        class: truth.class,
        grade: grade::grade(truth, &findings),
        first: grade::first(&findings).cloned(),
        failure,
        expected: Expected::from(truth),
    }
}
