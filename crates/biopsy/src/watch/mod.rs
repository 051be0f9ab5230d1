//! `biopsy watch`: stands by, and starts commands of biopsy as the settings say.
//!
//! Each recording is made by a process of its own, the same program with the same options as one would type: a report that needs memory, or a
//! mistake in it, is not the watcher's. Such a process ends when the watcher does, however that ends.

mod args;
mod dry_run;
mod hook;
mod news;
mod notify;
mod sending;
mod service;
mod show;
mod starting;
mod unit;
mod watcher;
mod worker;

use std::sync::Arc;

use biopsy_capture::{Event, Failure, FailureKind, Job, Observer, Patience};

use crate::exit_codes::Code;
use crate::interrupt;
use crate::render::out;
use crate::render::terminal::ColorChoice;
use crate::standing::{places, settings};

pub(crate) use args::WatchArgs;

/// The watcher tells what goes on itself.
struct Silent;

impl Observer for Silent {
    fn event(&self, _: Event<'_>) {}
}

/// Runs `biopsy watch`.
pub(crate) fn run(args: &WatchArgs, color: ColorChoice) -> Result<Code, Failure> {
    if let Some(verb) = args.verb {
        return service::ask(verb, args);
    }
    if args.uninstall {
        return service::uninstall(args);
    }
    let job = Job::new(Box::new(Arc::new(Silent)));
    interrupt::listen(&job, Patience::Unlimited, color)?;
    // The machine's service has no home: what stands in root's own settings is not for it.
    let of_machine = args.install && service::is_of_machine(args) && args.config.is_none();
    let config =
        if of_machine { Some(places::file_in(&places::machine_folder())?) } else { args.config.clone() };
    let mut loaded = settings::load(config.as_deref())?.checked()?;
    args.add_to(&mut loaded.settings);
    for (_, line) in loaded.lines() {
        out::say(format_args!("{line}"));
    }
    if loaded.settings.rules.is_empty() {
        return Err(Failure::new(FailureKind::Usage, "there is nothing to watch for: no rule is on").with_hint(Some(
            "`biopsy config set profiling.processes.Compiler true` makes one; `biopsy config edit` opens the settings; \
             `--recent 10m --process NAME` needs none",
        )));
    }
    if args.install {
        return service::install(args, &loaded.settings);
    }
    if args.dry_run {
        return dry_run::show(&loaded.settings, args, color);
    }
    watcher::watch(args, loaded.settings, &job, color)
}
