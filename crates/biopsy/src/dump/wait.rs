//! Waiting for something to happen, then dumping: triggers on a running process, and processes caught as they start.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use biopsy_image::Image;
use biopsy_image::write::{CaptureMethod, CopiedImage, CopyRoom};
use biopsy_model::loss::Warning;
use biopsy_record::dump::mask::{Literals, MASK_OVERLAP};
use biopsy_record::dump::{DumpProgress, Origin};
use biopsy_record::triggers::{self, Fired, Trigger, Watch, WatchEnd, WatchOptions, Watched};
use biopsy_sys::job_control::JobControl;
use biopsy_target::Selector;
use biopsy_target::catch::{CatchError, CatchOn, CatchOptions, CatchStatistics, Catcher, Caught, Cause};
use rustix::fs::{Mode, OFlags};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt::{self, Patience};
use crate::render::tell;
use crate::render::terminal::{ColorChoice, Terminal};
use crate::session::output::Place;
use crate::session::record::{output_failure, warn_all, warning};
use crate::session::seal::{KEPT, MADE};
use crate::session::subject::display_name;

use super::act::{self, Opened};
use super::args::DumpArgs;
use super::place::Destination;
use super::queue::{self, Queue};
use super::subject::{self, Subject};
use super::{conclude, forecast, show};

/// How soon Ctrl-C and the end of the time are noticed.
const SLICE: Duration = Duration::from_millis(100);
/// How often a process that is not there yet is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Caught processes that may wait to be copied, held at their end.
const MAX_WAITING: usize = 512;
/// Most bytes of copies of caught processes that are not written yet, all together.
const MOST_COPIED: u64 = 1 << 30;
/// What stays free on a disk that copies spill to.
const SPILL_RESERVE: u64 = 1 << 30;
/// Nice value of what copies processes that are held: they, and whoever waits for their end, wait for that. On a machine with eighty
/// runnable threads a child was held for 1.5 s without it.
const COPIER_NICE: i32 = -20;

/// Runs `biopsy dump` with `--on`, `--wait` or `--wait-for`.
pub(crate) fn run(args: &DumpArgs, color: ColorChoice) -> Result<Code, Failure> {
    let triggers = parse(args)?;
    interrupt::be_patient(Patience::WithoutCopies);
    let stop = Stop::start(args.duration)?;
    let Some(subject) = find(args, &stop.flag)? else { return Ok(nothing("no such process started")) };
    let Destination::Recording(place) = Destination::choose(args, &subject.name)? else {
        return Err(Failure::new(Code::Usage, "a dump that waits makes a recording")
            .with_hint(Some("name a folder or a `.zip` with `--output`, or leave it out")));
    };
    if args.dry_run {
        let destination = Destination::Recording(place);
        return forecast::forecast(args, &subject, &destination, Terminal::of_stderr(color))
            .map(|_| Code::Ok);
    }
    let literals = Arc::new(act::secrets_of(args, &subject));
    let mut dumper = Dumper { args, literals, room: copy_room(), subject, place, opened: None };
    let ended = match &args.wait_for {
        Some(name) => catch(&mut dumper, name, &triggers, &stop.flag),
        None if triggers.is_empty() => dumper.dump_now("it started").map(|()| "it was dumped".to_owned()),
        None => watch(&mut dumper, triggers, &stop.flag),
    };
    let Some(opened) = dumper.opened.filter(|opened| !opened.discard_if_empty()) else {
        return ended.map(|why| nothing(&why));
    };
    // What was dumped before something went wrong is kept, and told first.
    let folder = opened.folder.path().to_owned();
    let concluded = conclude::conclude(opened).map_err(|failure| failure.naming(KEPT, &folder))?;
    let code =
        show::show(args, &concluded, color).map_err(|failure| failure.naming(MADE, &concluded.path))?;
    ended.map(|_| code)
}

/// Also for those who want no progress: there is nothing else that could tell.
fn nothing(why: &str) -> Code {
    crate::render::out::say(format_args!("nothing was dumped: {why}"));
    Code::Partial
}

