//! What may be typed after `biopsy watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::typed::duration;

/// Stand by: record processes as the settings say, when they start or when something happens to them.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Use this file of settings alone. [default: those of the machine, and over them those of this user]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where results go. [default: as the settings say]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// End after this; all that was begun ends with it. [default: as the settings say, or 24 h]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) length: Option<Duration>,
    /// Say which processes the rules are about now, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Stand by as a service of systemd, from now on and after each start of the machine: writes the unit and starts it.
    #[arg(long, conflicts_with_all = ["dry_run", "json", "uninstall"])]
    pub(crate) install: bool,
    /// Stop the service and remove it. Settings and results stay.
    #[arg(long, conflicts_with_all = ["dry_run", "json", "config", "output", "length"])]
    pub(crate) uninstall: bool,
    /// The service of this user, not that of the machine. [default for all but root]
    #[arg(long)]
    pub(crate) user: bool,
    /// Ask or steer the service.
    #[arg(value_enum, value_name = "SERVICE", conflicts_with_all = ["dry_run", "json", "config", "output", "length", "install", "uninstall"])]
    pub(crate) verb: Option<ServiceVerb>,
    /// For programs: one JSON object a line, for each thing that happens.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the service is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ServiceVerb {
    /// Does it run, since when, and what it said last.
    Status,
    /// Stop it until it is started, or the machine is.
    Stop,
    /// Start it again.
    Start,
    /// What it said.
    Logs,
}
