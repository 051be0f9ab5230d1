//! Several looks at one process put together: which of its threads did not move between them.

use biopsy_model::order::Order as _;
use std::collections::BTreeSet;

use biopsy_model::{Nanos, Tid};

use super::analysis::DumpAnalysis;
use super::looks::Looks;
use super::movement::Movement;

/// Puts looks at one process together, the oldest first: the last one, with what the others say of it. `idle`: of each time
/// between two looks, the threads that did not run, where that was counted. Findings are for the caller to make anew.
pub(crate) fn join(
    mut all: Vec<DumpAnalysis>,
    idle: Option<&[BTreeSet<Tid>]>,
    span: Option<Nanos>,
) -> Option<DumpAnalysis> {
    let mut last = all.pop()?;
    if all.is_empty() {
        return Some(last);
    }
    for thread in &mut last.threads {
        let before: Vec<_> = all.iter().filter_map(|look| look.thread(thread.tid)).collect();
        let cpu: Vec<Option<Nanos>> = before.iter().map(|one| one.cpu).chain([thread.cpu]).collect();
        let counted = match (idle, cpu.iter().copied().collect::<Option<Vec<_>>>()) {
            (Some(idle), _) => Some(idle.iter().all(|idle| idle.contains(&thread.tid))),
            (None, Some(times)) => Some(times.windows(2).all(|pair| pair[0] == pair[1])),
            (None, None) => None,
        };
        let stands = thread.stand.is_some() && before.iter().all(|one| one.stand == thread.stand);
        thread.movement = Some(match (before.len() < all.len(), stands, counted) {
            (true, ..) => Movement::New,
            (_, false, _) => Movement::Moved,
            (_, true, Some(true)) => Movement::Stuck,
            (_, true, Some(false)) => Movement::Again,
            (_, true, None) => Movement::SamePlace,
        });
    }
    keep_across(&mut all, &mut last);
    let cycles = last.waits.cycles.iter().enumerate();
    let lasting = cycles.filter(|(_, cycle)| all.iter().all(|look| look.waits.cycles.contains(cycle)));
    let pauses = all.iter().chain([&last]).filter_map(|look| look.identity.pause).collect();
    last.looks = Some(Looks {
        count: all.len() + 1,
        span: span.or_else(|| time_between(&all, &last)),
        pauses,
        lasting: lasting.map(|(index, _)| index).collect(),
    });
    for earlier in &all {
        let of_the_looks = |text: &&String| text.starts_with("process ") || text.starts_with("frozen ");
        let notes: Vec<String> = earlier.undetermined.iter().filter(of_the_looks).cloned().collect();
        last.add_undetermined(&notes);
    }
    last.damaged |= all.iter().any(|look| look.damaged);
    Some(last)
}

/// Other processes are looked at once, before the first of several dumps. What that said still holds of threads that stand where they
/// stood.
fn keep_across(all: &mut [DumpAnalysis], last: &mut DumpAnalysis) {
    if last.across.is_some() {
        return;
    }
    let Some(across) = all.iter_mut().rev().find_map(|look| look.across.take()) else { return };
    let stands =
        |tid| last.thread(tid).and_then(|thread| thread.movement).is_some_and(Movement::may_be_stuck);
    if across.threads_of(last.identity.pid).into_iter().all(stands) {
        last.across = Some(across);
        last.add_undetermined(&[
            "whether other processes moved meanwhile: they were looked at before".to_owned()
        ]);
    }
}

fn time_between(all: &[DumpAnalysis], last: &DumpAnalysis) -> Option<Nanos> {
    let first = all.first()?.identity.taken_at_unix_nanos?;
    u64::try_from(last.identity.taken_at_unix_nanos?.checked_sub(first)?).ok().map(Nanos)
}

