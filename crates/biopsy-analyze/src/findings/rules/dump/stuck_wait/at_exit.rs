//! The process has begun to end, and its end waits.

use crate::dump::{DumpAnalysis, FrameRow, LockKind, WaitKind};
use crate::findings::dump::{label, place};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};

/// What runs functions that were registered for the end of a process, destructors of variables, and shutdown hooks.
const ENDS: &[&str] = &[
    "exit",
    "__run_exit_handlers",
    "_dl_fini",
    "__cxa_finalize",
    "quick_exit",
    "__run_exit_handlers.isra.0",
];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() || !analysis.waits.cycles.is_empty() {
        return None;
    }
    let (thread, lock) = analysis.threads.iter().find_map(|thread| {
        let lock = thread.lock.as_ref().filter(|lock| !lock.timed)?;
        let waits = thread.state.wait() == Some(WaitKind::Futex);
        let rows = analysis.groups.get(thread.group)?.frames.as_slice();
        (waits && ends(rows)).then_some((thread, lock))
    })?;
    let inside = place(analysis, thread.tid).map_or(String::new(), |place| format!(", in {place}"));
    let mut evidence = vec![at(
        Reference::Thread(thread.tid),
        format!("{} {}{inside}", label(analysis, thread.tid), lock.words()),
        None,
    )];
    let owner = lock.thread().filter(|owner| *owner != thread.tid);
    evidence.extend(owner.and_then(|owner| analysis.thread(owner)).map(|owner| {
        let inside = place(analysis, owner.tid).map_or(String::new(), |place| format!(", in {place}"));
        at(
            Reference::Thread(owner.tid),
            format!("meanwhile {} {}{inside}", owner.label(), owner.words()),
            None,
        )
    }));
    let what = match (lock.kind, owner) {
        (LockKind::Join, Some(owner)) => format!("the end of {}", label(analysis, owner)),
        (kind, Some(owner)) => format!("{}, which {} holds", kind.words(), label(analysis, owner)),
        (kind, None) => kind.words().to_owned(),
    };
    Some(Finding {
        id: FindingId::StuckWait,
        severity: Severity::Notice,
        impact: 0.35,
        title: format!("The process has called `exit` and does not end: it waits for {what}{inside}"),
        explanation: "Functions for the end (`atexit`, destructors of variables) run while all other threads go on, or have been left where they were: what \
                      one of these holds, or is to do before it ends, is waited for without a limit. If that takes long, the process stays."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Stop and join threads before `exit` is called, and let destructors of static variables wait for nothing",
            "Where nothing has to be put in order any more, end with `_exit` or `quick_exit`",
        ]),
    })
}

fn ends(rows: &[FrameRow]) -> bool {
    rows.iter().any(|row| row.function.as_deref().is_some_and(|name| ENDS.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{frame, group};
    use super::*;
    use crate::dump::{DumpThread, LockWait, StackGroup, ThreadState};
    use biopsy_model::Tid;

    #[test]
    fn a_wait_inside_of_exit_is_told_from_one_elsewhere() {
        let said = |names: &[&str], timed: bool| {
            let frames = names.iter().map(|name| frame(name, false)).collect();
            let groups = vec![StackGroup { frames, ..group(0..1, 1) }];
            let state = ThreadState::InSystemCall {
                number: Some(202),
                name: "futex".into(),
                wait: WaitKind::Futex,
                words: "waits".into(),
            };
            let lock = Some(LockWait { kind: LockKind::Mutex, timed, ..LockWait::default() });
            let threads = vec![DumpThread { tid: Tid(3), state, lock, ..DumpThread::default() }];
            find(&DumpAnalysis { threads, groups, ..DumpAnalysis::default() }).map(|found| found.title)
        };
        let title =
            said(&["pthread_mutex_lock", "save", "__run_exit_handlers", "exit", "main"], false).unwrap();
        assert!(
            title.starts_with("The process has called `exit` and does not end: it waits for a mutex"),
            "{title}"
        );
        assert_eq!(
            said(&["pthread_mutex_lock", "save", "__run_exit_handlers", "exit"], true),
            None,
            "for a while"
        );
        assert_eq!(said(&["pthread_mutex_lock", "save_exit", "main"], false), None);
    }
}
