//! What of texts a capture would have: nothing is recorded or written, and the process is only read from.

use std::time::Duration;

use biopsy_record::context;
use biopsy_record::logs::LogWatch;
use biopsy_record::preview::Preview;

use crate::failure::Failure;
use crate::recording::masking_for;
use crate::stacks::{LookOptions, forecast};
use crate::target;
use crate::words::pause_text;

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

impl Coming {
    /// In a sentence, where that is wished.
    #[must_use]
    pub fn text(&self, wish: StacksWish) -> String {
        let condition = match wish {
            StacksWish::Never | StacksWish::Always => "",
            StacksWish::WhereNothingMoves => {
                ", if nothing moved and nothing that was recorded says why (`--never-stop` forbids it)"
            }
        };
        match self {
            Self::Nothing => "no process is stopped".to_owned(),
            Self::AtMost(most) => {
                let most = pause_text(*most);
                format!("it may stand still once, for {most} at most as predicted then{condition}")
            }
            Self::Frozen(Ok(pause)) => {
                format!("it stands still once, for {} as predicted now{condition}", pause_text(*pause))
            }
            Self::Frozen(Err(why)) => format!("it would not be frozen: {why}"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_end_would_do_is_said_with_its_condition_and_its_length() {
        let pause = Duration::from_millis(2);
        assert_eq!(Coming::Nothing.text(StacksWish::Never), "no process is stopped");
        let always = Coming::Frozen(Ok(pause)).text(StacksWish::Always);
        assert!(always.ends_with("as predicted now") && always.contains("2"), "{always}");
        let asked = Coming::AtMost(pause).text(StacksWish::WhereNothingMoves);
        assert!(asked.contains("at most") && asked.contains("`--never-stop` forbids it"), "{asked}");
        let refused = Coming::Frozen(Err("it is traced".to_owned())).text(StacksWish::Always);
        assert_eq!(refused, "it would not be frozen: it is traced");
    }
}
