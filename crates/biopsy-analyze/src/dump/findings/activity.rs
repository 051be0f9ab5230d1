//! What the threads do.

use super::{at, fact, severity_by, share, steps};
use crate::dump::state::{ThreadState, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread, LockKind};
use crate::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::words::{percent, threads};

/// Stacks of so many frames tell something; shorter ones are roots that everybody shares.
const TELLING: usize = 3;

/// Many threads stand in the same place.
pub(super) fn equal_threads(analysis: &DumpAnalysis) -> Option<Finding> {
    let (index, group) = analysis
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| !group.crashed && !group.in_cycle && group.depth >= TELLING)
        .max_by_key(|(_, group)| group.members.len())?;
    let count = group.members.len();
    let severity = severity_by(count, usize::MAX, 200, 20)?;
    let place = group.own_frame().map_or(String::new(), |row| format!(" in `{}`", row.label()));
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

pub(super) fn many_threads(analysis: &DumpAnalysis) -> Option<Finding> {
    let count = analysis.threads.len();
    let severity = severity_by(count, usize::MAX, 2000, 500)?;
    Some(Finding {
        id: FindingId::ManyThreads,
        severity,
        impact: (count as f64 / 10_000.0).min(1.0),
        title: format!("The process has {}", threads(count)),
        explanation: "Each thread costs a stack and time of the scheduler. So many are rarely meant: a pool without a limit, or \
                      threads that are started for each request and never end."
            .to_owned(),
        evidence: vec![fact(
            format!("{} different stacks", analysis.groups.len()),
            Some(Value::Count(analysis.groups.len() as f64)),
        )],
        next_steps: steps(&["See in the largest groups of equal stacks who they are"]),
    })
}

/// Threads that execute.
pub(super) fn running(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let count = analysis.threads.iter().filter(|thread| thread.state == ThreadState::Running).count();
    if count == 0 {
        return None;
    }
    let groups = analysis.groups.iter().enumerate().filter(|(_, group)| group.running > 0).take(5);
    let evidence = groups
        .map(|(index, group)| {
            let place = group
                .frames
                .first()
                .map_or_else(|| "an unknown place".to_owned(), |row| format!("`{}`", row.label()));
            at(Reference::Group(index), format!("{} in {place}", threads(group.running)))
        })
        .collect();
    Some(Finding {
        id: FindingId::Running,
        severity: Severity::Info,
        impact: share(analysis, count),
        title: format!("{} of {} execute code of their own", threads(count), analysis.threads.len()),
        explanation: "They were on a CPU, or ready for one, when the dump was taken. One moment says little about CPU time: a trace does."
            .to_owned(),
        evidence,
        next_steps: Vec::new(),
    })
}

type Kind = fn(&DumpThread) -> bool;

/// The last word: what they all do.
pub(super) fn overview(analysis: &DumpAnalysis) -> Finding {
    let kinds: &[(&str, Kind)] = &[
        ("execute code of their own", |thread| thread.state == ThreadState::Running),
        ("wait for a lock", |thread| {
            thread.lock.as_ref().is_some_and(|lock| {
                matches!(lock.kind, LockKind::Mutex | LockKind::RwLockRead | LockKind::RwLockWrite)
            })
        }),
        ("wait for the end of a thread", |thread| {
            thread.lock.as_ref().is_some_and(|lock| lock.kind == LockKind::Join)
        }),
        ("wait at a condition, semaphore or other futex", |thread| {
            thread.state.wait() == Some(WaitKind::Futex)
                && thread.lock.as_ref().is_none_or(|lock| {
                    !matches!(
                        lock.kind,
                        LockKind::Mutex | LockKind::RwLockRead | LockKind::RwLockWrite | LockKind::Join
                    )
                })
        }),
        ("wait for events of descriptors", |thread| thread.state.wait() == Some(WaitKind::Events)),
        ("wait for input or a connection", |thread| {
            matches!(thread.state.wait(), Some(WaitKind::Input | WaitKind::Connection))
        }),
        ("write, or wait for a device", |thread| thread.state.wait() == Some(WaitKind::Output)),
        ("sleep", |thread| thread.state.wait() == Some(WaitKind::Time)),
        ("wait for a child process", |thread| thread.state.wait() == Some(WaitKind::Child)),
    ];
    let counted =
        kinds.iter().map(|(words, is)| (*words, analysis.threads.iter().filter(|thread| is(thread)).count()));
    let mut counted: Vec<(&str, usize)> = counted.filter(|(_, count)| *count > 0).collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all = analysis.threads.len();
    let title = match counted.first() {
        Some((words, count)) if *count == all => format!("All {} {words}", threads(all)),
        Some((words, count)) if *count * 2 > all => {
            format!("Most of {} {words} ({})", threads(all), percent(*count as f64 / all.max(1) as f64))
        }
        Some(_) => format!("The {} do different things", threads(all)),
        None => "The dump does not tell what the threads do".to_owned(),
    };
    Finding {
        id: FindingId::Overview,
        severity: Severity::Info,
        // Before what is said of memory and symbols.
        impact: 0.5,
        title,
        explanation: "Told from the registers of each thread: the system call it is in, and its arguments."
            .to_owned(),
        evidence: counted
            .into_iter()
            .map(|(words, count)| fact(format!("{count} {words}"), Some(Value::Count(count as f64))))
            .collect(),
        next_steps: Vec::new(),
    }
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
