//! Threads that were at work, and now wait in one place for what another thread has to give: a row of a table, an entry of a cache.
//! Whoever has it is most often at work, too.

use super::equal_threads::{largest, plural};
use crate::dump::{DumpAnalysis, DumpThread, StackGroup, WaitKind};
use crate::findings::dump::{NAMED, at, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};
use crate::whose::Whose;
use crate::words::{shorten, threads};

/// Functions of the program below the wait, from which on a thread is in the middle of something: a worker at rest stands in two to
/// five (its body, the loop, the taking of work; of MariaDB).
const AT_WORK: usize = 8;
/// So many in one place, and in the middle of work, wait for something that one of the others has.
const HELD_UP: usize = 4;
/// Functions on the way to the wait that are named.
const WAY: usize = 8;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let waits = |group: &StackGroup| {
        let mut members = group.members.iter().filter_map(|index| analysis.threads.get(*index));
        members.all(|thread| thread.state.wait() == Some(WaitKind::Futex))
    };
    let (index, group) =
        largest(analysis, |group| group.members.len() >= HELD_UP && at_work(group) && waits(group))?;
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
    // Who waits for the next request stands as deep, and is at rest.
    let is_served = |thread: &&DumpThread| {
        let wait = thread.state.wait();
        !matches!(wait, Some(WaitKind::Input | WaitKind::Connection | WaitKind::Events))
    };
    let others = others.filter(is_served);
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
    let count = group.members.len();
    let place = group.place().map_or(String::new(), |place| format!(" in {}", place.name()));
    let with = match others.as_slice() {
        [one] => format!("; what they wait for may be with {one}"),
        _ => String::new(),
    };
    Some(Finding {
        id: FindingId::HeldUp,
        severity: Severity::Notice,
        impact: share(analysis, count),
        title: format!(
            "{} of {} are held up in the middle of their work{place}{with}",
            threads(count),
            analysis.threads.len()
        ),
        explanation: "They have work and do not get on: each needs what somebody else has or is about to give, a lock of the program's own \
                      making for example (rows of a table, an entry of a cache, a connection of a pool). Memory does not say who that is: a \
                      thread that is in the middle of its work, too, or one that rests with something begun (a transaction that its client left open)."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at what the other threads at work do, and at what the program itself says of its locks",
            "Look again: do they still stand there (`biopsy stacks --looks 3`)?",
        ]),
    })
}

fn at_work(group: &StackGroup) -> bool {
    group.frames.iter().filter(|row| row.whose == Whose::Program && !row.inlined).count() >= AT_WORK
}