fn parse(args: &DumpArgs) -> Result<Vec<Trigger>, Failure> {
    args.on
        .iter()
        .map(|text| {
            Trigger::parse(text)
                .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(Some(error.hint())))
        })
        .collect()
}

fn find(args: &DumpArgs, stop: &AtomicBool) -> Result<Option<Subject>, Failure> {
    if !args.wait {
        return subject::find(args).map(Some);
    }
    let selector = Selector::parse(&args.target)
        .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(error.hint()))?;
    let found = triggers::wait_for(&selector, LOOK_EVERY, stop)
        .map_err(|error| Failure::from_error(Code::Target, &error).with_hint(error.hint()))?;
    let subject = found.map(|target| {
        let name = display_name(&selector, &target.info);
        Subject::of(target.info, name, args.tree)
    });
    subject.transpose()
}

/// Ctrl-C, or the end of the time that was given.
struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    fn start(within: Option<Duration>) -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&flag);
        let end = within.map(|time| Instant::now() + time);
        let listen = move || {
            let mut suspend = Suspend::default();
            // Until whoever waits has gone.
            while Arc::strong_count(&told) > 1 {
                if interrupt::is_asked() || end.is_some_and(|end| Instant::now() >= end) {
                    told.store(true, Relaxed);
                }
                suspend.look();
                std::thread::sleep(SLICE);
            }
        };
        std::thread::Builder::new()
            .name("biopsy-stop".to_owned())
            .spawn(listen)
            .map_err(|error| Failure::new(Code::Memory, format!("cannot start a thread: {error}")))?;
        Ok(Self { flag })
    }
}

/// Ctrl-Z while a process is held or followed: it is carried out when nothing is any more, and until then somebody may wonder.
#[derive(Default)]
struct Suspend {
    said: bool,
}

impl Suspend {
    fn look(&mut self) {
        let asked = JobControl::is_asked();
        if asked && !self.said {
            tell!(
                "note: biopsy is not suspended while it follows a process, which would stand still with it; Ctrl-C ends it"
            );
        }
        self.said = asked;
    }
}

/// Dumps that go into one recording, as they come.
struct Dumper<'a> {
    args: &'a DumpArgs,
    subject: Subject,
    literals: Arc<Literals>,
    /// For copies of what is held.
    room: Arc<CopyRoom>,
    place: Place,
    /// Made when the first dump comes: what never happened leaves nothing behind.
    opened: Option<Opened>,
}

