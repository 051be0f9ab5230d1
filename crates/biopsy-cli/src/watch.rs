//! What may be typed after `biopsy watch`.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_standby::service::Ask;
use biopsy_standby::watch::WatchPlan;
use clap::{Args, ValueEnum};

use crate::standing::check;
use crate::typed::duration;

/// Stand by: record processes as the settings say, when they start or when something happens to them.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Use this file of settings alone. [default: those of the machine, and over them those of this user]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where results go. [default: as the settings say]
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// End after this; all that was begun ends with it. [default: as the settings say, or 24 h]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub length: Option<Duration>,
    /// Keep so much of the time before in memory, of all processes that rules are about, or of those of `--process`: for what rules
    /// record of them, for `biopsy capture NAME --recent`, and for when they end badly.
    #[arg(long, value_name = "DURATION", value_parser = length, conflicts_with_all = ["install", "uninstall"])]
    pub recent: Option<String>,
    /// A process by its name, or a systemd unit (`shop.service`), whose last minutes are kept; may be repeated.
    #[arg(long, value_name = "NAME", requires = "recent", value_parser = name)]
    pub process: Vec<String>,
    /// Say which processes the rules are about now, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Stand by as a service of systemd, from now on and after each start of the machine: writes the unit and starts it.
    #[arg(long, conflicts_with_all = ["dry_run", "json", "uninstall"])]
    pub install: bool,
    /// Stop the service and remove it. Settings and results stay.
    #[arg(long, conflicts_with_all = ["dry_run", "json", "config", "output", "length"])]
    pub uninstall: bool,
    /// The service of this user, not that of the machine. [default for all but root]
    #[arg(long)]
    pub user: bool,
    /// Ask or steer the service.
    #[arg(value_enum, value_name = "SERVICE", conflicts_with_all = ["dry_run", "json", "config", "output", "length", "recent", "install", "uninstall"])]
    pub verb: Option<ServiceVerb>,
    /// For programs: one JSON object a line, for each thing that happens.
    #[arg(long)]
    pub json: bool,
}

/// A time, as it was typed.
fn length(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

/// A name, as it was typed. A number would be looked for among the names, and never found.
fn name(text: &str) -> Result<String, String> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err("a watcher looks for processes by name, also for those that start later".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// What the service is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ServiceVerb {
    /// Does it run, since when, and what it said last.
    Status,
    /// Stop it until it is started, or the machine is.
    Stop,
    /// Start it again.
    Start,
    /// What it said.
    Logs,
}

impl From<ServiceVerb> for Ask {
    fn from(verb: ServiceVerb) -> Self {
        match verb {
            ServiceVerb::Status => Self::Status,
            ServiceVerb::Stop => Self::Stop,
            ServiceVerb::Start => Self::Start,
            ServiceVerb::Logs => Self::Logs,
        }
    }
}

impl WatchArgs {
    /// What is to be done.
    pub fn plan(&self) -> WatchPlan<'static> {
        WatchPlan {
            config: self.config.clone(),
            output: self.output.clone(),
            length: self.length,
            recent: self.recent.clone().map(|length| (length, self.process.clone())),
            command: &check,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_number_is_no_name_that_could_be_found() {
        assert_eq!(name("mariadbd").as_deref(), Ok("mariadbd"));
        assert_eq!(name("7zip").as_deref(), Ok("7zip"));
        assert!(name("4711").is_err());
    }
}
