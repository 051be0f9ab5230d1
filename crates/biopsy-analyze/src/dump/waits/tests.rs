//! Graphs of waits of threads made by hand.

use super::*;
use crate::dump::locks::LockWait;
use proptest::prelude::*;

fn lock(at: u64, kind: LockKind, owner: LockOwner) -> LockWait {
    LockWait { futex: at, lock: at, kind, owner, proof: format!("of {at}"), ..LockWait::default() }
}

fn waits(tid: u32, lock: LockWait) -> DumpThread {
    DumpThread { tid: Tid(tid), lock: Some(lock), ..DumpThread::default() }
}

fn held_by(tid: u32) -> LockOwner {
    LockOwner::Thread(Tid(tid))
}

fn holder(tid: u32, confidence: Confidence) -> Holder {
    Holder { thread: Tid(tid), confidence, site: None, shared: false }
}

#[test]
fn a_circle_is_as_sure_as_its_weakest_edge() {
    let mut inferred = lock(3, LockKind::Mutex, LockOwner::NotKnown);
    inferred.holders = vec![holder(1, Confidence::VeryLikely), holder(9, Confidence::Possible)];
    let threads = [
        waits(1, lock(1, LockKind::Mutex, held_by(2))),
        waits(2, lock(2, LockKind::Mutex, held_by(3))),
        waits(3, inferred),
        waits(4, lock(1, LockKind::Mutex, held_by(2))),
        DumpThread { tid: Tid(5), ..DumpThread::default() },
    ];
    let graph = WaitGraph::new(&threads);
    let tids = |all: &[Tid]| all.iter().map(|tid| tid.0).collect::<Vec<_>>();
    assert_eq!(graph.cycles.iter().map(|cycle| tids(cycle)).collect::<Vec<_>>(), [[1, 2, 3]]);
    let weakest = Circle { confidence: Confidence::VeryLikely, weakest: (Tid(3), Tid(1)) };
    assert_eq!(graph.circles, [weakest]);
    let edges: Vec<_> = graph.edges.iter().map(|(from, to)| (from.0, to.0)).collect();
    assert_eq!(edges, [(1, 2), (2, 3), (3, 1), (4, 2)], "who only may hold it is no edge");
    assert_eq!(graph.confidence.len(), graph.edges.len());
    assert_eq!(tids(&WaitGraph::behind(&graph.waiters(), &[Tid(2)])), [1, 3, 4]);
    assert_eq!(WaitGraph::behind(&graph.waiters(), &[Tid(4)]), []);
    let mut stuck = tids(&graph.stuck().into_iter().collect::<Vec<_>>());
    stuck.sort_unstable();
    assert_eq!(stuck, [1, 2, 3]);
}

#[test]
fn a_semaphore_that_somebody_else_may_give_is_no_circle() {
    let with = |others: &[(u32, Confidence)], timed| {
        let mut semaphore = lock(1, LockKind::Semaphore, LockOwner::NotKnown);
        semaphore.holders = others.iter().map(|(tid, sure)| holder(*tid, *sure)).collect();
        semaphore.timed = timed;
        WaitGraph::new(&[waits(1, semaphore), waits(2, lock(2, LockKind::Mutex, held_by(1)))]).cycles.len()
    };
    let (likely, possible) = (Confidence::VeryLikely, Confidence::Possible);
    assert_eq!(with(&[(2, likely)], false), 1);
    assert_eq!(with(&[(2, likely), (3, likely)], false), 0, "3 runs");
    assert_eq!(with(&[(2, likely), (3, possible)], false), 0, "3 may be the one");
    assert_eq!(with(&[(2, likely)], true), 0, "it gives up");
}

#[test]
fn queues_are_by_lock_with_whoever_says_its_owner() {
    let threads = [
        waits(1, lock(8, LockKind::Futex, LockOwner::NotKnown)),
        waits(2, lock(7, LockKind::Mutex, held_by(9))),
        waits(3, lock(8, LockKind::RwLockWrite, LockOwner::Readers)),
        waits(4, lock(6, LockKind::Condition, LockOwner::NotKnown)),
        waits(5, lock(6, LockKind::Condition, LockOwner::NotKnown)),
        waits(6, lock(6, LockKind::Condition, LockOwner::NotKnown)),
        waits(7, lock(5, LockKind::Mutex, LockOwner::Elsewhere(Tid(99)))),
    ];
    let told: Vec<_> = WaitGraph::new(&threads)
        .queues
        .into_iter()
        .map(|queue| (queue.lock, queue.kind, queue.owner, queue.waiters.len()))
        .collect();
    assert_eq!(
        told,
        [
            (8, LockKind::RwLockWrite, LockOwner::Readers, 2),
            (5, LockKind::Mutex, LockOwner::Elsewhere(Tid(99)), 1),
            (7, LockKind::Mutex, held_by(9), 1),
            (6, LockKind::Condition, LockOwner::NotKnown, 3),
        ]
    );
}

