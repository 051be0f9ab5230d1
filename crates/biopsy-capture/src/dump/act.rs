//! Freezing, writing, releasing.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use biopsy_image::Image;
use biopsy_image::scrub::{MaskCount, ScrubbedImage};
use biopsy_image::write::{
    CaptureMethod, Compression, CoreError, CoreOutput, CoreSummary, DEFAULT_LEVEL, PendingFile,
};
use biopsy_model::Pid;
use biopsy_model::capture::CaptureHeader;
use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::{self, Moment};
use biopsy_record::dump::mask::{Literals, MemoryMask};
use biopsy_record::dump::{DumpProgress, DumpSettings, Dumped, Format, Origin, values_left, write_file};
use biopsy_record::masking::Masking;
use biopsy_recording::{RecordingFolder, WriteError};
use biopsy_target::freeze::{self, FreezeError, FreezePlan, FrozenProcess, Method};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt::{self, Leaving};
use crate::render::tell;
use crate::render::terminal::{ColorChoice, Terminal};
use crate::session::output::{Place, disk_is_nearly_full};
use crate::session::record::{header, new_masking, output_failure, warn_all, warning, write_processes};
use crate::session::seal::MADE;

use super::args::{self, DumpArgs};
use super::forecast::{freeze_failure, freeze_options};
use super::show::{Meter, pause_text, size};
use super::subject::Subject;

/// A recording that dumps go into.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) folder: Arc<RecordingFolder>,
    pub(crate) masking: Masking,
    pub(crate) header: CaptureHeader,
    pub(crate) place: Place,
    /// All whose context was taken.
    pub(crate) processes: Vec<ProcessInfo>,
    pub(crate) dumps: Vec<Dumped>,
    /// Values that were masked in dumped memory, by rule.
    pub(crate) masked: Vec<MaskCount>,
    /// The folder, until it is finished.
    pub(crate) leaving: Leaving,
    /// How many dumps of each process there are, those that are not written yet included.
    numbers: BTreeMap<Pid, u32>,
}

/// Creates the recording and takes the context, before anything is stopped.
pub(crate) fn open(subject: &Subject, place: Place) -> Result<Opened, Failure> {
    let masking = new_masking()?;
    let folder = Arc::new(RecordingFolder::create(&place.folder).map_err(output_failure)?);
    let leaving = interrupt::keeping(&place.folder);
    let header = header(&subject.target().key, &subject.name, &masking);
    folder.header(&header).map_err(output_failure)?;
    let mut opened = Opened {
        folder,
        masking,
        header,
        place,
        processes: Vec::new(),
        dumps: Vec::new(),
        masked: Vec::new(),
        leaving,
        numbers: BTreeMap::new(),
    };
    take_context(subject, &mut opened)?;
    Ok(opened)
}

/// Adds the context of processes to the recording.
pub(crate) fn take_context(subject: &Subject, opened: &mut Opened) -> Result<(), Failure> {
    let Opened { folder, masking, processes, .. } = opened;
    let summary =
        context::collect(&context::Config::default(), Moment::Start, &subject.pids(), folder, masking)
            .map_err(output_failure)?;
    warn_all(folder, &summary.warnings);
    processes.extend(
        subject
            .processes
            .iter()
            .filter(|one| !processes.iter().any(|known| known.key == one.key))
            .cloned()
            .collect::<Vec<_>>(),
    );
    write_processes(folder, masking, processes)
}

impl Opened {
    /// The number of the next dump of a process.
    pub(crate) fn next_number(&mut self, pid: Pid) -> u32 {
        let number = self.numbers.entry(pid).or_default();
        *number = number.saturating_add(1);
        *number
    }

    /// Takes up a dump that was written.
    pub(crate) fn add(&mut self, written: Written) -> Result<(), Failure> {
        let (dumped, masked) = written;
        merge(&mut self.masked, masked);
        self.dumps.push(dumped.map_err(output_failure)?);
        Ok(())
    }

    /// Searches the last dump for what was to be masked in it. It takes as long as reading it, so nothing is held meanwhile.
    pub(crate) fn check_scrubbed(&mut self, literals: &Literals) -> Result<(), Failure> {
        match self.dumps.last_mut() {
            Some(dumped) => dumped.check_scrubbed(literals, &self.folder).map_err(output_failure),
            None => Ok(()),
        }
    }

