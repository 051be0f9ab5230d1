//! The watcher: looks, and starts commands of biopsy as the settings say.
//!
//! Each recording is made by a process of its own, the same program with the same options as one would type: a report that needs memory, or a
//! mistake in it, is not the watcher's. Such a process ends when the watcher does, however that ends.

mod hook;
mod news;
mod notify;
mod sending;
mod starting;
mod watcher;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use biopsy_capture::Failure;
use biopsy_watch::settings::CommandCheck;
use biopsy_watch::{Engine, Observed, Settings};

use crate::observed::{Eyes, may_be_watched, unseen};
use crate::settings::{Loaded, load};

pub use watcher::Watcher;

/// What the watcher is to do, beside the settings.
#[allow(missing_debug_implementations, reason = "a function has none")]
pub struct WatchPlan<'a> {
    /// This file of settings alone.
    pub config: Option<PathBuf>,
    /// Where results go, instead of where the settings say.
    pub output: Option<PathBuf>,
    /// How long, instead of what the settings say.
    pub length: Option<Duration>,
    /// How much of the time before is kept, and of which processes; none: of all that rules are about.
    pub recent: Option<(String, Vec<String>)>,
    /// What the command line takes.
    pub command: CommandCheck<'a>,
}

impl WatchPlan<'_> {
    /// The settings that hold, and those of the plan.
    ///
    /// # Errors
    /// As of [`load`].
    pub fn load(&self) -> Result<Loaded, Failure> {
        let mut loaded = load(self.config.as_deref(), self.command)?;
        if let Some((length, names)) = &self.recent {
            loaded.settings.keep_recent(length, names);
        }
        Ok(loaded)
    }
}

/// Which processes the rules are about now, each with the name of the rule.
///
/// # Errors
/// Processes cannot be listed or looked at.
pub fn concerned(settings: &Settings) -> Result<Vec<(String, Observed)>, Failure> {
    let engine = Engine::new(settings);
    let all = Eyes::open(settings.ask_for_parents()).all().map_err(|error| unseen(&error))?;
    let mut found = Vec::new();
    for process in all.iter().filter(|process| may_be_watched(process)) {
        found.extend(engine.rules_of(process).map(|rule| (rule.to_owned(), process.clone())));
    }
    Ok(found)
}
