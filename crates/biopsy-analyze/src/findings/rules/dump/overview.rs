//! The last word on a dump: what all threads do.

use crate::dump::{DumpAnalysis, DumpThread, LockKind, ThreadState, WaitKind};
use crate::findings::evidence::fact;
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::words::{percent, threads};
use biopsy_model::order::Order as _;

type Kind = fn(&DumpThread) -> bool;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
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
    counted.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all = analysis.threads.len();
    let title = match counted.first() {
        Some((words, count)) if *count == all => format!("All {} {words}", threads(all)),
        Some((words, count)) if *count * 2 > all => {
            format!("Most of {} {words} ({})", threads(all), percent(*count as f64 / all.max(1) as f64))
        }
        Some(_) => format!("The {} do different things", threads(all)),
        None => "The dump does not tell what the threads do".to_owned(),
    };
    Some(Finding {
        id: FindingId::Overview,
        severity: Severity::Info,
        // Before what is said of memory and symbols.
        impact: 0.5,
        title,
        explanation: "Read from the registers of each thread: the system call it is in, and its arguments."
            .to_owned(),
        evidence: counted
            .into_iter()
            .map(|(words, count)| fact(format!("{count} {words}"), Some(Value::Count(count as f64))))
            .collect(),
        next_steps: Vec::new(),
    })
}
