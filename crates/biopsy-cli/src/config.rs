//! What may be typed after `biopsy config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Look at the settings of `biopsy watch` and change them.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// What is done with them.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What may be done with settings.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
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
