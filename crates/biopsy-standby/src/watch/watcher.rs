//! The watcher: its loop, and what it has begun.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use biopsy_capture::{Failure, FailureKind, Job};
use biopsy_model::{Pid, ProcessKey};
use biopsy_target::Glance;
use biopsy_target::catch::Arriving;
use biopsy_watch::engine::{Decision, Disk, Fire};
use biopsy_watch::keep::WallClock;
use biopsy_watch::lease::{Journal, Lease};
use biopsy_watch::quantity::duration_text;
use biopsy_watch::rules::Verb;
use biopsy_watch::{Engine, Moment, Observed, Outcome, Settings};
use rustix::process::Signal;

use crate::journal::{JournalFolder, Lock, clear_recent, make_folder, now};
use crate::observed::{Eyes, may_be_watched, unseen};
use crate::{Happened, Listener, places, restore, results, settings};

use super::WatchPlan;
use super::hook::Hook;
use super::news::News;
use super::notify::Notify;
use super::sending::Sending;
use super::starting::Starting;
use super::worker::{Ended, Worker};

/// How long is waited for news at most: so often commands are looked after ...
const TICK: Duration = Duration::from_millis(200);
/// ... and signals, where there are none.
const IDLE_TICK: Duration = Duration::from_millis(500);
/// How often processes are looked at again, and everything else that is not urgent.
const ROUND: Duration = Duration::from_secs(1);
/// How often is said that processes cannot be looked at.
const BLIND: Duration = Duration::from_secs(60);
/// How long commands have to finish what they have when the watcher ends.
const FINISH: Duration = Duration::from_secs(120);

/// The watcher: begun, and not yet going round.
pub struct Watcher<'a> {
    plan: &'a WatchPlan<'a>,
    listener: &'a mut dyn Listener,
    settings: Settings,
    engine: Engine,
    eyes: Eyes,
    starting: Starting,
    hook: Hook,
    sending: Sending,
    notify: Notify,
    journal: JournalFolder,
    folder: PathBuf,
    program: PathBuf,
    until: Moment,
    begun_unix: i64,
    clock: WallClock,
    own: ProcessKey,
    workers: Vec<Worker>,
    /// Processes that a rule is about.
    concerned: HashMap<ProcessKey, Observed>,
    /// When it was said last that processes cannot be looked at.
    blind_since: Option<Instant>,
    _lock: Lock,
}

