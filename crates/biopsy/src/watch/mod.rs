//! `biopsy watch`: stands by, and starts commands of biopsy as the settings say.

mod service;
mod show;

use biopsy_cli::WatchArgs;
use std::sync::Arc;
use std::time::Instant;

use biopsy_capture::{Event, Failure, FailureKind, Job, Observer, Patience};
use biopsy_standby::places;
use biopsy_standby::service::Service;
use biopsy_standby::watch::{Watcher, concerned};
use biopsy_standby::{Happened, Listener};

use biopsy_foreground::{Code, interrupt, out};
use biopsy_terminal::terminal::ColorChoice;

use show::Show;

/// The watcher tells what goes on itself.
struct Silent;

impl Observer for Silent {
    fn event(&self, _: Event<'_>) {}
}

/// Runs `biopsy watch`.
pub(crate) fn run(args: &WatchArgs, color: ColorChoice) -> Result<Code, Failure> {
    let service = Service::of(args.user);
    if let Some(verb) = args.verb {
        // That it does not run is an answer.
        return Ok(if service.ask(verb.into())? { Code::Ok } else { Code::Partial });
    }
    if args.uninstall {
        return service::uninstall(service);
    }
    let job = Job::new(Box::new(Arc::new(Silent)));
    interrupt::listen(&job, Patience::Unlimited, color)?;
    let mut plan = args.plan();
    if args.install && !service.is_user && args.config.is_none() {
        // The machine's service has no home: what stands in root's own settings is not for it.
        plan.config = Some(places::file_in(&places::machine_folder())?);
    }
    let loaded = plan.load()?.checked()?;
    for (_, line) in loaded.lines() {
        out::say(format_args!("{line}"));
    }
    let settings = loaded.settings;
    if settings.rules.is_empty() {
        return Err(Failure::new(FailureKind::Usage, "there is nothing to watch for: no rule is on").with_hint(Some(
            "`biopsy config set profiling.processes.Compiler true` makes one; `biopsy config edit` opens the settings; \
             `--recent 10m --process NAME` needs none",
        )));
    }
    if args.install {
        plan.config.clone_from(&args.config);
        return service::install(service, &plan, &settings);
    }
    let mut show = Show::new(args.json, color);
    if args.dry_run {
        show.rules(&settings.rules, "nothing is done; processes that the rules are about now:");
        for (rule, process) in concerned(&settings)? {
            let (pid, name) = (Some(process.key.pid.0), process.title());
            let text = "would be watched".to_owned();
            show.happened(&Happened { event: "match", rule: &rule, pid, name, text, ..Happened::default() });
        }
        return Ok(Code::Ok);
    }
    let begun = Instant::now();
    let result = Watcher::begin(&plan, settings, &mut show)?.run(&job);
    let shown = show.end(begun.elapsed());
    result.and(shown)
}