impl Dumper<'_> {
    fn opened(&mut self, subject: &Subject) -> Result<&mut Opened, Failure> {
        if self.opened.is_none() {
            self.opened = Some(act::open(subject, self.place.clone())?);
        }
        match &mut self.opened {
            Some(opened) => Ok(opened),
            None => Err(Failure::new(Code::Bug, "the recording is not open")),
        }
    }

    /// Freezes and dumps the running target, with the tree of this moment.
    fn dump_now(&mut self, reason: &str) -> Result<(), Failure> {
        let Some(subject) = self.subject.again(self.args.tree)? else {
            return Err(Failure::new(
                Code::Target,
                format!("process {} has ended", self.subject.target().key.pid),
            ));
        };
        self.dump_frozen(&subject, reason)
    }

    fn dump_frozen(&mut self, subject: &Subject, reason: &str) -> Result<(), Failure> {
        let args = self.args;
        let destination = Destination::Recording(self.place.clone());
        let plan = forecast::forecast(args, subject, &destination, Terminal::of_stderr(ColorChoice::Auto))?;
        let opened = self.opened(subject)?;
        let reason = opened.masking.text(biopsy_recording::layout::DUMPS_FOLDER, reason).into_owned();
        act::dump(args, subject, plan, opened, &reason)
    }

    /// Dumps a process that is held, and lets it go: as soon as its memory is copied, where there is room for a copy, else when
    /// the dump is written. With a queue, others write it.
    fn dump_held(&mut self, caught: Caught, reason: &str, queue: Option<&Queue<'_>>) -> Result<(), Failure> {
        let pid = caught.key().pid;
        let info = biopsy_target::list::process(pid);
        if caught.cause() == Cause::Time
            && let Ok(info) = info
        {
            // It is in the middle of its work: frozen, it stands still for a fraction of the time.
            let _ = caught.release();
            let name = info.name.clone();
            return self.dump_frozen(&Subject { processes: vec![info], name }, reason);
        }
        let subject = match info {
            Ok(info) => Subject { name: self.subject.name.clone(), processes: vec![info] },
            // It is going: what is known of the target has to do.
            Err(_) => self.subject.clone(),
        };
        let args = self.args;
        let fresh = (args.scrub && args.wait_for.is_some()).then(|| Literals::read(&subject.pids()));
        let literals = fresh.map_or_else(|| Arc::clone(&self.literals), Arc::new);
        let copied = self.copy(&caught);
        let first = self.opened.is_none();
        let opened = self.opened(&subject)?;
        if !first {
            act::take_context(&subject, opened)?;
        }
        let reason = opened.masking.text(biopsy_recording::layout::DUMPS_FOLDER, reason).into_owned();
        let origin = Origin {
            method: CaptureMethod::Held,
            pause: caught.held(),
            predicted_pause: None,
            reason: reason.clone(),
            lacking: caught.warnings().to_vec(),
            warnings: caught.warnings().to_vec(),
            number: 1,
        };
        let said = |held: Duration| {
            if !args.quiet {
                crate::render::out::say(format_args!(
                    "process {pid}: {reason}; held for {}",
                    show::pause_text(held)
                ));
            }
        };
        let Some(copied) = copied else {
            // Compressing takes long, and all processors: there, the others are as good as we are.
            let _behind = queue.is_some().then(|| Nice::set(0));
            act::write_one(args, &caught as &dyn Image, &literals, origin, opened, &DumpProgress::default())?;
            let release = caught.release();
            if let Some(dumped) = opened.dumps.last_mut() {
                dumped.set_pause(release.held, &opened.folder).map_err(output_failure)?;
            }
            said(release.held);
            return opened.check_scrubbed(&literals);
        };
        let release = caught.release();
        said(release.held);
        let origin = Origin { pause: release.held, ..origin };
        match queue {
            Some(queue) => queue.put(opened, copied, literals, origin),
            None => {
                act::write_one(args, &copied, &literals, origin, opened, &DumpProgress::default())?;
                opened.check_scrubbed(&literals)
            }
        }
    }

    /// Copies what the dump will hold: into memory, and when there is no room, into a file beside the dumps that is gone when
    /// we are. Never there what is to be masked: then it is held until there is room.
    fn copy(&self, caught: &Caught) -> Option<CopiedImage> {
        let around = if self.args.scrub { MASK_OVERLAP } else { 0 };
        let folder = self.opened.as_ref().filter(|_| !self.args.scrub).map(|opened| &opened.folder);
        let spill = |bytes: u64| folder.and_then(|folder| spill_file(folder.reach(), bytes));
        // That it cannot be asked what it has is for the writer to say.
        CopiedImage::copy_or_spill(caught, self.args.kind().into(), around, &self.room, &spill).ok().flatten()
    }
}

/// A file without a name in the folder, where its disk has room for so many bytes twice: the dump goes there too.
fn spill_file(folder: &Path, bytes: u64) -> Option<File> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free / 2 < bytes.saturating_add(SPILL_RESERVE) {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::open(folder, flags, mode).ok().map(File::from)
}

/// Puts the calling thread before or behind others, by a nice value (setpriority(2)), until it is dropped. That it is refused is
/// no reason to stop.
struct Nice {
    before: i32,
}

impl Nice {
    fn set(value: i32) -> Self {
        let before = rustix::process::getpriority_process(None).unwrap_or(0);
        let _ = rustix::process::setpriority_process(None, value);
        Self { before }
    }
}

impl Drop for Nice {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
    }
}

/// How much memory copies may have: a quarter of what biopsy can get.
fn copy_room() -> Arc<CopyRoom> {
    let left = biopsy_target::freeze::own_headroom().map_or(0, |headroom| headroom.bytes / 4);
    CopyRoom::new(left.min(MOST_COPIED))
}

