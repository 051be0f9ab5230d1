//! Threads sleep inside of SQLite, which asks again and again for the lock of a database that another connection has.
//!
//! The library knows no other reason to sleep: its busy handler, and a reader that finds the log being recovered.

use std::collections::{BTreeMap, BTreeSet};

use crate::dump::{DumpAnalysis, DumpThread, FrameRow, Movement, WaitKind};
use crate::findings::dump::{NAMED, share};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::Tid;

/// How the file of the library is called.
const LIBRARY: &str = "libsqlite3.so";
/// Where it is a part of the program: what calls the busy handler, and what sleeps.
const FUNCTIONS: &[&str] = &["sqlite3InvokeBusyHandler", "sqliteDefaultBusyCallback", "sqlite3OsSleep"];
/// Frames from the innermost one on that are looked at.
const INNER: usize = 16;
/// Threads: one is just waiting for its turn.
const SEVERAL: usize = 2;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let waiters: Vec<&DumpThread> =
        analysis.threads.iter().filter(|thread| waits(analysis, thread)).collect();
    let mut places: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    for thread in &waiters {
        let place =
            analysis.place(thread.tid).map_or_else(|| "an unknown place".to_owned(), |place| place.name());
        places.entry(place).or_default().push(thread.tid);
    }
    let (most, _) = places.iter().max_by_key(|(_, tids)| tids.len())?;
    let count = waiters.len();
    let mut evidence: Vec<_> = places
        .iter()
        .take(NAMED)
        .filter_map(|(place, tids)| {
            let text = format!("{} in {place}", threads(tids.len()));
            Some(at(Reference::Thread(*tids.first()?), text, Some(Value::Count(tids.len() as f64))))
        })
        .collect();
    evidence.extend(suspects(analysis, &waiters).take(NAMED).map(|(thread, place)| {
        let text = format!(
            "{} {}, in {place}, which those who wait came through as well: its transaction may be open",
            thread.label(),
            thread.words()
        );
        at(Reference::Thread(thread.tid), text, None)
    }));
    let still = waiters.iter().filter(|thread| thread.movement.is_some_and(Movement::may_be_stuck)).count();
    if analysis.looks.is_some() && still > 0 {
        evidence.push(fact(format!("in all looks {still} of them stood in the same place"), None));
    }
    let (severity, impact) =
        if count < SEVERAL { (Severity::Info, 0.52) } else { (Severity::Notice, share(analysis, count)) };
    Some(Finding {
        id: FindingId::StuckWait,
        severity,
        impact,
        title: format!(
            "{} {} for the lock of an SQLite database, in {most}; which connection has it is not determined",
            threads(count),
            if count == 1 { "waits" } else { "wait" }
        ),
        explanation: "SQLite lets one connection write at a time, from its first write to the end of its transaction. The others sleep and ask again \
                      until their limit is over (`busy_timeout`), and then fail with `database is locked`. A transaction that is never ended, on \
                      a way out without `COMMIT` or `ROLLBACK`, is a lock that is never given back."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look for a way between the first write and the commit (an early return, an exception) that ends no transaction",
            "`lslocks` and `/proc/locks` show which process has the lock of the file",
        ]),
    })
}

/// It sleeps, and the library is what sleeps.
fn waits(analysis: &DumpAnalysis, thread: &DumpThread) -> bool {
    let sleeps = thread.state.wait() == Some(WaitKind::Time) && thread.movement != Some(Movement::Moved);
    let rows = || analysis.groups.get(thread.group).map_or(&[][..], |group| group.frames.as_slice());
    let is_library = |row: &FrameRow| {
        row.module.starts_with(LIBRARY)
            || row.function.as_deref().is_some_and(|name| FUNCTIONS.contains(&name))
    };
    sleeps && rows().iter().take(INNER).any(is_library)
}

