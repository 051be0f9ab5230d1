//! The memory that several frozen copies take together.

use super::decide::ONE_FOR_ALL;
use crate::freeze::{Headroom, LimitedBy, Method, ProcessPlan};
use crate::preflight::Check;
use crate::preflight::storage::bytes_text;

/// Name of the check.
const NAME: &str = "memory-of-all";

/// Looks whether what is enough for each is enough for all: they are frozen in one moment, and their copies live at the
/// same time. Where it is not, refuses the one that needs most; where it may not be, says so.
pub(super) fn check(processes: &mut [ProcessPlan]) {
    if processes.len() < 2 || processes.iter().any(|one| one.method == Method::Refused) {
        return;
    }
    let mut limits: Vec<LimitedBy> = Vec::new();
    for limit in processes.iter().filter_map(|one| one.memory_limit.as_ref()) {
        if !limits.contains(limit) {
            limits.push(limit.clone());
        }
    }
    for limit in limits {
        check_one(processes, &limit);
    }
}

fn check_one(processes: &mut [ProcessPlan], limit: &LimitedBy) {
    let known = processes.iter().filter(|one| one.memory_limit.as_ref() == Some(limit));
    let Some(bytes) = known.filter_map(|one| one.memory_available).min() else { return };
    let under: Vec<&ProcessPlan> = processes.iter().filter(|one| counts_to(one, limit)).collect();
    let sum = |of: fn(&ProcessPlan) -> u64| under.iter().map(|one| of(one)).fold(0, u64::saturating_add);
    let (least, most) = (sum(|one| one.memory_at_least), sum(|one| one.memory_needed));
    let count = under.len();
    let spare = Headroom { bytes, by: limit.clone() }.to_spare(most);
    let place = match limit {
        LimitedBy::Machine => "on this machine".to_owned(),
        LimitedBy::Group(folder) => format!("in the control group `{}`", folder.display()),
    };
    let together = under.iter().any(|one| one.checks.iter().any(|check| check.name == ONE_FOR_ALL));
    if spare < least || together && spare < most {
        let largest = processes.iter_mut().filter(|one| counts_to(one, limit));
        let Some(largest) = largest.max_by_key(|one| one.memory_at_least) else { return };
        largest.method = Method::Refused;
        largest.why = format!(
            "{count} copies at the same time need {}, and {} can be spared {place}",
            if together {
                format!("up to {}", bytes_text(most))
            } else {
                format!("{} to begin with", bytes_text(least))
            },
            bytes_text(spare)
        );
        let hint = "dump the processes one by one".to_owned();
        largest.checks.push(Check::missing(NAME, largest.why.clone(), Some(hint)));
    } else if spare < most
        && let Some(first) = processes.first_mut()
    {
        let detail = format!(
            "{count} processes at the same time may need up to {}, and {} can be spared {place}; should they write to more \
             than that while they are dumped, copies are ended and their dumps are cut short",
            bytes_text(most),
            bytes_text(spare)
        );
        first.checks.push(Check::limited(NAME, detail, None));
    }
}

/// Whether its copy takes memory of this limit. What a group takes, the groups above it and the machine have to give.
fn counts_to(one: &ProcessPlan, limit: &LimitedBy) -> bool {
    match (limit, &one.memory_limit) {
        (LimitedBy::Machine, _) => true,
        (LimitedBy::Group(folder), Some(LimitedBy::Group(own))) => own.starts_with(folder),
        (LimitedBy::Group(_), _) => false,
    }
}