/// Triggers on the target itself.
fn watch(dumper: &mut Dumper<'_>, triggers: Vec<Trigger>, stop: &Arc<AtomicBool>) -> Result<String, Failure> {
    let options = WatchOptions {
        count: Some(dumper.args.count),
        every: dumper.args.every,
        stop: Arc::clone(stop),
        ..WatchOptions::default()
    };
    let failed =
        |error: triggers::WatchError| Failure::from_error(Code::Target, &error).with_hint(error.hint());
    let key = dumper.subject.target().key.clone();
    let words: Vec<String> = triggers.iter().map(ToString::to_string).collect();
    let mut watch = Watch::new(&key, triggers, options).map_err(failed)?;
    if !dumper.args.quiet {
        crate::render::out::say(format_args!(
            "waiting for {} of {} (pid {})",
            words.join(" or "),
            biopsy_model::printable::printable(&dumper.subject.name),
            key.pid
        ));
        for warning in watch.warnings() {
            crate::render::out::say(format_args!("note: {warning}"));
        }
    }
    loop {
        match watch.next().map_err(failed)? {
            Watched::Fired(fired) => fire(dumper, *fired)?,
            Watched::Ended(end) => return Ok(end_words(end)),
        }
    }
}

fn fire(dumper: &mut Dumper<'_>, fired: Fired) -> Result<(), Failure> {
    if !dumper.args.quiet {
        crate::render::out::say(format_args!("{}", fired.reason));
    }
    match fired.caught {
        Some(caught) => {
            let tree = dumper.args.tree.then(|| dumper.subject.again(true)).transpose();
            let tree = tree.map(Option::flatten).unwrap_or_else(|failure| {
                crate::render::out::say(format_args!(
                    "note: what is below the process is not dumped: {failure}"
                ));
                None
            });
            let held = caught.key().pid;
            // What is below it runs on and may end with it: it is frozen first, while the other is held anyway.
            if let Some(mut below) = tree {
                below.processes.retain(|process| process.key.pid != held);
                // That one of them cannot be frozen is no reason to lose the one that is held.
                if !below.processes.is_empty()
                    && let Err(failure) = dumper.dump_frozen(&below, &fired.reason)
                {
                    crate::render::out::say(format_args!(
                        "note: what is below process {held} is not dumped: {failure}"
                    ));
                }
            }
            dumper.dump_held(*caught, &fired.reason, None)
        }
        None => dumper.dump_now(&fired.reason),
    }
}

fn end_words(end: WatchEnd) -> String {
    match end {
        WatchEnd::ProcessEnded { status: Some(status) } if status & 0x7f != 0 => {
            format!("the process was ended by signal {}", status & 0x7f)
        }
        WatchEnd::ProcessEnded { status: Some(status) } => {
            format!("the process ended with exit code {}", (status >> 8) & 0xff)
        }
        WatchEnd::ProcessEnded { status: None } => "the process has ended".to_owned(),
        WatchEnd::Done => "it was dumped as often as was asked for".to_owned(),
        WatchEnd::Stopped => "stopped before it happened".to_owned(),
    }
}

