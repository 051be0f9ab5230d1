//! `biopsy config`: the settings of what stands by.

mod edit;
mod show;

use std::path::PathBuf;

use biopsy_capture::Failure;
use biopsy_standby::settings;
use clap::{Args, Subcommand};

use biopsy_foreground::Code;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;
use crate::standing::check;

/// Look at the settings of `biopsy watch` and change them.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print where settings are: of the machine, and of this user, which go before.
    Path,
    /// Print the settings that hold, and the rules that they make.
    Show {
        /// For each value the file, line and column that it is from, and values that have no effect because of it.
        #[arg(long)]
        origin: bool,
    },
    /// Check the settings: line, column, what is wrong, what may stand there.
    Check {
        /// Of these files, each for itself. [default: those that hold]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Change one value, and nothing else of the file: comments and order stay.
    Set {
        /// `profiling.processes.Compiler`, `watch.rules.slow.perDay` ...
        key: String,
        /// JSON, or a text as it is.
        value: String,
        /// Those of the machine, rather than of this user.
        #[arg(long)]
        machine: bool,
    },
    /// Open the settings in `$EDITOR`; what is wrong with them when it ends is said, and they are not taken over.
    Edit {
        /// Those of the machine, rather than of this user.
        #[arg(long)]
        machine: bool,
    },
    /// List the kinds of processes that are known by name.
    Kinds,
    /// Print the JSON schema, by which editors complete and check settings.
    Schema,
}

/// Runs `biopsy config`.
pub(crate) fn run(args: &ConfigArgs, terminal: Terminal) -> Result<Code, Failure> {
    match &args.command {
        ConfigCommand::Path => path(),
        ConfigCommand::Show { origin } => show::show(*origin, terminal),
        ConfigCommand::Check { files } => show::check(files),
        ConfigCommand::Set { key, value, machine } => set(key, value, *machine),
        ConfigCommand::Edit { machine } => edit::edit(*machine),
        ConfigCommand::Kinds => kinds(),
        ConfigCommand::Schema => out::document(&biopsy_watch::settings::schema()),
    }
}

fn path() -> Result<Code, Failure> {
    let mut text = String::new();
    for (name, path) in settings::files(None)? {
        let there = if path.symlink_metadata().is_ok() { "" } else { " (not there)" };
        text.push_str(&format!("{name:8} {}{there}\n", path.display()));
    }
    out::text(&text, false)
}

fn set(key: &str, value: &str, machine: bool) -> Result<Code, Failure> {
    let set = settings::set(key, value, machine, &check)?;
    for warning in &set.warnings {
        out::say(format_args!("{warning}"));
    }
    out::text(&format!("{key} is {} in {}\n", set.value, set.path.display()), false)
}

fn kinds() -> Result<Code, Failure> {
    let kinds = settings::load(None, &check)?.settings.kinds;
    let line = |name: &str| match kinds.knows(name) {
        Some(true) => format!("{name}\n"),
        Some(false) | None => format!("{name} (none on Linux)\n"),
    };
    out::text(&kinds.names().map(line).collect::<String>(), false)
}
