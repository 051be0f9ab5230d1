//! The program: parse, plan, run, render.
//!
//! The only crate that prints, exits, or picks a logger.

#![forbid(unsafe_code)]

mod capture;
mod commands;
mod config;
mod dump;
mod recent;
mod render;
mod running;
mod send;
mod snapshot;
mod stacks;
mod watch;

use std::process::ExitCode;

use biopsy_capture::Failure;
use clap::Parser;

use biopsy_cli::{Cli, Command};
use biopsy_foreground::{Code, interrupt, out};
use biopsy_terminal::{ColorChoice, Terminal};

fn main() -> ExitCode {
    out::say_panics();
    running::end_where_a_thread_gets_no_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return say_usage(&error),
    };
    start_logging(cli.verbose);
    if cli.until_parent_ends.is_some_and(|parent| !interrupt::end_with(parent)) {
        return Code::Partial.into();
    }
    let result = run(&cli);
    interrupt::settle();
    match result {
        Ok(code) => code.into(),
        Err(failure) => {
            out::say_failure(&failure, cli.color);
            Code::from(failure.kind).into()
        }
    }
}

/// Help, the version, or what is wrong with what was typed: names of files among it may be anybody's.
fn say_usage(error: &clap::Error) -> ExitCode {
    let choice = ColorChoice::Auto;
    let terminal = if error.use_stderr() { Terminal::of_stderr(choice) } else { Terminal::of_stdout(choice) };
    let text = error.render();
    let text = if terminal.colour { text.ansi().to_string() } else { text.to_string() };
    if error.use_stderr() {
        out::to_stderr(&text, terminal.colour);
        return Code::Usage.into();
    }
    out::text(&text, terminal.colour).unwrap_or(Code::Output).into()
}

/// The outline of the program.
fn run(cli: &Cli) -> Result<Code, Failure> {
    let terminal = Terminal::of_stdout(cli.color);
    match &cli.command {
        Command::Recent(args) => recent::run(args, cli.color),
        Command::Config(args) => config::run(args, terminal),
        Command::Watch(args) => watch::run(args, cli.color),
        Command::List(args) => commands::list(args, terminal),
        Command::Kill(args) => commands::kill(args),
        Command::Restore(args) => commands::restore(args),
        Command::Ps(args) => commands::ps(args, terminal),
        Command::Doctor(args) => commands::doctor(args, terminal),
        Command::Capture(args) => capture::run(args, false, cli.color),
        Command::Trace(args) => capture::run(args, true, cli.color),
        Command::Dump(args) => dump::run(args, cli.color),
        Command::Snapshot(args) => snapshot::run(args, cli.color),
        Command::Stacks(args) => stacks::run(args, cli.color),
        Command::Analyze(args) => commands::analyze(args, terminal),
        Command::Logs(args) => commands::logs(args, terminal),
        Command::Heap(args) => commands::heap(args, terminal),
        Command::Compare(args) => commands::compare(args, terminal),
        Command::Explain(args) => commands::explain(args, terminal),
        Command::Export(args) => commands::export(args),
        Command::Redact(args) => commands::redact(args, cli.color),
        Command::Send(args) => send::send(args, cli.color),
        Command::VerifyDeletion(args) => commands::verify_deletion(args),
        Command::Lab(args) => commands::lab(commands::lab_verb(args), args),
        Command::Request(args) => commands::lab(&["request"], args),
        Command::Case(args) => commands::lab(&["case"], args),
        Command::Open(args) => commands::open(args),
        Command::Completions(args) => commands::completions(args),
        Command::Man(args) => commands::man(args),
    }
}

/// Logs are for those who work on biopsy; what users should know is in the output.
fn start_logging(verbose: u8) {
    let level = ["warn", "info", "debug", "trace"][usize::from(verbose.min(3))];
    let filter = tracing_subscriber::EnvFilter::try_from_env("BIOPSY_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| out::Log)
        .with_ansi(false)
        .log_internal_errors(false)
        .without_time()
        .init();
}