#[test]
fn ends_of_different_threads_are_different_queues() {
    let join = |by, of| waits(by, lock(0, LockKind::Join, held_by(of)));
    let queues = WaitGraph::new(&[join(1, 8), join(2, 9), join(3, 9)]).queues;
    let told: Vec<_> = queues.iter().map(|queue| (queue.owner, queue.waiters.len())).collect();
    assert_eq!(told, [(held_by(9), 2), (held_by(8), 1)]);
}

#[test]
fn what_is_waited_for_is_said_in_words() {
    let with = |kind, owner, object: Option<&str>| LockWait {
        object: object.map(str::to_owned),
        ..lock(0x10, kind, owner)
    };
    let mut readers = with(LockKind::RwLockWrite, LockOwner::Readers, None);
    let mut likely = with(LockKind::Mutex, held_by(7), None);
    likely.holders = vec![holder(7, Confidence::VeryLikely)];
    for (wait, words) in [
        (with(LockKind::Mutex, held_by(7), None), "waits for a mutex at 0x10, held by thread 7"),
        (likely, "waits for a mutex at 0x10, very likely held by thread 7"),
        (with(LockKind::Join, held_by(7), None), "waits for the end of thread 7"),
        (with(LockKind::Join, LockOwner::NotKnown, None), "waits for the end of a thread"),
        (with(LockKind::Spin, LockOwner::NotKnown, None), "tries again and again to get a spin lock at 0x10"),
        (
            with(LockKind::Monitor, held_by(7), Some("App.Feed")),
            "waits for the monitor of `App.Feed` at 0x10, held by thread 7",
        ),
        (
            with(LockKind::Pulse, LockOwner::NotKnown, Some("App.Feed")),
            "waits for a pulse of the monitor of `App.Feed` at 0x10",
        ),
        (
            with(LockKind::Mutex, LockOwner::Elsewhere(Tid(8)), None),
            "waits for a mutex at 0x10, held by thread 8, which is not in the dump",
        ),
        (readers.clone(), "waits for a read-write lock, to write at 0x10, held by readers"),
    ] {
        assert_eq!(wait.words(), words);
    }
    readers.holders = vec![holder(3, Confidence::VeryLikely), holder(4, Confidence::Possible)];
    assert!(readers.words().ends_with("held by readers, very likely thread 3"), "{}", readers.words());
    readers.holders.push(holder(5, Confidence::Certain));
    assert!(readers.words().ends_with("very likely threads 3, 5"), "{}", readers.words());
}

#[test]
fn holders_are_what_the_lock_says_or_what_was_inferred() {
    let known = |owner, holders: &[(u32, Confidence)]| {
        let mut wait = lock(1, LockKind::Mutex, owner);
        wait.holders = holders.iter().map(|(tid, sure)| holder(*tid, *sure)).collect();
        wait.known_holders().iter().map(|one| (one.thread.0, one.confidence)).collect::<Vec<_>>()
    };
    let (certain, likely) = (Confidence::Certain, Confidence::VeryLikely);
    assert_eq!(known(held_by(7), &[]), [(7, certain)]);
    assert_eq!(known(held_by(7), &[(8, likely)]), [(7, certain)], "its own word goes before");
    assert_eq!(known(held_by(7), &[(7, likely)]), [(7, likely)]);
    assert_eq!(known(LockOwner::NotKnown, &[(8, likely)]), [(8, likely)]);
    assert_eq!(known(LockOwner::Elsewhere(Tid(9)), &[]), []);
    for kind in [LockKind::Semaphore, LockKind::Mutex, LockKind::Condition, LockKind::RwLockRead] {
        assert_eq!(kind.any_is_enough(), kind == LockKind::Semaphore);
        assert_eq!(kind.is_held(), matches!(kind, LockKind::Mutex | LockKind::RwLockRead), "{kind:?}");
    }
}

proptest! {
    /// Who is behind whom, by asking each thread whether it leads there.
    #[test]
    fn those_behind_are_those_that_lead_there(
        edges in prop::collection::vec((1_u32..10, 1_u32..10), 0..20),
        roots in prop::collection::btree_set(1_u32..10, 0..3),
    ) {
        let graph = WaitGraph {
            edges: edges.iter().map(|(from, to)| (Tid(*from), Tid(*to))).collect(),
            ..WaitGraph::default()
        };
        let roots: Vec<Tid> = roots.into_iter().map(Tid).collect();
        let found = WaitGraph::behind(&graph.waiters(), &roots);
        let leads = |from: u32| {
            let mut reached = std::collections::BTreeSet::from([from]);
            for _ in 0..10 {
                let more: Vec<u32> = edges.iter().filter(|(from, _)| reached.contains(from)).map(|(_, to)| *to).collect();
                reached.extend(more);
            }
            roots.iter().any(|root| reached.contains(&root.0))
        };
        let expected: Vec<Tid> = (1..10).map(Tid).filter(|tid| !roots.contains(tid) && leads(tid.0)).collect();
        prop_assert_eq!(found, expected);
    }
}
