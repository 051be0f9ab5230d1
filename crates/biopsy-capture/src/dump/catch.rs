//! Processes of a name below the target, caught as they start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_record::triggers::Trigger;
use biopsy_target::catch::{CatchError, CatchOn, CatchOptions, CatchStatistics, Catcher};

use crate::failure::{Failure, FailureKind};
use crate::recording::warning;
use crate::words::pause_text;

use super::held::{Dumper, Nice};
use super::queue::{self, Queue};

/// How soon the end is noticed.
const SLICE: Duration = Duration::from_millis(100);
/// Caught processes that may wait to be copied, held at their end.
const MAX_WAITING: usize = 512;
/// Nice value of what copies processes that are held: they, and whoever waits for their end, wait for that. On a machine with eighty
/// runnable threads a child was held for 1.5 s without it.
const COPIER_NICE: i32 = -20;

/// Notes of what was missed that are told.
const NOTES: usize = 20;

/// Dumps them as they come, until as many were dumped as are wanted, or nothing is left that could start them. Returns why it ended.
pub(super) fn catch(dumper: &mut Dumper<'_>, name: &str, stop: &AtomicBool) -> Result<String, Failure> {
    let (plan, job) = (dumper.plan, dumper.job);
    let options = CatchOptions {
        max_waiting: MAX_WAITING,
        ..CatchOptions::new(name, moments(&plan.on)?).below(dumper.subject.target().key.clone())
    };
    let mut catcher = Catcher::new(&options).map_err(|error| failed(&error))?;
    job.step(format!("waiting for {name} below {} ({})", dumper.subject.name, catcher.chosen().why));
    // Programs that are not seen are not caught.
    for limit in &catcher.chosen().limits {
        job.note(limit);
    }
    let room = Arc::clone(&dumper.room);
    let ((ended, statistics), written) = queue::writing(plan, &room, job, |queue| {
        let _ahead = Nice::set(COPIER_NICE);
        let ended = take_all(dumper, &mut catcher, stop, queue);
        // Whoever is still held goes on before the rest is written.
        let statistics = catcher.statistics();
        catcher.finish();
        let waiting = queue.waiting();
        if waiting > 0 {
            job.step(format!("{waiting} dumps are still being written; nothing is held any more"));
        }
        (ended, statistics)
    })?;
    // That one could not be written is no reason to lose the others.
    let mut not_written = Ok(());
    if let Some(recording) = &mut dumper.recording {
        for one in written {
            not_written = not_written.and(recording.add(one));
        }
        recording.draft.warn_all(&missed(&statistics));
    }
    let why = ended?;
    not_written?;
    job.step(format!(
        "{} followed, {} caught, {} missed, {} not looked at; {} executions waited {} at most",
        statistics.followed,
        statistics.caught,
        statistics.missed,
        statistics.unseen,
        statistics.executions,
        pause_text(statistics.longest_wait)
    ));
    for note in statistics.notes.iter().take(NOTES) {
        job.remark(note);
    }
    Ok(why)
}

fn failed(error: &CatchError) -> Failure {
    Failure::from_error(FailureKind::Target, error).with_hint(error.hint())
}

fn take_all(
    dumper: &mut Dumper<'_>,
    catcher: &mut Catcher,
    stop: &AtomicBool,
    queue: &Queue<'_>,
) -> Result<String, Failure> {
    let target = dumper.subject.target().key.clone();
    let mut taken = 0;
    let mut closed = false;
    loop {
        if stop.load(Relaxed) && !closed {
            // What stands at its end by now came in time.
            catcher.close();
            closed = true;
        }
        if taken >= dumper.plan.count {
            return Ok("it was dumped as often as was asked for".to_owned());
        }
        if queue.has_failed() {
            return Ok("the recording cannot be written any more".to_owned());
        }
        match catcher.next(SLICE) {
            Ok(Some(caught)) => {
                taken += 1;
                let reason = caught.cause().to_string();
                dumper.dump_held(caught, &reason, Some(queue))?;
            }
            Ok(None) if !closed && !biopsy_target::is_same(&target) => {
                return Ok(format!("process {} has ended", target.pid));
            }
            Ok(None) => {}
            Err(CatchError::Ended) if closed => return Ok("stopped".to_owned()),
            Err(CatchError::Ended) => {
                return Ok(format!("everything below {} has ended", dumper.subject.name));
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// What should have been caught and was not, as warnings of the recording.
fn missed(statistics: &CatchStatistics) -> Vec<Warning> {
    if statistics.missed == 0 && statistics.unseen == 0 {
        return Vec::new();
    }
    let notes = statistics.notes.iter().take(NOTES).map(String::as_str).collect::<Vec<_>>().join("; ");
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
                return Err(Failure::new(FailureKind::Usage, message)
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
