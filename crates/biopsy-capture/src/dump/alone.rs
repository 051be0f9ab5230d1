//! One core into a file or a stream of its own: no context, no report.

use std::io::Write;
use std::path::Path;

use biopsy_image::scrub::MaskCount;
use biopsy_image::write::{CoreError, CoreOutput, CoreSummary, PendingFile};
use biopsy_record::dump::mask::Literals;
use biopsy_record::dump::{Origin, values_left, write_file};
use biopsy_target::freeze::FreezePlan;

use crate::failure::{Failure, FailureKind};
use crate::job::{Event, Job};
use crate::place::parent;
use crate::target::Subject;
use crate::words::size;

use super::freeze::{ended_meanwhile, freeze_all, origin, release, secrets_of, thawing};
use super::plan::DumpPlan;
use super::write::{Until, masking, watching};

/// One core that was written without a recording around it.
#[derive(Debug)]
pub struct Alone {
    /// What was written.
    pub summary: CoreSummary,
    /// How it was taken.
    pub origin: Origin,
    /// Values that were masked, by rule.
    pub masked: Vec<MaskCount>,
    /// How many of those that were to be masked are still in it; of a stream nobody knows.
    pub left: u64,
}

impl Alone {
    /// Bytes of the memory that was to be in it and could not be read.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.summary.missing.iter().map(|one| one.range.end.saturating_sub(one.range.start)).sum()
    }
}

/// Into a file, which is there when it is whole.
pub(super) fn to_file(
    dump: &DumpPlan,
    subject: &Subject,
    plan: FreezePlan,
    path: &Path,
    job: &Job,
) -> Result<Alone, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let pending = PendingFile::create(path).map_err(failed)?;
    let partial = pending.partial_path().to_owned();
    let _leaving = job.keeping(&partial);
    job.made(path);
    let literals = secrets_of(dump, subject);
    let output = CoreOutput::File(pending.file());
    match write_alone(dump, &literals, plan, output, Some(&partial), job) {
        Ok(mut done) => {
            if dump.scrub {
                done.left = search(&partial, &literals).map_err(failed)?;
            }
            pending.finish(false).map_err(failed)?;
            Ok(done)
        }
        Err(failure) => {
            // An empty file helps nobody; what was written until the disk was full may.
            let something = pending.file().metadata().is_ok_and(|meta| meta.len() > 0);
            let kept = something.then(|| pending.keep_partial());
            if job.is_asked() {
                let what = kept.map_or_else(
                    || "nothing was written".to_owned(),
                    |kept| format!("what was written by then is in `{}`", kept.display()),
                );
                return Err(Job::stopped(&what));
            }
            Err(failure)
        }
    }
}

/// How many of these values are in a file of ours.
#[expect(clippy::disallowed_methods, reason = "we have made it, in one step, under a name of ours")]
fn search(path: &Path, literals: &Literals) -> std::io::Result<u64> {
    values_left(std::fs::File::open(path)?, &literals.finder())
}

/// Into a stream, as it comes.
pub(super) fn to_stream(
    dump: &DumpPlan,
    subject: &Subject,
    plan: FreezePlan,
    stream: &mut dyn Write,
    job: &Job,
) -> Result<Alone, Failure> {
    let name = if dump.sealed.is_some() { "the sealed core" } else { "the core on standard output" };
    // Said before, because what reads it may end first. Whoever passes it on must know.
    if dump.scrub {
        job.tell(Event::Warning(&format!(
            "secrets are masked on the way, but {name} cannot be searched afterwards: whether any is left is not known; \
             `-o FILE` alone searches what was written"
        )));
    }
    let literals = secrets_of(dump, subject);
    // A sealed file has no name before it is whole: the disk is that of its folder.
    let disk = dump.sealed.as_deref().map(parent);
    let done = write_alone(dump, &literals, plan, CoreOutput::Stream(stream), disk.as_deref(), job);
    let done = done.map_err(|failure| match (job.is_asked(), &dump.sealed) {
        (true, None) => Job::stopped("the core on standard output is cut short"),
        (true, Some(_)) => Job::stopped("nothing was written"),
        (false, _) => failure,
    })?;
    stream
        .flush()
        .map_err(|error| Failure::new(FailureKind::Output, format!("cannot write {name}: {error}")))?;
    if !done.summary.is_whole() {
        // Nothing else can say so: what went there is a core and nothing but a core.
        let what = match done.missing_bytes() {
            0 => "what is beyond `--max-size` is left out".to_owned(),
            missing => format!("{} could not be read", size(missing)),
        };
        job.note(format!("{name} is not whole: {what}"));
    }
    Ok(done)
}

fn write_alone(
    dump: &DumpPlan,
    literals: &Literals,
    plan: FreezePlan,
    output: CoreOutput<'_>,
    path: Option<&Path>,
    job: &Job,
) -> Result<Alone, Failure> {
    let predicted = plan.predicted_pause;
    let Some(process) = freeze_all(dump, plan, job)?.0.pop() else {
        return Err(Failure::new(FailureKind::Bug, "nothing was frozen"));
    };
    let origin = Origin { predicted_pause: Some(predicted), ..origin(&process) };
    let settings = dump.settings();
    let progress = thawing(dump, &process);
    let (written, masked) = watching(job, Until::Asked, &process, path, &progress, |progress| {
        masking(dump, &process, literals, |image| write_file(image, &origin, &settings, output, progress))
    });
    drop(progress);
    if let Some(message) = ended_meanwhile(&process) {
        job.tell(Event::Warning(&message));
    }
    release(process, job);
    written
        .map(|summary| Alone { summary, origin, masked, left: 0 })
        .map_err(|error| core_failure(&error, path))
}

fn core_failure(error: &CoreError, kept: Option<&Path>) -> Failure {
    // Of what is sealed there is nothing, but the folder that it was to be in.
    let kept = kept.filter(|kept| kept.is_file());
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
    let kind = match error {
        CoreError::Output { .. } | CoreError::Stopped { .. } => FailureKind::Output,
        CoreError::Thread(_) => FailureKind::Memory,
        // It is the process that cannot be read.
        CoreError::Image(_) => FailureKind::Target,
        _ => FailureKind::Bug,
    };
    Failure::from_error(kind, error).with_hint(hint)
}