/// Processes of a name below the target, as they start.
fn catch(
    dumper: &mut Dumper<'_>,
    name: &str,
    triggers: &[Trigger],
    stop: &Arc<AtomicBool>,
) -> Result<String, Failure> {
    let options = CatchOptions {
        max_waiting: MAX_WAITING,
        ..CatchOptions::new(name, moments(triggers)?).below(dumper.subject.target().key.clone())
    };
    let failed = |error: CatchError| Failure::from_error(Code::Target, &error).with_hint(error.hint());
    let mut catcher = Catcher::new(&options).map_err(failed)?;
    if !dumper.args.quiet {
        tell!("waiting for {name} below {} ({})", dumper.subject.name, catcher.chosen().why);
    }
    // Also for those who want no progress: programs that are not seen are not caught.
    for limit in &catcher.chosen().limits {
        tell!("note: {limit}");
    }
    let args = dumper.args;
    let room = Arc::clone(&dumper.room);
    let ((ended, statistics), written) = queue::writing(args, &room, |queue| {
        let _ahead = Nice::set(COPIER_NICE);
        let mut taken = 0;
        let mut closed = false;
        let ended = loop {
            if stop.load(Relaxed) && !closed {
                // What stands at its end by now came in time.
                catcher.close();
                closed = true;
            }
            if taken >= args.count {
                break Ok("it was dumped as often as was asked for".to_owned());
            }
            if queue.has_failed() {
                break Ok("the recording cannot be written any more".to_owned());
            }
            match catcher.next(SLICE) {
                Ok(Some(caught)) => {
                    taken += 1;
                    let reason = caught.cause().to_string();
                    if let Err(failure) = dumper.dump_held(caught, &reason, Some(queue)) {
                        break Err(failure);
                    }
                }
                Ok(None) if !closed && !biopsy_target::is_same(&dumper.subject.target().key) => {
                    break Ok(format!("process {} has ended", dumper.subject.target().key.pid));
                }
                Ok(None) => {}
                Err(CatchError::Ended) if closed => break Ok("stopped".to_owned()),
                Err(CatchError::Ended) => {
                    break Ok(format!("everything below {} has ended", dumper.subject.name));
                }
                Err(error) => break Err(failed(error)),
            }
        };
        // Whoever is still held goes on before the rest is written.
        let statistics = catcher.statistics();
        catcher.finish();
        let waiting = queue.waiting();
        if waiting > 0 && !args.quiet {
            crate::render::out::say(format_args!(
                "{waiting} dumps are still being written; nothing is held any more"
            ));
        }
        (ended, statistics)
    })?;
    if let Some(opened) = &mut dumper.opened {
        for one in written {
            opened.add(one)?;
        }
        warn_all(&opened.folder, &missed(&statistics));
    }
    let why = ended?;
    if !dumper.args.quiet {
        crate::render::out::say(format_args!(
            "{} followed, {} caught, {} missed, {} not looked at; {} executions waited {} at most",
            statistics.followed,
            statistics.caught,
            statistics.missed,
            statistics.unseen,
            statistics.executions,
            show::pause_text(statistics.longest_wait)
        ));
        for note in statistics.notes.iter().take(20) {
            crate::render::out::say(format_args!("note: {note}"));
        }
    }
    Ok(why)
}

/// What should have been caught and was not, as warnings of the recording.
fn missed(statistics: &CatchStatistics) -> Vec<Warning> {
    if statistics.missed == 0 && statistics.unseen == 0 {
        return Vec::new();
    }
    let notes = statistics.notes.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("; ");
    let message = format!(
        "{} of {} processes that were waited for are not among the dumps, and {} executions went on without being looked at: {notes}",
        statistics.missed, statistics.followed, statistics.unseen
    );
    vec![warning("dump.child-missed", message)]
}

/// At which moments of its life a caught process is held.
fn moments(triggers: &[Trigger]) -> Result<CatchOn, Failure> {
    if triggers.is_empty() {
        return Ok(CatchOn::EXIT);
    }
    let mut on = CatchOn::default();
    for trigger in triggers {
        let one = match trigger {
            Trigger::Exit => CatchOn::EXIT,
            Trigger::Failure => CatchOn::FAILURE,
            Trigger::Crash => CatchOn::CRASH,
            Trigger::After { duration } => CatchOn { after: Some(*duration), ..CatchOn::default() },
            _ => {
                let message = format!("`--wait-for` does not go with `--on {trigger}`");
                return Err(Failure::new(Code::Usage, message)
                    .with_hint(Some("it goes with `exit`, `exit!=0`, `crash` and `after:TIME`")));
            }
        };
        on = CatchOn {
            exit: on.exit || one.exit,
            failure: on.failure || one.failure,
            fatal_signal: on.fatal_signal || one.fatal_signal,
            after: on.after.or(one.after),
        };
    }
    Ok(on)
}
