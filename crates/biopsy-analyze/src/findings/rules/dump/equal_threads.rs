//! Many threads stand in the same place.

use crate::dump::{DumpAnalysis, StackGroup, WaitKind};
use crate::findings::dump::{NAMED, at, share};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::whose::Whose;
use crate::words::{shorten, threads};

/// Stacks of so many frames tell something; shorter ones are roots that everybody shares.
const TELLING: usize = 3;
/// Threads in one place: pools of workers at rest have tens.
const EQUAL: [usize; 3] = [usize::MAX, 200, 20];
/// Functions of the program below the wait, from which on a thread is in the middle of something: a worker at rest stands in two to
/// five (its body, the loop, the taking of work; MariaDB, PostgreSQL, Redis, nginx, libuv).
const AT_WORK: usize = 8;
/// So many in one place, and in the middle of work, wait for something that one of the others has.
const PILED_UP: usize = 4;
/// Functions on the way to the wait that are named.
const WAY: usize = 8;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if let Some(found) = piled_up(analysis) {
        return Some(found);
    }
    let (index, group) = largest(analysis, |group| group.depth >= TELLING)?;
    let severity = grade(group.members.len(), EQUAL)?;
    Some(finding(
        analysis,
        (severity, group),
        "stand in the same place",
        "A pool that waits for work looks like this and is healthy. When their number grows from dump to dump, or they \
         wait for a peer, a lock or a device, they pile up behind it.",
        vec![at(Reference::Group(index), format!("they {}", plural(&group.doing)))],
    ))
}

fn largest(analysis: &DumpAnalysis, fits: impl Fn(&StackGroup) -> bool) -> Option<(usize, &StackGroup)> {
    let groups = analysis.groups.iter().enumerate();
    let fitting = groups.filter(|(_, group)| !group.crashed && !group.in_cycle && fits(group));
    fitting.max_by_key(|(_, group)| group.members.len())
}

/// Threads that were at work, and now wait in one place for what another thread has to give: a row of a table, an entry of a cache.
/// Whoever has it is most often at work, too.
fn piled_up(analysis: &DumpAnalysis) -> Option<Finding> {
    let waits = |group: &StackGroup| {
        let mut members = group.members.iter().filter_map(|index| analysis.threads.get(*index));
        members.all(|thread| thread.state.wait() == Some(WaitKind::Futex))
    };
    let (index, group) =
        largest(analysis, |group| group.members.len() >= PILED_UP && at_work(group) && waits(group))?;
    let mut evidence = vec![at(Reference::Group(index), format!("they {}", plural(&group.doing)))];
    let way: Vec<String> = group
        .frames
        .iter()
        .filter(|row| row.whose == Whose::Program)
        .filter_map(|row| Some(format!("`{}`", shorten(row.function.as_ref()?))))
        .take(WAY)
        .collect();
    if !way.is_empty() {
        evidence.push(fact(format!("on the way there: {}", way.join(" ← ")), None));
    }
    let others = analysis.groups.iter().filter(|other| *other != group && at_work(other));
    let others = others.flat_map(|other| &other.members).filter_map(|index| analysis.threads.get(*index));
    let others: Vec<String> = others
        .take(NAMED)
        .map(|thread| {
            let place =
                analysis.place(thread.tid).map_or(String::new(), |place| format!(" in {}", place.name()));
            evidence.push(at(
                Reference::Thread(thread.tid),
                format!("also in the middle of its work: {}{place}", thread.label()),
            ));
            format!("{}{place}", thread.label())
        })
        .collect();
    let mut found = finding(
        analysis,
        (Severity::Notice, group),
        "are held up in the middle of their work",
        "They have work and do not get on: each needs what somebody else has or is about to give, a lock of the program's own making for \
         example (rows of a table, an entry of a cache, a connection of a pool). Memory does not say who that is; it may be a thread that is \
         in the middle of its work, too.",
        evidence,
    );
    if let [one] = others.as_slice() {
        found.title.push_str(&format!("; what they wait for may be with {one}"));
    }
    Some(found)
}

fn at_work(group: &StackGroup) -> bool {
    group.frames.iter().filter(|row| row.whose == Whose::Program && !row.inlined).count() >= AT_WORK
}

fn finding(
    analysis: &DumpAnalysis,
    (severity, group): (Severity, &StackGroup),
    what: &str,
    explanation: &str,
    evidence: Vec<Evidence>,
) -> Finding {
    let count = group.members.len();
    let place = group.place().map_or(String::new(), |place| format!(" in {}", place.name()));
    Finding {
        id: FindingId::EqualThreads,
        severity,
        impact: share(analysis, count),
        title: format!("{} of {} {what}{place}", threads(count), analysis.threads.len()),
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(&["Compare with a second dump: do they grow, and do they still stand there?"]),
    }
}

/// `waits for` → `wait for`.
fn plural(words: &str) -> String {
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