impl std::fmt::Debug for Watcher<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher")
            .field("folder", &self.folder)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl<'a> Watcher<'a> {
    /// Takes the lock, switches off what a watcher that was killed has left on, and writes down that this one is on.
    ///
    /// # Errors
    /// Another watcher of this user runs, or a folder cannot be used.
    pub fn begin(
        plan: &'a WatchPlan<'a>,
        settings: Settings,
        listener: &'a mut dyn Listener,
    ) -> Result<Self, Failure> {
        let journal = JournalFolder::usual()?;
        journal.make()?;
        let lock = journal.lock()?;
        // First of all: what a watcher that was killed has left on.
        for line in restore::clean_up(&journal, false)? {
            listener.happened(&Happened::note(format!("left by a watcher that ended: {line}")));
        }
        clear_recent()?;
        let folder = plan.output.clone().unwrap_or_else(|| results::folder(&settings, &journal));
        make_folder(&folder)?;
        let folder = folder.canonicalize().map_err(|error| {
            Failure::new(
                FailureKind::Output,
                format!("cannot use the folder `{}`: {error}", folder.display()),
            )
        })?;
        let program = places::own_program()?;
        let eyes = Eyes::open(settings.ask_for_parents());
        let root = biopsy_target::ProcRoot::live();
        let own = Glance::take(&root, &root.boot_id(), Pid(std::process::id()));
        let own = own.map_err(|error| unseen(&error))?.map(|glance| glance.key);
        let own =
            own.ok_or_else(|| Failure::new(FailureKind::Target, "`/proc` does not show this process"))?;
        let until = Moment(now().0.saturating_add(plan.length.unwrap_or(settings.length)));
        let mut engine = Engine::new(&settings);
        for (rule, ago) in results::ages(&folder) {
            engine.remember(&rule, now(), ago);
        }
        let starting = Starting::new(eyes.clone());
        let watcher = Self {
            plan,
            listener,
            engine,
            eyes,
            starting,
            hook: Hook::default(),
            sending: Sending::begin(journal.path(), &program),
            notify: Notify::of_environment(),
            folder,
            program,
            until,
            begun_unix: jiff::Timestamp::now().as_second(),
            clock: WallClock::begin(results::clocks()),
            own,
            workers: Vec::new(),
            concerned: HashMap::new(),
            blind_since: None,
            _lock: lock,
            settings,
            journal,
        };
        watcher.write_journal(None)?;
        Ok(watcher)
    }

    /// Watches until its time is over, or the job is asked to end; then ends all that it has begun.
    ///
    /// # Errors
    /// What is on cannot be written down any more.
    pub fn run(mut self, job: &Job) -> Result<(), Failure> {
        self.greet();
        let result = self.stand_by(job);
        self.finish(job);
        // An empty journal says that nothing is on.
        result.and(self.journal.write(&Journal::default()))
    }

    fn greet(&mut self) {
        let note = format!(
            "watching for {}; results go to {}; Ctrl-C ends it, and all that it has begun",
            duration_text(self.plan.length.unwrap_or(self.settings.length)),
            self.folder.display()
        );
        let rules = self.settings.rules.clone();
        self.listener.rules(&rules, &note);
        self.follow_starts();
        self.listener.happened(&Happened {
            event: "watching",
            path: Some(&self.folder),
            ..Happened::default()
        });
    }

    fn stand_by(&mut self, job: &Job) -> Result<(), Failure> {
        let mut news = News::begin();
        if let Some(error) = &news.why_not {
            let text = format!(
                "the kernel does not tell which programs start ({error}): they are looked for ten times a second, and shorter ones may be missed"
            );
            self.listener.happened(&Happened::note(text));
        }
        let mut round = Instant::now();
        let mut files = self.file_times();
        self.notify.ready();
        while !job.is_asked() && now() < self.until {
            let tick = if self.workers.is_empty() { IDLE_TICK } else { TICK };
            let pids = news.next(&self.eyes, tick, self.starting.bell());
            // First those that wait.
            while let Some(arriving) = self.starting.next() {
                match self.eyes.observe(arriving.glance.clone(), true) {
                    Ok(process) => self.meet(process, Some(arriving))?,
                    // It is not held any longer, and looked at when it runs.
                    Err(error) => self.cannot_see(&mut news, Some(arriving.glance.key.pid), &error),
                }
            }
            for pid in pids {
                match self.eyes.look(pid) {
                    Ok(Some(process)) => self.meet(process, None)?,
                    Ok(None) => {}
                    Err(error) => self.cannot_see(&mut news, Some(pid), &error),
                }
            }
            if let Some(error) = news.unlisted.take() {
                self.cannot_see(&mut news, None, &error);
            }
            self.look_after_workers()?;
            if round.elapsed() >= ROUND {
                round = Instant::now();
                self.notify.is_well();
                self.look_again(&mut news)?;
                self.hold_to_budgets();
                self.send();
                let times = self.file_times();
                if times != files {
                    files = times;
                    self.reload(&mut news);
                }
            }
        }
        Ok(())
    }

    /// Programs are held at their start, if a rule records from there.
    fn follow_starts(&mut self) {
        if let Some(text) = self.starting.follow(&self.engine, &self.eyes) {
            self.listener.happened(&Happened::note(text));
        }
    }

    /// A process that started, or that was found; or one that is about to execute another program, and waits.
    fn meet(&mut self, process: Observed, arriving: Option<Arriving>) -> Result<(), Failure> {
        if !self.engine.concerns(&process) || !may_be_watched(&process) {
            // It may have been one that is watched, and has executed another program.
            self.concerned.remove(&process.key);
            return Ok(());
        }
        self.ask(&process, arriving)?;
        self.concerned.insert(process.key.clone(), process);
        Ok(())
    }

    /// Looking was not possible, and says nothing of the process: it is looked at again. That is said once a minute.
    fn cannot_see(&mut self, news: &mut News, pid: Option<Pid>, error: &std::io::Error) {
        pid.inspect(|pid| news.missed(*pid));
        if self.blind_since.is_none_or(|said| said.elapsed() >= BLIND) {
            self.blind_since = Some(Instant::now());
            let text = format!("{}; it is tried again, and what is over by then is missed", unseen(error));
            self.listener.happened(&Happened::note(text));
        }
    }

    /// All that are watched, again: they grow older, larger and busier, or are gone.
    fn look_again(&mut self, news: &mut News) -> Result<(), Failure> {
        let mut concerned = std::mem::take(&mut self.concerned);
        let mut failed = None;
        concerned.retain(|_, process| {
            let mut look = || {
                let now = match process.is_held {
                    true => self.eyes.look(process.key.pid)?,
                    false => None,
                };
                // Executed, and nobody has told us of it.
                if let Some(now) = now.filter(|now| now.arguments == process.arguments) {
                    *process = now;
                }
                self.eyes.look_again(process)
            };
            look().unwrap_or_else(|error| {
                failed = Some(error);
                true
            })
        });
        if let Some(error) = failed {
            self.cannot_see(news, None, &error);
        }
        self.engine.retain(|key| concerned.contains_key(key));
        if self.engine.looks_again() {
            for process in concerned.values() {
                self.ask(process, None)?;
            }
        }
        self.concerned = concerned;
        if let Some(text) = self.starting.failure() {
            self.listener.happened(&Happened::note(text));
        }
        Ok(())
    }

    /// Rules that cost more than they may are switched off, and what they record ends with what there is.
    fn hold_to_budgets(&mut self) {
        let mut off = Vec::new();
        for worker in &self.workers {
            let used = worker.recorder_cpu();
            off.extend(used.and_then(|used| self.engine.spent(now(), worker.fire.id, used)));
        }
        for off in off {
            let is_of_rule = |worker: &&mut Worker| off.running.contains(&worker.fire.id);
            self.workers.iter_mut().filter(is_of_rule).for_each(|worker| worker.ask(Signal::TERM));
            let text = format!(
                "the rule has switched itself off: recording took {:.0} % of a core, and may take {} %",
                off.percent, off.budget
            );
            let line = Happened { event: "off", rule: &off.rule, text, ..Happened::default() };
            self.listener.happened(&line);
            let failed = self.hook.tell(&self.settings.tell, &line);
            self.say_of_hook(failed);
        }
    }

    fn ask(&mut self, process: &Observed, mut arriving: Option<Arriving>) -> Result<(), Failure> {
        let free = results::free(&self.folder);
        if free < self.settings.min_free {
            self.clean(self.settings.min_free - free);
        }
        let disk = Disk { free: results::free(&self.folder) };
        for decision in self.engine.look(now(), process, disk) {
            match decision {
                Decision::Fire(fire) => self.start(fire, process, arriving.take())?,
                Decision::Held { rule, key, why } => self.listener.happened(&Happened {
                    event: "held",
                    rule: &rule,
                    pid: Some(key.pid.0),
                    name: process.title(),
                    text: why.text().to_owned(),
                    ..Happened::default()
                }),
            }
        }
        Ok(())
    }

    /// Starts a command: first it is written down, then it takes effect.
    fn start(&mut self, fire: Fire, process: &Observed, arriving: Option<Arriving>) -> Result<(), Failure> {
        let id = fire.id;
        let rule = fire.rule.name.clone();
        let title = process.title().to_owned();
        let is_taken = |path: &Path| self.workers.iter().any(|worker| worker.output == path);
        let output = results::name(&self.folder, &rule, &title, fire.key.pid.0, is_taken);
        let folder = output.parent().unwrap_or(&self.folder).to_owned();
        let text = match (fire.rule.what.verb, fire.triggers.as_slice()) {
            (Verb::Recent, _) => {
                format!("its last {} are kept from now on", fire.rule.what.options.join(" "))
            }
            (_, []) if arriving.is_some() => "is recorded from its first instruction".to_owned(),
            (_, []) => format!("is recorded: {}", fire.because),
            (_, triggers) => format!("is waited with for {}", triggers.join(" or ")),
        };
        // The folder of results may have been removed meanwhile.
        make_folder(&folder)?;
        self.write_journal(Some(&(fire.clone(), title.clone(), output.clone())))?;
        let line = |event, text| Happened {
            event,
            rule: &rule,
            pid: Some(fire.key.pid.0),
            name: &title,
            text,
            ..Happened::default()
        };
        let before = self.recent_of(&fire);
        match Worker::start(&self.program, fire.clone(), title.clone(), output, &before, arriving) {
            Ok(mut worker) => {
                // Between the decision and the start its pid may have gone to another process.
                if !biopsy_target::is_same(&fire.key) {
                    worker.ask(Signal::TERM);
                }
                self.workers.push(worker);
                self.listener.happened(&line("begun", text));
            }
            Err(error) => {
                self.engine.ended(now(), id, Outcome::Nothing);
                self.listener.happened(&line("failed", format!("cannot start a command: {error}")));
            }
        }
        self.write_journal(None)
    }

    /// What a capture is told where the last minutes of its process are kept.
    fn recent_of(&self, fire: &Fire) -> Vec<String> {
        let keeps =
            |worker: &&Worker| worker.fire.rule.what.verb == Verb::Recent && worker.fire.key == fire.key;
        let takes = matches!(fire.rule.what.verb, Verb::Capture | Verb::Trace);
        let has_own = fire.rule.what.options.iter().any(|option| option.starts_with("--recent"));
        let keeper = self.workers.iter().find(keeps).filter(|_| takes && !has_own);
        let length = keeper.and_then(|keeper| keeper.fire.rule.what.options.first());
        length.map(|length| vec!["--recent-if-kept".to_owned(), length.clone()]).unwrap_or_default()
    }

    /// Commands that have ended, and those whose time is over.
    fn look_after_workers(&mut self) -> Result<(), Failure> {
        let mut ended = Vec::new();
        let mut index = 0;
        while let Some(worker) = self.workers.get_mut(index) {
            match worker.ended() {
                Some(how) => ended.push((self.workers.swap_remove(index), how)),
                None => index += 1,
            }
        }
        if ended.is_empty() {
            self.look_after_hooks();
            return Ok(());
        }
        for (worker, how) in ended {
            let is_killed = matches!(how, Ended::Killed(_));
            self.say_ended(&worker, how);
            // Who keeps the last minutes of a process begins anew.
            let process = self.concerned.get(&worker.fire.key).filter(|_| is_killed).cloned();
            if let Some(process) = process.filter(|_| worker.fire.rule.what.verb == Verb::Recent) {
                self.ask(&process, None)?;
            }
        }
        self.look_after_hooks();
        self.clean(0);
        self.write_journal(None)
    }

    fn say_ended(&mut self, worker: &Worker, how: Ended) {
        let Worker { fire, title, output, .. } = worker;
        let line = |event, text| Happened {
            event,
            rule: &fire.rule.name,
            pid: Some(fire.key.pid.0),
            name: title,
            text,
            ..Happened::default()
        };
        match how {
            Ended::Made { bytes, headline, is_partial } => {
                self.engine.ended(now(), fire.id, Outcome::Made);
                let took = duration_text(Duration::from_secs(worker.begun.elapsed().as_secs().max(1)));
                let partial = if is_partial { ", less than was asked for" } else { "" };
                let headline = headline.map(|text| format!(": {text}")).unwrap_or_default();
                let text = match fire.rule.what.verb {
                    Verb::Recent => format!("ended badly, and its last minutes were written{headline}"),
                    _ => format!("was recorded in {took}{partial}{headline}"),
                };
                let line = Happened { path: Some(output), bytes: Some(bytes), ..line("made", text) };
                self.listener.happened(&line);
                let failed = self.hook.tell(&self.settings.tell, &line);
                self.say_of_hook(failed);
                let given = self.settings.send.as_ref().map(|links| self.sending.give(links, output));
                self.say_of_hook(given.and_then(Result::err));
            }
            Ended::Killed(why) if fire.rule.what.verb == Verb::Recent => {
                self.engine.ended(now(), fire.id, Outcome::Killed);
                self.listener.happened(&line("failed", format!("its last minutes are lost: {why}")));
            }
            Ended::Nothing(why) | Ended::Killed(why) => {
                self.engine.ended(now(), fire.id, Outcome::Nothing);
                // That it was over before anything was seen of it is nobody's failure.
                let quiet =
                    !fire.triggers.is_empty() || worker.was_asked || !biopsy_target::is_same(&fire.key);
                let line = line(if quiet { "over" } else { "failed" }, why);
                self.listener.happened(&line);
                let failed = if quiet { None } else { self.hook.tell(&self.settings.tell, &line) };
                self.say_of_hook(failed);
            }
        }
    }

    /// Results for those who have asked for them.
    fn send(&mut self) {
        let sent = match self.sending.look_after(self.settings.send.as_deref()) {
            Ok(Some(sent)) => sent,
            Ok(None) => return,
            Err(text) => return self.say_of_hook(Some(text)),
        };
        let (event, text) = match sent.is_received {
            true => ("sent", "was received by who had asked for it"),
            false => ("note", "could not be sent, and is tried again; `biopsy send` says why"),
        };
        let (text, path) = (text.to_owned(), Some(sent.file.as_path()));
        self.listener.happened(&Happened { event, text, path, ..Happened::default() });
    }

    fn look_after_hooks(&mut self) {
        for failed in self.hook.look_after() {
            self.say_of_hook(Some(failed));
        }
    }

    fn say_of_hook(&mut self, failed: Option<String>) {
        if let Some(text) = failed {
            self.listener.happened(&Happened::note(text));
        }
    }

    /// Removes results that are not kept any more.
    fn clean(&mut self, missing: u64) {
        let being_made: HashSet<PathBuf> = self
            .workers
            .iter()
            .flat_map(|worker| [results::draft_of(&worker.output), worker.output.clone()])
            .chain(self.sending.on_their_way().map(Path::to_owned))
            .collect();
        self.clock.look(results::clocks());
        for gone in results::clean(&self.folder, &self.settings.keep, missing, &being_made, &self.clock) {
            let text = format!("{} made room", gone.name);
            self.listener.happened(&Happened {
                event: "removed",
                rule: &gone.rule,
                text,
                bytes: Some(gone.bytes),
                ..Happened::default()
            });
        }
    }

    /// What is on: the watcher, its commands, and the one that is about to be started.
    fn write_journal(&self, coming: Option<&(Fire, String, PathBuf)>) -> Result<(), Failure> {
        let lease = |holder, what: String, target, output| Lease {
            holder,
            what,
            target,
            output,
            begun_unix: self.begun_unix,
            boot: self.eyes.boot().clone(),
            until: self.until,
        };
        let of = |fire: &Fire, title: &str, output: &PathBuf, holder| {
            lease(
                holder,
                fire.rule.what.to_string(),
                Some((fire.key.clone(), title.to_owned())),
                Some(output.clone()),
            )
        };
        let mut leases =
            vec![lease(Some(self.own.clone()), "watch".to_owned(), None, Some(self.folder.clone()))];
        leases.extend(
            self.workers.iter().map(|worker| of(&worker.fire, &worker.title, &worker.output, worker.key())),
        );
        leases.extend(coming.map(|(fire, title, output)| of(fire, title, output, None)));
        self.journal.write(&Journal(leases))
    }

    /// Settings that were changed hold from now on; wrong ones do not.
    fn reload(&mut self, news: &mut News) {
        let loaded = self.plan.load().and_then(settings::Loaded::checked);
        match loaded {
            Ok(loaded) if loaded.settings != self.settings => {
                self.settings = loaded.settings;
                self.engine.change(&self.settings);
                self.eyes.set_parents(self.settings.ask_for_parents());
                self.follow_starts();
                let text = "the settings were changed; these rules hold now".to_owned();
                self.listener.happened(&Happened::note(text));
                let rules = self.settings.rules.clone();
                self.listener.rules(&rules, "");
                news.all_again();
            }
            Ok(_) => {}
            Err(failure) => {
                let text = format!("the settings were changed, and the old ones hold on: {failure}");
                self.listener.happened(&Happened::note(text));
            }
        }
    }

    fn file_times(&self) -> Vec<Option<std::time::SystemTime>> {
        let files = settings::files(self.plan.config.as_deref()).unwrap_or_default();
        files.iter().map(|(_, path)| path.metadata().and_then(|meta| meta.modified()).ok()).collect()
    }

    /// Ends all that was begun: it is asked to finish what it has, and given time to.
    fn finish(&mut self, job: &Job) {
        self.notify.stopping();
        for worker in &mut self.workers {
            worker.ask(Signal::TERM);
        }
        if !self.workers.is_empty() {
            let text = format!("{} recordings are finished", self.workers.len());
            self.listener.happened(&Happened::note(text));
        }
        let begin = Instant::now();
        let mut hurried = false;
        while !self.workers.is_empty() && begin.elapsed() < FINISH {
            if job.is_hurried() && !hurried {
                hurried = true;
                // Not SIGTERM, of which several that come at once are one.
                self.workers.iter_mut().for_each(|worker| worker.ask(Signal::INT));
            }
            // The journal is written anew by it; that it cannot be is said at the end.
            let _ = self.look_after_workers();
            self.notify.is_well();
            std::thread::sleep(Duration::from_millis(20));
        }
        for worker in &mut self.workers {
            // It hangs: nothing of it outlives its descriptors.
            worker.ask(Signal::KILL);
        }
        self.sending.finish();
        for failed in self.hook.finish() {
            self.say_of_hook(Some(failed));
        }
        // Of one that was killed there may be something; the next watcher would find it.
        let _ = clear_recent();
    }
}
