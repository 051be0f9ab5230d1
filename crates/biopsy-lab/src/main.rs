//! `biopsy-lab`: the program of the vendor. `biopsy lab`, `biopsy request` and `biopsy case` start it.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

use biopsy_lab::error::in_words;
use biopsy_lab::worker;
use biopsy_terminal::out;
use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The worker has one thread when it is fenced in; nothing of the lab is open in it.
    if let Command::Worker { file } = &cli.command {
        return match worker::run(file) {
            Ok(bytes) if out::hand_over(&bytes).is_ok() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(words) => {
                out::say(words);
                ExitCode::FAILURE
            }
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out::say(format!("error: cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(cli::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::say(format!("error: {}", in_words(&error)));
            if let Some(hint) = error.hint() {
                out::say(format!("hint: {hint}"));
            }
            if error.is_of_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