/// Others that stand in a function that those who wait came through: they do the same work, and went on with it.
fn suspects<'a>(
    analysis: &'a DumpAnalysis,
    waiters: &[&DumpThread],
) -> impl Iterator<Item = (&'a DumpThread, String)> {
    let tids: BTreeSet<Tid> = waiters.iter().map(|thread| thread.tid).collect();
    let strands = analysis.strands.iter().flat_map(|one| &one.runtime.strands);
    let strands = strands.filter(|strand| strand.tid.is_some_and(|tid| tids.contains(&tid)));
    let mut through: BTreeSet<String> =
        strands.flat_map(|strand| &strand.frames).map(|frame| frame.function.to_string()).collect();
    let groups = waiters.iter().filter_map(|thread| analysis.groups.get(thread.group));
    through.extend(groups.flat_map(|group| &group.frames).filter_map(|row| row.function.clone()));
    analysis.threads.iter().filter(move |thread| !tids.contains(&thread.tid)).filter_map(move |thread| {
        let place =
            analysis.place(thread.tid).filter(|place| place.own && through.contains(&place.function))?;
        Some((thread, place.name()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{frame, group};
    use super::*;
    use crate::dump::{StackGroup, ThreadState};
    use crate::whose::Whose;

    /// Two threads in `write_sale` below these frames, and one more in `run_till`.
    fn said(wait: WaitKind, module: &str, function: &str, waiters: usize) -> Option<Finding> {
        let state = |wait| ThreadState::InSystemCall {
            number: Some(230),
            name: "clock_nanosleep".into(),
            wait,
            words: "sleeps for 100 ms".into(),
        };
        let one = |tid: u32, wait, group| DumpThread {
            tid: Tid(tid),
            state: state(wait),
            group,
            ..DumpThread::default()
        };
        let plumbing = |name: &str, module: &str| FrameRow {
            whose: Whose::Plumbing,
            module: module.to_owned(),
            ..frame(name, false)
        };
        let own = |name: &str| FrameRow { whose: Whose::Program, ..frame(name, false) };
        let stack = vec![
            plumbing("clock_nanosleep", "libc.so.6"),
            plumbing(function, module),
            own("write_sale"),
            own("run_till"),
        ];
        let mut threads: Vec<DumpThread> = (1..).take(waiters).map(|tid| one(tid, wait, 0)).collect();
        threads.push(one(9, WaitKind::Time, 1));
        let groups = vec![
            StackGroup { frames: stack, ..group(0..waiters, 1) },
            StackGroup { frames: vec![own("run_till")], ..group(waiters..waiters + 1, 1) },
        ];
        find(&DumpAnalysis { threads, groups, ..DumpAnalysis::default() })
    }

    #[test]
    fn threads_that_sleep_in_sqlite_wait_for_the_lock_of_a_database() {
        let found = said(WaitKind::Time, "libsqlite3.so.0.8.6", "sqlite3_step", 3).expect("three wait");
        assert_eq!((found.id, found.severity), (FindingId::StuckWait, Severity::Notice));
        let title = "3 threads wait for the lock of an SQLite database, in `write_sale`; which connection has it is not determined";
        assert_eq!(found.title, title);
        assert!(
            found.evidence[1].text.contains("in `run_till`, which those who wait came through"),
            "{found:?}"
        );
        let inside =
            said(WaitKind::Time, "shop", "sqlite3InvokeBusyHandler", 2).expect("a part of the program");
        assert_eq!(inside.severity, Severity::Notice);
        let alone = said(WaitKind::Time, "libsqlite3.so.0", "sqlite3_step", 1).expect("one waits");
        assert_eq!(alone.severity, Severity::Info, "it may be its turn next");
    }

    #[test]
    fn who_reads_a_database_or_sleeps_elsewhere_does_not() {
        assert_eq!(said(WaitKind::Output, "libsqlite3.so.0", "sqlite3_step", 3), None, "it reads");
        assert_eq!(said(WaitKind::Time, "libfoo.so", "rest", 3), None);
        assert_eq!(
            said(WaitKind::Time, "shop", "sqlite3_step", 3),
            None,
            "a callback of the program that sleeps"
        );
    }
}