/// Puts dumps of one process together wherever there are several, each at the place of its first.
pub(crate) fn join_same(all: Vec<DumpAnalysis>) -> Vec<DumpAnalysis> {
    let mut groups: Vec<Vec<DumpAnalysis>> = Vec::new();
    for one in all {
        let same = |group: &&mut Vec<DumpAnalysis>| {
            group.first().is_some_and(|first| first.identity.is_same_process(&one.identity))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let joined = groups.into_iter().filter_map(|mut group| {
        // Without a time, they are as they were given.
        if group.iter().all(|one| one.identity.taken_at_unix_nanos.is_some()) {
            group.order_by_key(|one| one.identity.taken_at_unix_nanos);
        }
        join(group, None, None)
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::across::{Across, SilentPeer};
    use crate::dump::{DumpThread, Identity};
    use biopsy_model::Pid;

    fn look(at: i64, stands: &[(u32, Option<u64>)]) -> DumpAnalysis {
        let thread =
            |&(tid, stand): &(u32, Option<u64>)| DumpThread { tid: Tid(tid), stand, ..DumpThread::default() };
        DumpAnalysis {
            identity: Identity {
                pid: Pid(7),
                taken_at_unix_nanos: Some(at),
                address_space: Some(1),
                pause: Some(Nanos(3)),
                ..Identity::default()
            },
            threads: stands.iter().map(thread).collect(),
            ..DumpAnalysis::default()
        }
    }

    #[test]
    fn waits_for_other_processes_are_kept_while_their_threads_stand() {
        let silent = |tid| SilentPeer {
            pid: Pid(8),
            process: String::new(),
            waiters: vec![Tid(tid)],
            unread: 1,
            does: String::new(),
            may_read: false,
            missed: false,
        };
        let kept = |tid| {
            let mut first = look(0, &[(1, Some(1)), (2, Some(2))]);
            first.across = Some(Across { silent: vec![silent(tid)], ..Across::default() });
            join(vec![first, look(5, &[(1, Some(1)), (2, Some(9))])], None, None).unwrap().across.is_some()
        };
        assert!(kept(1) && !kept(2) && !kept(3));
    }

    #[test]
    fn who_stands_and_did_not_run_is_stuck_and_nobody_else() {
        let first = look(0, &[(1, Some(1)), (2, Some(2)), (3, Some(3)), (4, None)]);
        let last = look(5, &[(1, Some(1)), (2, Some(2)), (3, Some(9)), (4, None), (5, Some(5))]);
        let moved = |idle: Option<&[BTreeSet<Tid>]>| -> Vec<Movement> {
            let joined = join(vec![first.clone(), last.clone()], idle, None).unwrap();
            assert_eq!(
                joined.looks.as_ref().map(|looks| (looks.count, looks.span)),
                Some((2, Some(Nanos(5))))
            );
            joined.threads.iter().filter_map(|thread| thread.movement).collect()
        };
        use Movement::{Again, Moved, New, SamePlace, Stuck};
        assert_eq!(
            moved(Some(&[BTreeSet::from([Tid(1), Tid(3), Tid(4)])])),
            [Stuck, Again, Moved, Moved, New]
        );
        assert_eq!(moved(None), [SamePlace, SamePlace, Moved, Moved, New]);
    }

    #[test]
    fn one_look_says_nothing_of_movement() {
        let joined = join(vec![look(0, &[(1, Some(1))])], None, None).unwrap();
        assert!(joined.looks.is_none() && joined.threads[0].movement.is_none());
        assert!(join(Vec::new(), None, None).is_none());
    }

    #[test]
    fn dumps_of_one_process_are_put_together_by_their_time() {
        let mut other = look(1, &[(1, Some(1))]);
        other.identity.address_space = Some(2);
        let all = join_same(vec![look(9, &[(1, Some(2))]), other, look(4, &[(1, Some(1))])]);
        let seen: Vec<_> = all
            .iter()
            .map(|one| (one.identity.taken_at_unix_nanos, one.looks.as_ref().map(|looks| looks.count)))
            .collect();
        assert_eq!(seen, [(Some(9), Some(2)), (Some(1), None)]);
        assert_eq!(all[0].threads[0].movement, Some(Movement::Moved));
        assert_eq!(all[0].looks.as_ref().unwrap().pauses, [Nanos(3); 2]);
    }
}
