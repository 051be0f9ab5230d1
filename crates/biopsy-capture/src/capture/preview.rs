//! What of texts a capture would have: nothing is recorded or written, and the process is only read from.

use std::time::Duration;

use biopsy_record::context;
use biopsy_record::logs::LogWatch;
use biopsy_record::preview::Preview;

use crate::failure::Failure;
use crate::recording::masking_for;
use crate::stacks::{LookOptions, forecast};
use crate::target;

use super::plan::{CapturePlan, StacksWish, UNASKED_PAUSE, Whom};
use super::record::log_config;

/// What the end of a recording would do to the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Coming {
    /// It is never stopped.
    Nothing,
    /// The program is not started, so nothing can be predicted: longer than this it never stands still.
    AtMost(Duration),
    /// It stands still once for what its memory says; for as long as is predicted now, or not at all, and why.
    Frozen(Result<Duration, String>),
}

/// What the end of the recording would do to the target, predicted now.
///
/// # Errors
/// There is no such process.
pub fn coming(plan: &CapturePlan) -> Result<Coming, Failure> {
    let max_pause = match plan.stacks {
        StacksWish::Never => return Ok(Coming::Nothing),
        StacksWish::WhereNothingMoves => UNASKED_PAUSE,
        StacksWish::Always => LookOptions::default().max_pause,
    };
    match &plan.whom {
        Whom::Running(text) => {
            let target = target::find(text)?;
            Ok(Coming::Frozen(forecast(&target.info, max_pause)))
        }
        Whom::Started(_) | Whom::Held(_) => Ok(Coming::AtMost(max_pause)),
    }
}

/// Environment and arguments of the target, and the last lines of each log, masked as they would be.
///
/// # Errors
/// There is no such process.
pub fn preview(plan: &CapturePlan) -> Result<Vec<Preview>, Failure> {
    let masking = masking_for(plan.anonymize)?;
    let pid = match &plan.whom {
        Whom::Running(text) => Some(target::find(text)?.info.key.pid),
        Whom::Started(_) => None,
        Whom::Held(held) => Some(held.pid),
    };
    // First, because it learns what logs are masked with.
    let mut previews: Vec<Preview> = pid.map_or_else(Vec::new, |pid| context::preview(pid, &masking).into());
    previews.extend(LogWatch::begin(log_config(plan, pid)).preview(&masking));
    Ok(previews)
}
