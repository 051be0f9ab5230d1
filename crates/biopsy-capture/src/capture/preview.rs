//! What of texts a capture would have: nothing is recorded or written, and the process is only read from.

use biopsy_record::context;
use biopsy_record::logs::LogWatch;
use biopsy_record::preview::Preview;

use crate::failure::Failure;
use crate::recording::masking_for;
use crate::target;

use super::plan::{CapturePlan, Whom};
use super::record::log_config;

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