    /// Removes a recording that no dump came into: a folder of context alone would only puzzle.
    pub(crate) fn discard_if_empty(&self) -> bool {
        let empty = self.dumps.is_empty();
        if empty {
            let _ = self.folder.remove();
        }
        empty
    }
}

/// Freezes the processes of the plan and writes each into the recording.
pub(crate) fn dump(
    args: &DumpArgs,
    subject: &Subject,
    plan: FreezePlan,
    opened: &mut Opened,
    reason: &str,
) -> Result<(), Failure> {
    let predicted: Vec<(Pid, Duration)> =
        plan.processes.iter().map(|process| (process.key.pid, process.predicted_pause)).collect();
    let literals = secrets_of(args, subject);
    let (frozen, gone) = freeze_all(args, plan)?;
    warn_all(&opened.folder, &gone);
    let mut left_out = Vec::new();
    for process in frozen {
        let pid = process.process().pid;
        if interrupt::is_asked() {
            left_out.push(pid.to_string());
            continue;
        }
        let origin = Origin {
            predicted_pause: predicted.iter().find(|(of, _)| *of == pid).map(|(_, pause)| *pause),
            reason: reason.to_owned(),
            ..origin(&process)
        };
        if let Some(copy) = process.child() {
            context::write_smaps(&opened.folder, &opened.masking, pid, copy).map_err(output_failure)?;
        }
        write_one(args, &process, &literals, origin, opened, &thawing(args, &process))?;
        if let Some(left) = process.ended_early() {
            let message = format!(
                "the frozen copy of process {pid} was ended because memory ran short ({}): what was not written by then is missing",
                format_args!("{} were left", size(left.bytes))
            );
            warn_all(&opened.folder, &[warning("dump.memory-short", message)]);
        }
        if let Some(message) = ended_meanwhile(&process) {
            warn_all(&opened.folder, &[warning("dump.process-ended", message)]);
        }
        report_release(args, process.release());
        opened.check_scrubbed(&literals)?;
    }
    if !left_out.is_empty() {
        let message = format!("stopped by a signal: there is no dump of {}", left_out.join(", "));
        warn_all(&opened.folder, &[warning("dump.stopped", message)]);
    }
    Ok(())
}

/// That its copy went with the process, before all of it was read.
fn ended_meanwhile(process: &FrozenProcess) -> Option<String> {
    process.ended_with_process().then(|| {
        let pid = process.key().pid;
        format!(
            "process {pid} ended while it was dumped, and its frozen copy with it: what was not written by then is missing"
        )
    })
}

/// A dump, or why the recording could not be written, and what was masked in it.
pub(crate) type Written = (Result<Dumped, WriteError>, Vec<MaskCount>);

/// Writes one image, whatever it came from.
pub(crate) fn write_one(
    args: &DumpArgs,
    image: &dyn Image,
    literals: &Literals,
    origin: Origin,
    opened: &mut Opened,
    progress: &DumpProgress<'_>,
) -> Result<(), Failure> {
    let number = opened.next_number(image.process().pid);
    let folder = Arc::clone(&opened.folder);
    let written =
        write_image(args, image, literals, &Origin { number, ..origin }, &folder, Manner::of(args), progress);
    opened.add(written)
}

/// How an image is written.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// No progress is shown.
    pub(crate) quietly: bool,
    /// When it is given up.
    pub(crate) until: fn() -> bool,
}

impl Manner {
    /// Somebody is frozen or held for it: the first signal ends that.
    fn of(args: &DumpArgs) -> Self {
        Self { quietly: args.quiet, until: interrupt::is_asked }
    }
}

/// Writes one image into the folder.
pub(crate) fn write_image(
    args: &DumpArgs,
    image: &dyn Image,
    literals: &Literals,
    origin: &Origin,
    folder: &RecordingFolder,
    manner: Manner,
    progress: &DumpProgress<'_>,
) -> Written {
    let settings = settings(args);
    showing(manner, image, Some(folder.reach()), progress, |progress| {
        masking(args, image, literals, |image| {
            biopsy_record::dump::write(image, origin, &settings, folder, progress)
        })
    })
}

