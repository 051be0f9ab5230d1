//! Nothing but the minutes before: what was kept is written, and nothing is attached.

use std::io::Write;
use std::sync::Arc;

use biopsy_model::capture::EndedBy;
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::TimelineEvent;
use biopsy_record::context::{Moment, clock_pair};
use biopsy_record::logs::LogWatch;
use biopsy_record::metrics::FolderSink;
use biopsy_record::trace::TraceSummary;
use biopsy_recording::{Limits, layout, timeline};

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::place::Place;
use crate::recent::Recent;
use crate::recording::{Draft, masking_for, output_failure, warning};

use super::before::Asked;
use super::plan::{CapturePlan, StacksWish};
use super::record::{Recorded, log_config};
use super::subject::Subject;

/// Whether a plan asks for nothing that has to be recorded now.
pub(super) fn is_enough(plan: &CapturePlan) -> bool {
    plan.recent.as_ref().is_some_and(|recent| recent.is_all)
        && plan.stacks != StacksWish::Always
        && plan.memory_snapshots == 0
}

/// Writes what was kept, with the context of now.
pub(super) fn take(
    plan: &CapturePlan,
    subject: &Subject,
    asked: &Asked,
    place: &Place,
    job: &Job,
) -> Result<Recorded, Failure> {
    let target = &subject.target;
    // First of all: each moment later is one less of those that are wanted.
    let now = clock_pair();
    let (recent, _) = asked.answer(&now).map_err(|error| {
        let pid = target.info.key.pid;
        let message = format!("cannot get the last minutes of process {pid} from who keeps them: {error}");
        Failure::new(FailureKind::Target, message)
    })?;
    let (key, name) = (&target.info.key, &target.name);
    let masking = masking_for(plan.anonymize)?;
    let mut draft = Draft::begin_with(masking, job, &place.folder, key, name, &plan.command)?;
    draft.keep();
    draft.header.start = recent.begin(&now);
    let tree = target.tree(plan.children)?;
    let logs = LogWatch::begin(log_config(plan, Some(subject.pid())));
    if !plan.trace_only {
        draft.context(&tree, Moment::Start).map_err(output_failure)?;
    }
    draft.write_processes(&tree)?;
    let failed = |error: std::io::Error| Failure::from_error(FailureKind::Output, &error);
    let mut file = draft.folder.create_member(layout::TIMELINE).map_err(output_failure)?;
    file.write_all(&recent.timeline).map_err(failed)?;
    drop(file);
    if plan.dotnet.is_some() {
        draft.warn_all(&recent.warnings());
        for trace in recent.runtimes.iter().cloned() {
            draft.folder.runtime_trace(trace).map_err(output_failure)?;
        }
    }
    if !plan.trace_only {
        let mut sink = FolderSink::new(Arc::clone(&draft.folder), draft.masking.clone());
        sink.rows_before(&recent.tables).map_err(failed)?;
    }
    draft.warn("recording.before", recent.described(&recent.kept()));
    if !plan.logs.is_empty() || !plan.journal.is_empty() {
        match logs.collect(&draft.header.start, &now, &draft.folder, &draft.masking) {
            Ok(summary) => draft.warn_all(&summary.warnings),
            Err(error) => draft.warn_all(&[warning("logs.not-written", error.to_string())]),
        }
    }
    draft.header.end = Some(now);
    draft.header.ended_by = EndedBy::Time;
    draft.folder.redactions(&draft.masking.log().counts()).map_err(output_failure)?;
    draft.write_header()?;
    let trace = Some(summary(&recent));
    Ok(Recorded { draft, trace, snapshots: Vec::new(), frozen: Vec::new(), hurried: job.is_hurried() })
}

/// What there is, counted.
fn summary(recent: &Recent) -> TraceSummary {
    let mut summary = TraceSummary {
        frequency_hz: recent.frequency_hz,
        bytes: recent.timeline.len() as u64,
        ..TraceSummary::default()
    };
    let read = timeline::read_events(recent.timeline.as_slice(), &Limits::default(), |event| match event {
        TimelineEvent::Settings(settings) => summary.method = settings.method,
        TimelineEvent::Sample(sample) => {
            summary.samples += 1;
            summary.rooted += u64::from(sample.end == StackEnd::Root);
        }
        TimelineEvent::Wait(_) => summary.waits += 1,
        TimelineEvent::WaitSample(look) => summary.wait_stacks += u64::from(look.stack.is_some()),
        TimelineEvent::Loss(loss) if !loss.kind.is_meant() => summary.lost += loss.count.max(1),
        TimelineEvent::Frame(_) => summary.frames.0 += 1,
        TimelineEvent::Symbols(_) => summary.frames.1 += 1,
        _ => {}
    });
    summary.cut_short = read.err().map(|error| format!("what was kept cannot be read: {error}"));
    summary
}
