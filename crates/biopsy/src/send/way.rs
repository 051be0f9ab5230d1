//! The way there: where the sealed file is, what is shown meanwhile, and what failures mean.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use biopsy_capture::words::size;
use biopsy_capture::{Failure, FailureKind, Job};
use biopsy_deliver::state::State;
use biopsy_deliver::{Link, Progress, SendError};

use super::args::SendArgs;
use super::seal::{bundle_of, with_age};
use crate::render::out;

/// Time between two lines of progress.
const QUIET: Duration = Duration::from_secs(2);

/// Where the sealed file is, or will be. For a request it is named after it, so that the same command finds it again.
pub(super) fn sealed_path(args: &SendArgs, link: &Link) -> Result<PathBuf, Failure> {
    let path = match (&args.output, &args.file) {
        (Some(output), _) => output.clone(),
        (None, Some(file)) => with_age(file, args.report_only),
        (None, None) => PathBuf::from(format!("biopsy-request-{}.biopsy.zip.age", link.id)),
    };
    if path.extension().is_none_or(|ending| ending != "age") {
        return Err(Failure::new(FailureKind::Usage, "the name of a sealed file ends in `.age`"));
    }
    let is_begun = State::path_of(&path).is_file();
    if State::receipt_of(&path).is_file() && !is_begun {
        let message = format!("`{}` was sent: its receipt is beside it", path.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    Ok(path)
}

/// Nothing is there that what is about to be made would take the place of, or be taken for.
pub(super) fn check_room(args: &SendArgs, sealed: &Path) -> Result<(), Failure> {
    let recorded = args.file.is_none().then(|| bundle_of(sealed));
    for path in std::iter::once(sealed.to_owned()).chain(recorded) {
        if path.symlink_metadata().is_ok() {
            let message =
                format!("`{}` is there already, and is not being sent to this link", path.display());
            let hint = "remove it if an earlier run left it behind, or name another file with `--output`";
            return Err(Failure::new(FailureKind::Output, message).with_hint(Some(hint)));
        }
    }
    Ok(())
}

/// A file of ours that cannot be read.
pub(super) fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", path.display()))
}

/// What a failure to send means.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failure(error: SendError) -> Failure {
    let kind = match &error {
        SendError::Refused
        | SendError::TooLarge { .. }
        | SendError::Answer { .. }
        | SendError::Unreachable(_)
        | SendError::NotBelieved { .. }
        | SendError::OtherReaders
        | SendError::OtherReceipt => FailureKind::Delivery,
        SendError::Changed(_) => FailureKind::BadInput,
        SendError::Io { .. } => FailureKind::Output,
        SendError::Stopped => FailureKind::Stopped,
    };
    Failure::from_error(kind, &error)
}

/// Shows how far it is, and notices when somebody wants it to end.
pub(super) struct Watch<'a> {
    job: &'a Job,
    is_quiet: bool,
    last: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(job: &'a Job, is_quiet: bool) -> Self {
        Self { job, is_quiet, last: None }
    }

    /// Whether to go on.
    pub(super) fn shows(&mut self, progress: &Progress) -> bool {
        let line = match progress {
            Progress::At { sent, of } => format!("sent {} of {}", size(*sent), size(*of)),
            Progress::Again { why, in_milliseconds } => {
                let pause = Duration::from_millis(*in_milliseconds).as_secs_f64();
                format!("no way to the lab ({why}); again in {pause:.1} s")
            }
        };
        if !self.is_quiet && self.last.is_none_or(|last| last.elapsed() >= QUIET) {
            out::say(format_args!("{line}"));
            self.last = Some(Instant::now());
        }
        !self.job.is_asked()
    }
}