/// Ends the frozen copy as soon as all that only it has was read. Not where secrets are masked: what lies around a piece of shared
/// memory is looked at too.
fn thawing<'a>(args: &DumpArgs, process: &'a FrozenProcess) -> DumpProgress<'a> {
    if args.scrub {
        return DumpProgress::default();
    }
    DumpProgress::thawing(move || {
        process.thaw();
    })
}

/// Hands the image on, with its secrets masked where that is wanted, and tells what was masked.
fn masking<T>(
    args: &DumpArgs,
    image: &dyn Image,
    literals: &Literals,
    write: impl FnOnce(&dyn Image) -> T,
) -> (T, Vec<MaskCount>) {
    if !args.scrub {
        return (write(image), Vec::new());
    }
    let masked = ScrubbedImage::new(image, MemoryMask::new(literals));
    let written = write(&masked);
    (written, masked.counts())
}

/// Runs `write` beside a thread that draws its progress and ends it when the disk is nearly full, or a signal asks for that.
fn showing<T>(
    manner: Manner,
    image: &dyn Image,
    path: Option<&Path>,
    progress: &DumpProgress<'_>,
    write: impl FnOnce(&DumpProgress<'_>) -> T,
) -> T {
    let meter = Meter::start(image, manner.quietly, Terminal::of_stderr(ColorChoice::Auto));
    std::thread::scope(|scope| {
        // Without it nothing is drawn, and a full disk is noticed by the writer.
        let _ =
            std::thread::Builder::new().spawn_scoped(scope, || watch(progress, &meter, path, manner.until));
        // Also when `write` panics: the scope waits for that thread, and the frozen copy would be held for ever.
        let _finish = meter.finish_at_the_end();
        write(progress)
    })
}

/// Adds up counts of several dumps by rule.
fn merge(all: &mut Vec<MaskCount>, more: Vec<MaskCount>) {
    for one in more {
        match all.iter_mut().find(|known| known.rule == one.rule) {
            Some(known) => known.count = known.count.saturating_add(one.count),
            None => all.push(one),
        }
    }
}

/// Draws the progress, and ends the dump when the disk is nearly full or it is to be given up.
fn watch(progress: &DumpProgress<'_>, meter: &Meter, path: Option<&Path>, until: fn() -> bool) {
    while !meter.is_finished() {
        meter.update(progress.done.load(Relaxed), progress.total.load(Relaxed));
        if until() || path.is_some_and(disk_is_nearly_full) {
            progress.stop.store(true, Relaxed);
        }
        meter.rest();
    }
}

/// One core into a file of its own: no context, no report.
pub(crate) fn dump_to_file(
    args: &DumpArgs,
    subject: &Subject,
    plan: FreezePlan,
    path: &Path,
) -> Result<Code, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let pending = PendingFile::create(path).map_err(failed)?;
    let partial = pending.partial_path().to_owned();
    let leaving = interrupt::keeping(&partial);
    interrupt::made(path);
    match alone(args, subject, plan, CoreOutput::File(pending.file()), Some(&partial)) {
        Ok(mut done) => {
            if args.scrub {
                let written = std::fs::File::open(&partial).map_err(failed)?;
                done.left = values_left(written, &done.literals.finder()).map_err(failed)?;
            }
            pending.finish(false).map_err(failed)?;
            drop(leaving);
            super::show::show_alone(args, &path.display().to_string(), &done)
                .map_err(|failure| failure.naming(MADE, path))
        }
        Err(failure) => {
            // An empty file helps nobody; what was written until the disk was full may.
            let something = pending.file().metadata().is_ok_and(|meta| meta.len() > 0);
            let kept = something.then(|| pending.keep_partial());
            if interrupt::is_asked() {
                let what = kept.map_or_else(
                    || "nothing was written".to_owned(),
                    |kept| format!("what was written by then is in `{}`", kept.display()),
                );
                return Err(interrupt::failure(&what));
            }
            Err(failure)
        }
    }
}

