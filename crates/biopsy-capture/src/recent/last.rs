//! A recording of the last minutes of a process that has ended.

use std::io::Write;
use std::sync::Arc;

use biopsy_analyze::Diagnosis;
use biopsy_model::capture::EndedBy;
use biopsy_record::context::clock_pair;
use biopsy_record::logs::{self, LogWatch};
use biopsy_record::metrics::FolderSink;
use biopsy_recording::layout;
use biopsy_sys::pidfd::Exit;

use crate::failure::{Failure, FailureKind};
use crate::finish::{HandedOver, finish};
use crate::job::Job;
use crate::place::Place;
use crate::recording::{Draft, output_failure, warning};

use super::answer::Recent;

/// How a process ended, in words; `None`: in good order, so that nobody needs its last minutes.
pub(super) fn bad_end(exit: Option<Exit>) -> Option<String> {
    /// SIGHUP, SIGINT, SIGTERM: what whoever stops a server sends.
    const STOPPED: [u8; 3] = [1, 2, 15];
    match exit {
        Some(Exit::Code(0)) => None,
        Some(Exit::Signal(signal)) if STOPPED.contains(&signal) => None,
        Some(Exit::Code(code)) if STOPPED.iter().any(|signal| code == 128 + signal) => None,
        Some(Exit::Code(code)) => Some(format!("it ended with exit code {code}")),
        Some(Exit::Signal(signal)) => Some(format!("it was ended by signal {signal}")),
        // Before Linux 6.15. Rather one too many than none of a crash.
        None => Some("it ended, and the kernel does not tell how".to_owned()),
    }
}

/// Writes it. The draft has the context of the beginning.
pub(super) fn write(
    mut draft: Draft,
    recent: &Recent,
    logs: logs::Config,
    place: &Place,
    why: &str,
    job: &Job,
) -> Result<(HandedOver, Diagnosis), Failure> {
    draft.keep();
    let failed = |error: std::io::Error| Failure::from_error(FailureKind::Output, &error);
    let mut timeline = draft.folder.create_member(layout::TIMELINE).map_err(output_failure)?;
    timeline.write_all(&recent.timeline).map_err(failed)?;
    let mut sink = FolderSink::new(Arc::clone(&draft.folder), draft.masking.clone());
    sink.rows_before(&recent.tables).map_err(failed)?;
    for trace in &recent.runtimes {
        draft.folder.runtime_trace(trace.clone()).map_err(output_failure)?;
    }
    draft.warn(
        "recording.last-minutes",
        recent.described(&format!("recorded because {why}: these are its last minutes")),
    );
    draft.warn_all(&recent.warnings());
    draft.header.start = recent.begin(&draft.header.start);
    if !logs.globs.is_empty() || !logs.journal_units.is_empty() {
        // Looked for only now: a file that is held open for days cannot be deleted by who rotates it.
        let watch = LogWatch::begin(logs);
        match watch.collect(&draft.header.start, &clock_pair(), &draft.folder, &draft.masking) {
            Ok(summary) => draft.warn_all(&summary.warnings),
            Err(error) => draft.warn_all(&[warning("logs.not-written", error.to_string())]),
        }
    }
    draft.end(EndedBy::TargetExited)?;
    draft.folder.redactions(&draft.masking.log().counts()).map_err(output_failure)?;
    finish(job, &draft, place, Diagnosis::of_capture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_stopped_in_good_order_leaves_nothing() {
        for (exit, is_bad) in [
            (Some(Exit::Code(0)), false),
            (Some(Exit::Code(143)), false),
            (Some(Exit::Signal(15)), false),
            (Some(Exit::Code(134)), true),
            (Some(Exit::Code(1)), true),
            (Some(Exit::Signal(9)), true),
            (Some(Exit::Signal(11)), true),
            (None, true),
        ] {
            assert_eq!(bad_end(exit).is_some(), is_bad, "{exit:?}");
        }
    }
}
