//! The way there: where the sealed file is, what is shown meanwhile, and what failures mean.

use std::time::{Duration, Instant};

use biopsy_capture::words::size;
use biopsy_capture::{Failure, FailureKind, Job};
use biopsy_deliver::{Link, Parcel, ParcelError, Progress, SendError};

use biopsy_cli::SendArgs;
use biopsy_foreground::out;

/// Time between two lines of progress.
const QUIET: Duration = Duration::from_secs(2);

/// Where the sealed file is, or will be.
pub(super) fn parcel(args: &SendArgs, link: &Link) -> Result<Parcel, Failure> {
    let path = match (&args.output, &args.file) {
        (Some(output), _) => output.clone(),
        (None, Some(file)) => Parcel::name_of(file, args.report_only),
        (None, None) => Parcel::name_for(link),
    };
    Parcel::at(path).map_err(not_sendable)
}

/// What it means that a file cannot be sent.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn not_sendable(error: ParcelError) -> Failure {
    let (kind, hint) = match &error {
        ParcelError::OtherName | ParcelError::Sent { .. } => (FailureKind::Usage, None),
        ParcelError::Taken { .. } => (
            FailureKind::Output,
            Some("remove it if an earlier run left it behind, or name another file with `--output`"),
        ),
        ParcelError::Unread { .. } => (FailureKind::BadInput, None),
    };
    Failure::from_error(kind, &error).with_hint(hint)
}

/// What a failure to send means.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failure(error: SendError) -> Failure {
    let kind = match &error {
        SendError::Refused
        | SendError::TooLarge { .. }
        | SendError::Answer { .. }
        | SendError::Blocked { .. }
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