/// One core to standard output, as it comes.
pub(crate) fn dump_to_stdout(args: &DumpArgs, subject: &Subject, plan: FreezePlan) -> Result<Code, Failure> {
    // Said before, because what reads it may end first. Also with `--quiet`: whoever passes it on must know.
    if args.scrub {
        crate::render::out::say(format_args!(
            "warning: secrets are masked on the way, but a core on standard output cannot be searched afterwards: whether any \
             is left is not known; `-o FILE` searches what was written"
        ));
    }
    let mut out = crate::render::out::stdout();
    let done = alone(args, subject, plan, CoreOutput::Stream(&mut out), None).map_err(|failure| {
        match interrupt::is_asked() {
            true => interrupt::failure("the core on standard output is cut short"),
            false => failure,
        }
    })?;
    out.flush()
        .map_err(|error| Failure::new(Code::Output, format!("cannot write to standard output: {error}")))?;
    let whole = done.summary.is_whole();
    if !whole {
        // Nothing else can say so: what is on standard output is a core and nothing but a core.
        let missing = super::show::missing_bytes(&done.summary);
        let what = match missing {
            0 => "what is beyond `--max-size` is left out".to_owned(),
            _ => format!("{} could not be read", size(missing)),
        };
        tell!("note: the core on standard output is not whole: {what}");
    }
    Ok(if whole { Code::Ok } else { Code::Partial })
}

/// One core that was written without a recording around it.
pub(crate) struct Alone {
    pub(crate) summary: CoreSummary,
    pub(crate) origin: Origin,
    /// Values that were masked, by rule.
    pub(crate) masked: Vec<MaskCount>,
    /// What was to be masked.
    pub(crate) literals: Literals,
    /// How many of them are still in it.
    pub(crate) left: u64,
}

fn alone(
    args: &DumpArgs,
    subject: &Subject,
    plan: FreezePlan,
    output: CoreOutput<'_>,
    path: Option<&Path>,
) -> Result<Alone, Failure> {
    let predicted = plan.predicted_pause;
    let literals = secrets_of(args, subject);
    let Some(process) = freeze_all(args, plan)?.0.pop() else {
        return Err(Failure::new(Code::Bug, "nothing was frozen"));
    };
    let origin = Origin { predicted_pause: Some(predicted), ..origin(&process) };
    let settings = settings(args);
    let thawing = thawing(args, &process);
    let (written, masked) = showing(Manner::of(args), &process, path, &thawing, |progress| {
        masking(args, &process, &literals, |image| write_file(image, &origin, &settings, output, progress))
    });
    drop(thawing);
    say_that_it_ended(args, &process);
    report_release(args, process.release());
    written
        .map(|summary| Alone { summary, origin, masked, literals, left: 0 })
        .map_err(|error| core_failure(&error, path))
}

/// What the writer needs to know.
fn settings(args: &DumpArgs) -> DumpSettings {
    let format = match args.format() {
        args::Format::Minidump => Format::Minidump,
        args::Format::Core if args.raw => Format::Core(Compression::None),
        args::Format::Core => {
            Format::Core(Compression::SeekableZstd { level: args.level.unwrap_or(DEFAULT_LEVEL) })
        }
    };
    DumpSettings {
        kind: args.kind().into(),
        format,
        max_size: args.max_size.map(|megabytes| megabytes.saturating_mul(1 << 20)),
        scrubbed: args.scrub,
    }
}

/// Values that the process was given as secrets, to be masked wherever they are in its memory.
pub(crate) fn secrets_of(args: &DumpArgs, subject: &Subject) -> Literals {
    if args.scrub { Literals::of(&subject.pids()) } else { Literals::default() }
}

