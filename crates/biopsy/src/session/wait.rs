//! Waiting for something to happen before a recording begins.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use biopsy_record::triggers::{Trigger, Watch, WatchError, WatchOptions, Watched};

use crate::cli::CaptureArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt;

use super::subject::Subject;

/// Waits until one of the triggers fires, and says why. `None`: there is none to wait for.
pub(super) fn wait(args: &CaptureArgs, subject: &Subject) -> Result<Option<String>, Failure> {
    if args.on.is_empty() {
        return Ok(None);
    }
    let triggers = args.on.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    let words: Vec<String> = triggers.iter().map(ToString::to_string).collect();
    let stop = interrupt::flag();
    let failed = |error: WatchError| {
        let hint = error.hint();
        Failure::from_error(Code::Target, &error).with_hint(hint)
    };
    let options = WatchOptions { stop: Arc::clone(&stop), ..WatchOptions::default() };
    let mut watch = Watch::new(&subject.info.key, triggers, options).map_err(failed)?;
    if !args.quiet {
        crate::render::out::say(format_args!(
            "waiting for {} of {} (pid {})",
            words.join(" or "),
            biopsy_model::printable::printable(&subject.name),
            subject.pid()
        ));
        for warning in watch.warnings() {
            crate::render::out::say(format_args!("note: {warning}"));
        }
    }
    match watch.next().map_err(failed)? {
        Watched::Fired(fired) => {
            if !args.quiet {
                crate::render::out::say(format_args!("{}", fired.reason));
            }
            Ok(Some(fired.reason))
        }
        Watched::Ended(_) if stop.load(Relaxed) => {
            Err(Failure::new(Code::Partial, "nothing was recorded: stopped before it happened"))
        }
        Watched::Ended(_) => {
            Err(Failure::new(Code::Target, format!("process {} ended before it happened", subject.pid())))
        }
    }
}

fn parse(text: &str) -> Result<Trigger, Failure> {
    let trigger = Trigger::parse(text)
        .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(Some(error.hint())))?;
    if trigger.needs_tracing() {
        let message = format!("a recording cannot begin with `{trigger}`: nothing is left to record then");
        return Err(Failure::new(Code::Usage, message)
            .with_hint(Some("`biopsy dump --on` holds a process at its end")));
    }
    Ok(trigger)
}
