//! Automation of this repository: `cargo xtask COMMAND`.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal of developers and CI"
)]

mod bench;
mod catalogue;
mod ci;
mod comparisons;
mod controls;
mod demo;
mod dist;
mod distribution;
mod faults;
mod fixtures;
mod fuzz;
mod kills;
mod observe;
mod redaction;
mod run;
mod score;
mod tidy;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Automation of this repository")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything CI checks: formatting, lints, rules of the repository, documents, fuzz targets, tests
    Ci,
    /// The repository's own rules: module lines, crate edges, lists, machine paths, licences
    Tidy(tidy::Options),
    /// The catalogue of findings in the guide, made anew from the texts of the findings
    Catalogue(catalogue::Options),
    /// The promised numbers, side by side with perf and samply
    Bench(bench::Options),
    /// biopsy is killed at random moments beside six servers under load
    Kills(kills::Options),
    /// Recordings of the same load compared, and of one with a function made slower: what `biopsy compare` claims
    Comparisons(comparisons::Options),
    /// Each control of docs/security.md taken away: its test has to fail
    Controls(controls::Options),
    /// A private MariaDB under load, captured
    Demo(demo::Options),
    /// Each verb with its 1st, 2nd ... n-th system call failing: nothing harmed, nothing lost in silence, nothing left
    Faults(faults::Options),
    /// How often the first finding is the cause, on the programs of `fixtures/sick`
    Score(score::Options),
    /// Seeded leaks and healthy growers of `fixtures/leaks`: whether the first finding names holder, type and allocating function
    Leaks(score::leaks::Options),
    /// How many planted secrets of `fixtures/secrets` the redactor masks, and what it does to clean text
    Redaction(redaction::Options),
    /// Fuzz targets, with the stable compiler
    Fuzz(fuzz::Options),
    /// The same on other kernels and processors, in emulated machines
    Vm(vm::Options),
    /// README's commands in a fresh root of another distribution
    Distribution(distribution::Options),
    /// Rebuilds what is in fixtures/
    Fixtures,
    /// The program as it is given away: one file, its digest, completions and manual pages
    Dist(dist::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ci => ci::run(),
        Command::Tidy(options) => tidy::run(options),
        Command::Catalogue(options) => catalogue::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Kills(options) => kills::run(&options),
        Command::Comparisons(options) => comparisons::run(&options),
        Command::Controls(options) => controls::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Score(options) => score::run(&options),
        Command::Leaks(options) => score::leaks::run(&options),
        Command::Redaction(options) => redaction::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Vm(options) => vm::run(&options),
        Command::Distribution(options) => distribution::run(&options),
        Command::Fixtures => fixtures::run(),
        Command::Dist(options) => dist::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