/// Freezes all of the plan. Children that ended meanwhile are left out, with a warning: a tree in which something
/// always ends could not be dumped otherwise.
fn freeze_all(args: &DumpArgs, plan: FreezePlan) -> Result<(Vec<FrozenProcess>, Vec<Warning>), Failure> {
    let mut plan = if args.collapse { collapse(args, plan)? } else { plan };
    if interrupt::is_asked() {
        return Err(interrupt::failure("nothing was frozen"));
    }
    let mut gone = Vec::new();
    let frozen = loop {
        match freeze::freeze(plan.clone(), &freeze_options(args)) {
            Ok(frozen) => break frozen,
            Err(FreezeError::Ended { pid }) if is_child(&plan, pid) => {
                plan.processes.retain(|process| process.key.pid != pid);
                let message =
                    format!("process {pid} ended before it could be frozen: it is not among the dumps");
                gone.push(warning("dump.child-ended", message));
            }
            Err(error) => return Err(freeze_failure(&error)),
        }
    };
    // What follows takes seconds of CPU: the target and everybody else go first. Threads that are started from here on
    // inherit it; that it is refused is no reason to stop.
    let _ = rustix::process::setpriority_process(None, WRITER_NICE);
    if !args.quiet {
        for one in &gone {
            crate::render::out::say(format_args!("note: {}", one.message));
        }
        for process in &frozen {
            let pause = process.pause();
            crate::render::out::say(format_args!(
                "process {} stood still for {} ({} threads); it runs again",
                process.process().pid,
                pause_text(pause.stopped),
                pause.threads
            ));
        }
    }
    // Also for those who want no progress: what a dump lacks is not told by the dump itself.
    for warning in frozen.iter().flat_map(FrozenProcess::warnings).filter(|one| one.is_loss() || !args.quiet)
    {
        tell!("note: {warning}");
    }
    Ok((frozen, gone))
}

/// Whether it is in the plan, and not the process that was named.
fn is_child(plan: &FreezePlan, pid: Pid) -> bool {
    plan.processes.iter().skip(1).any(|process| process.key.pid == pid)
}

/// Nice value of what reads, compresses and writes (setpriority(2)).
pub(crate) const WRITER_NICE: i32 = 10;
/// How long making huge pages may take, per process.
const COLLAPSE_WITHIN: Duration = Duration::from_secs(120);

/// Makes huge pages of the heaps, and plans again with what there is then.
fn collapse(args: &DumpArgs, plan: FreezePlan) -> Result<FreezePlan, Failure> {
    let keys: Vec<_> = plan.processes.iter().map(|process| process.key.clone()).collect();
    for key in &keys {
        let report = freeze::collapse(key, COLLAPSE_WITHIN).map_err(|error| freeze_failure(&error))?;
        if !args.quiet {
            crate::render::out::say(format_args!(
                "process {}: {} huge pages made in {}, {} pieces refused, {} left",
                key.pid,
                report.made,
                pause_text(report.took),
                report.refused,
                report.left
            ));
        }
    }
    freeze::plan(&keys, &freeze_options(args)).map_err(|error| freeze_failure(&error))
}

fn origin(process: &FrozenProcess) -> Origin {
    Origin {
        method: match process.method() {
            Method::CopyOnWrite => CaptureMethod::CopyOnWrite,
            Method::StopAndCopy => CaptureMethod::StopAndCopy,
            Method::Refused => CaptureMethod::Unknown,
        },
        pause: process.pause().stopped,
        warnings: process.warnings().iter().map(ToString::to_string).collect(),
        lacking: process.warnings().iter().filter(|one| one.is_loss()).map(ToString::to_string).collect(),
        number: 1,
        reason: "asked for".to_owned(),
        predicted_pause: None,
    }
}

fn say_that_it_ended(args: &DumpArgs, process: &FrozenProcess) {
    if let Some(message) = ended_meanwhile(process).filter(|_| !args.quiet) {
        crate::render::out::say(format_args!("warning: {message}"));
    }
}

fn report_release(args: &DumpArgs, report: freeze::ReleaseReport) {
    if args.quiet {
        return;
    }
    for warning in &report.warnings {
        crate::render::out::say(format_args!("note: {warning}"));
    }
}

fn core_failure(error: &CoreError, kept: Option<&Path>) -> Failure {
    let hint = match (error, kept) {
        (CoreError::Output { whole, logical, .. }, Some(kept)) if *whole > 0 => Some(format!(
            "what was written is whole up to there ({} of {}): `{}`",
            size(*whole),
            size(*logical),
            kept.display()
        )),
        (_, Some(kept)) if kept.metadata().is_ok_and(|meta| meta.len() > 0) => {
            Some(format!("what was written until then is in `{}`", kept.display()))
        }
        _ => None,
    };
    let code = match error {
        CoreError::Output { .. } | CoreError::Stopped { .. } => Code::Output,
        CoreError::Thread(_) => Code::Memory,
        // It is the process that cannot be read.
        CoreError::Image(_) => Code::Target,
        _ => Code::Bug,
    };
    Failure::from_error(code, error).with_hint(hint)
}
