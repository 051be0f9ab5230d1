//! Many threads stand in the same place.

use crate::dump::{DumpAnalysis, StackGroup};
use crate::findings::dump::{at, share};
use crate::findings::evidence::{grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference};
use crate::words::threads;

/// Stacks of so many frames tell something; shorter ones are roots that everybody shares.
const TELLING: usize = 3;
/// Threads in one place: pools of workers at rest have tens.
const EQUAL: [usize; 3] = [usize::MAX, 200, 20];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let (index, group) = largest(analysis, |group| group.depth >= TELLING)?;
    let severity = grade(group.members.len(), EQUAL)?;
    let count = group.members.len();
    let place = group.place().map_or(String::new(), |place| format!(" in {}", place.name()));
    Some(Finding {
        id: FindingId::EqualThreads,
        severity,
        impact: share(analysis, count),
        title: format!("{} of {} stand in the same place{place}", threads(count), analysis.threads.len()),
        explanation: "A pool that waits for work looks like this and is healthy. When their number grows from dump to dump, or they \
                      wait for a peer, a lock or a device, they pile up behind it."
            .to_owned(),
        evidence: vec![at(Reference::Group(index), format!("they {}", plural(&group.doing)))],
        next_steps: steps(&["Compare with a second dump: do they grow, and do they still stand there?"]),
    })
}

/// The group with most threads of those that fit, did not crash and are in no circle.
pub(super) fn largest(
    analysis: &DumpAnalysis,
    fits: impl Fn(&StackGroup) -> bool,
) -> Option<(usize, &StackGroup)> {
    let groups = analysis.groups.iter().enumerate();
    let fitting = groups.filter(|(_, group)| !group.crashed && !group.in_cycle && fits(group));
    fitting.max_by_key(|(_, group)| group.members.len())
}

/// `waits for` → `wait for`.
pub(super) fn plural(words: &str) -> String {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    let verb = match verb {
        "is" => "are",
        "in" => "are in",
        "goes" => "go",
        verb => verb.strip_suffix('s').unwrap_or(verb),
    };
    format!("{verb} {rest}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn words_for_one_become_words_for_many() {
        assert_eq!(plural("waits for events on descriptor 5"), "wait for events on descriptor 5");
        assert_eq!(plural("is ending"), "are ending");
        assert_eq!(plural("runs its own code"), "run its own code");
        assert_eq!(plural("in system call `bpf`"), "are in system call `bpf`");
    }
}
