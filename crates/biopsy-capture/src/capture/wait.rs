//! Waiting for something to happen before a recording begins.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use biopsy_record::triggers::{Trigger, Watch, WatchError, WatchOptions, Watched};

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::target::Target;

/// Waits until one of the triggers fires, and says why. `None`: there is none to wait for.
pub(crate) fn wait(triggers: &[Trigger], target: &Target, job: &Job) -> Result<Option<String>, Failure> {
    if triggers.is_empty() {
        return Ok(None);
    }
    let stop = job.flag();
    let options = WatchOptions { stop: Arc::clone(&stop), ..WatchOptions::default() };
    let mut watch = begin(triggers.to_vec(), target, options, job)?;
    match watch.next().map_err(|error| failure(&error))? {
        Watched::Fired(fired) => {
            job.step(&fired.reason);
            Ok(Some(fired.reason))
        }
        Watched::Ended(_) if stop.load(Relaxed) => {
            Err(Failure::new(FailureKind::Stopped, "nothing was recorded: stopped before it happened"))
        }
        Watched::Ended(_) => {
            let message = format!("process {} ended before it happened", target.info.key.pid);
            Err(Failure::new(FailureKind::Target, message))
        }
    }
}

/// Begins to watch a process, and tells so.
pub(crate) fn begin(
    triggers: Vec<Trigger>,
    target: &Target,
    options: WatchOptions,
    job: &Job,
) -> Result<Watch, Failure> {
    let words: Vec<String> = triggers.iter().map(ToString::to_string).collect();
    let watch = Watch::new(&target.info.key, triggers, options).map_err(|error| failure(&error))?;
    job.step(format!("waiting for {} of {} (pid {})", words.join(" or "), target.name, target.info.key.pid));
    for warning in watch.warnings() {
        job.remark(warning);
    }
    Ok(watch)
}

pub(crate) fn failure(error: &WatchError) -> Failure {
    Failure::from_error(FailureKind::Target, error).with_hint(error.hint())
}
