//! Operations, pools and threads that stand: who waits for what nobody gives.

use super::*;

fn managed(managed: Managed) -> DumpAnalysis {
    DumpAnalysis { managed: Some(managed), ..crowd(20) }
}

fn operations(count: u64, awaits: &str, object: bool, method: &str) -> DumpAnalysis {
    let group = OperationGroup {
        count,
        methods: vec![method.to_owned()],
        awaits: awaits.to_owned(),
        object: object.then(|| (Avma(0x7f00), "System.Threading.SemaphoreSlim".to_owned())),
    };
    let operations = Operations { groups: vec![group], pending: count + 5, ..Operations::default() };
    managed(Managed { operations: Some(operations), ..Managed::default() })
}

#[test]
fn waiting_operations() {
    let id = FindingId::WaitingOperations;
    let own = "Shop.Orders.PayAsync";
    let of_one = [(19, None), (20, Some(Notice)), (99, Some(Notice)), (100, Some(Warning))];
    check(id, &of_one, |count| operations(count, "a semaphore", true, own));
    check(id, &[(49, None), (50, Some(Notice)), (9_000, Some(Notice))], |count| {
        operations(count, "a task", false, own)
    });
    // Connections at rest, pauses and what only the framework awaits.
    for idle in ["a socket", "a pipe", "a delay", FULL_CHANNEL] {
        assert_eq!(severity(&operations(500, idle, true, own), id), None, "{idle}");
    }
    for framework in ["System.Net.Http.SendAsync", "Microsoft.AspNetCore.Server.Kestrel.RunAsync"] {
        assert_eq!(severity(&operations(500, "a task", true, framework), id), None, "{framework}");
    }
}

/// So many threads in `Kitchen.AwaitDish`, at what `function` waits for.
fn at_answer(count: u32, function: &str, timed: bool) -> DumpAnalysis {
    let one = |tid| {
        let lock = LockWait { kind: LockKind::Futex, timed, ..LockWait::default() };
        DumpThread { state: waits(WaitKind::Futex), lock: Some(lock), ..thread(tid) }
    };
    let mut group = group(0..count as usize, 2);
    let library = |name| FrameRow { whose: crate::whose::Whose::Plumbing, ..frame(name, true) };
    group.frames = vec![library(function), frame("Kitchen.AwaitDish", true)];
    DumpAnalysis { groups: vec![group], ..dump((1..=count).map(one).collect()) }
}

#[test]
fn stuck_wait() {
    let id = FindingId::StuckWait;
    check(id, &[(1, Some(Info)), (2, Some(Notice)), (9, Some(Notice))], |count| {
        at_answer(count, "System.Threading.ManualResetEventSlim.Wait", false)
    });
    let found = finding(&at_answer(3, "System.Threading.CountdownEvent.Wait", false), id).unwrap();
    assert!(found.title.contains("3 threads wait in `Kitchen.AwaitDish` for a countdown"), "{}", found.title);
    assert!(found.next_steps[0].contains("--looks 3"), "{:?}", found.next_steps);
    // Work, a limit, and what no table knows.
    for (function, timed) in [
        ("System.Collections.Concurrent.BlockingCollection`1.Take", false),
        ("System.Threading.ManualResetEventSlim.Wait", true),
        ("pthread_cond_wait", false),
    ] {
        assert_eq!(severity(&at_answer(3, function, timed), id), None, "{function}");
    }
    // The main thread of a server waits for its end.
    let mut main = at_answer(1, "System.Threading.ManualResetEventSlim.Wait", false);
    main.identity.pid = biopsy_model::Pid(1);
    assert_eq!(severity(&main, id), Some(Info));
    // What somebody proves is said instead.
    let mut proven = at_answer(3, "System.Threading.ManualResetEventSlim.Wait", false);
    proven.threads.extend([thread(8), thread(9)]);
    for waiter in [3, 4] {
        proven.threads[waiter].lock =
            Some(LockWait { lock: 1, kind: LockKind::Mutex, owner: on(1), ..LockWait::default() });
    }
    proven.waits = WaitGraph::new(&proven.threads);
    assert_eq!(severity(&proven, id), None);
}

/// Threads with these stacks, innermost first, each waiting for what it is said to.
fn standing(stacks: &[(&[&str], WaitKind)]) -> DumpAnalysis {
    let threads = (1_u32..).zip(stacks).map(|(tid, (_, wait))| {
        let lock = LockWait { lock: u64::from(tid), kind: LockKind::Mutex, ..LockWait::default() };
        let lock = (*wait == WaitKind::Futex).then_some(lock);
        DumpThread { state: waits(*wait), lock, group: tid as usize - 1, ..thread(tid) }
    });
    let groups = stacks.iter().enumerate().map(|(index, (names, _))| {
        let (own, inner) = names.split_last().unwrap();
        let library = |name: &&str| FrameRow { whose: crate::whose::Whose::Plumbing, ..frame(name, false) };
        let frames = inner.iter().map(library).chain([frame(own, false)]).collect();
        StackGroup { frames, ..group(index..index + 1, 2) }
    });
    let groups = groups.collect();
    let mut analysis = DumpAnalysis { groups, ..dump(threads.collect()) };
    analysis.identity.pid = biopsy_model::Pid(1);
    analysis
}

#[test]
fn everybody_puts() {
    const SEND: &str = "<std::sync::mpsc::SyncSender<relay::Message>>::send";
    const TAKE: &str = "<std::sync::mpsc::Receiver<relay::Message>>::recv";
    let id = FindingId::FullChannel;
    let main = (&["std::thread::sleep", "relay::main"][..], WaitKind::Time);
    let near = (&[SEND, "relay::forward"][..], WaitKind::Futex);
    let far = (&[SEND, "relay::acknowledge"][..], WaitKind::Futex);
    let found = finding(&standing(&[main, near, far]), id).unwrap();
    assert_eq!(found.severity, Warning);
    assert!(found.title.contains("in `relay::acknowledge` and `relay::forward`"), "{}", found.title);
    assert_eq!(severity(&standing(&[main, near, far]), FindingId::StuckWait), None, "it is said once");
    // Who may take: one that takes, that computes, that is asleep and not the main thread, that waits for a device.
    for (other, wait) in [
        (&[TAKE, "relay::store"][..], WaitKind::Futex),
        (&["relay::compress"][..], WaitKind::Other),
        (&["std::thread::sleep", "relay::poll"][..], WaitKind::Time),
        (&["fsync", "relay::write"][..], WaitKind::Output),
    ] {
        assert_eq!(severity(&standing(&[main, near, far, (other, wait)]), id), None, "{other:?}");
    }
    // Two writers of one kind are behind a slow reader.
    assert_eq!(severity(&standing(&[main, near, near]), id), None);
}

#[test]
fn a_pool_of_native_threads_that_all_wait_for_futures() {
    const FUTURE: &str = "std::__future_base::_State_baseV2::wait";
    let id = FindingId::PoolStarvation;
    let main = (&["nanosleep", "main"][..], WaitKind::Time);
    let waits = (&[FUTURE, "order", "Pool::run"][..], WaitKind::Futex);
    let idle = (&["std::condition_variable::wait", "Pool::run"][..], WaitKind::Futex);
    let client = (&[FUTURE, "client"][..], WaitKind::Futex);
    let mut two = standing(&[main, waits, waits]);
    // Functions between the library and the start of the thread are the program's too.
    let own = |analysis: &mut DumpAnalysis| {
        for group in &mut analysis.groups {
            group.frames.iter_mut().skip(1).for_each(|row| row.whose = crate::whose::Whose::Program);
        }
    };
    own(&mut two);
    let found = finding(&two, id).unwrap();
    assert_eq!(found.severity, Warning);
    assert!(found.title.contains("All 2 workers of a pool wait for futures, in `order`"), "{}", found.title);
    assert_eq!(severity(&two, FindingId::StuckWait), None, "it is said once");
    // One that takes work, one alone, and threads that wait where they began: clients.
    // One that answers: an event loop.
    let answers = (&["epoll_wait", "Loop::run"][..], WaitKind::Events);
    for stacks in [
        &[main, waits, waits, idle][..],
        &[main, waits],
        &[main, client, client],
        &[main, waits, waits, answers],
    ] {
        let mut analysis = standing(stacks);
        own(&mut analysis);
        assert_eq!(severity(&analysis, id), None, "{stacks:?}");
    }
}

#[test]
fn one_that_waits_alone_is_a_hint() {
    let id = FindingId::StuckWait;
    let at = |stacks: &[(&[&str], WaitKind)], kind: LockKind| {
        let mut analysis = standing(stacks);
        analysis
            .threads
            .iter_mut()
            .filter_map(|thread| thread.lock.as_mut())
            .for_each(|lock| lock.kind = kind);
        severity(&analysis, id)
    };
    let main = (&["nanosleep", "main"][..], WaitKind::Time);
    let alone = (&["pthread_cond_wait", "await_start"][..], WaitKind::Futex);
    let worker = (&["pthread_cond_wait", "Pool::run"][..], WaitKind::Futex);
    assert_eq!(at(&[main, alone], LockKind::Condition), Some(Info));
    assert_eq!(at(&[main, alone, worker, worker], LockKind::Semaphore), Some(Info));
    // A pool alone is all there is to say; who stands alone is said before it.
    assert_eq!(at(&[main, worker, worker], LockKind::Condition), Some(Info));
    let first = |stacks: &[(&[&str], WaitKind)]| {
        let mut analysis = standing(stacks);
        let locks = analysis.threads.iter_mut().filter_map(|thread| thread.lock.as_mut());
        locks.for_each(|lock| lock.kind = LockKind::Condition);
        finding(&analysis, id).map(|finding| finding.title)
    };
    let title = first(&[main, worker, worker, alone]).unwrap();
    assert!(title.contains("await_start"), "{title}");
    let title = first(&[main, worker, worker]).unwrap();
    assert!(title.starts_with("2 threads wait in `Pool::run`"), "{title}");
    // An atomic that is to change, by who waits there; the main thread, and what is no signal.
    let atomic = (&["syscall", "std::__atomic_base<int>::wait", "await_dusk"][..], WaitKind::Futex);
    assert_eq!(at(&[main, atomic], LockKind::Futex), Some(Info));
    assert_eq!(at(&[alone], LockKind::Condition), None);
    assert_eq!(at(&[main, alone], LockKind::Futex), None);
    // Work is awaited in a library that is known for it: it is said after all others.
    let takes = (&["<std::sync::mpsc::Receiver<Job>>::recv", "work"][..], WaitKind::Futex);
    let title = first(&[main, takes]).unwrap();
    assert!(title.contains("waits in `work`") && title.contains("for something in a channel"), "{title}");
    let title = first(&[main, takes, worker, worker]).unwrap();
    assert!(title.contains("Pool::run"), "{title}");
    let pool = (&["System.Threading.PortableThreadPool.Wait", "Job.Run"][..], WaitKind::Futex);
    assert_eq!(at(&[main, pool], LockKind::Condition), None, "threads of a pool of the library");
}

#[test]
fn stuck_wait_of_operations() {
    let id = FindingId::StuckWait;
    let promise = "a task that something completes (TaskCompletionSource)";
    let say = |awaits: &str, method: &str| severity(&operations(3, awaits, false, method), id);
    assert_eq!(say(promise, "Shop.Orders.PayAsync"), Some(Notice));
    assert_eq!(say("a SemaphoreSlim", "Shop.Orders.PayAsync"), Some(Notice));
    assert_eq!(say("a channel (Order)", "Shop.Orders.ReadAsync"), None);
    assert_eq!(say("a delay", "Shop.Orders.PayAsync"), None);
    assert_eq!(say(promise, "System.Net.Http.HttpClient.SendAsync"), None);
}

#[test]
fn operations_in_a_circle() {
    let rings = vec![vec!["Tours.Plan".to_owned(), "Tours.Return".to_owned()]];
    let with = |rings| {
        let operations = Operations { rings, ..Operations::default() };
        managed(Managed { operations: Some(operations), ..Managed::default() })
    };
    let found = finding(&with(rings), FindingId::StrandDeadlock).unwrap();
    assert_eq!(found.severity, Critical);
    assert!(found.title.contains("`Tours.Plan`, `Tours.Return`"), "{}", found.title);
    assert_eq!(severity(&with(vec![vec!["System.IO.A".to_owned()]]), FindingId::StrandDeadlock), None);
}

#[test]
fn full_channel() {
    let id = FindingId::FullChannel;
    let table =
        [(0, None), (1, Some(Notice)), (9, Some(Notice)), (10, Some(Warning)), (u64::MAX - 5, Some(Warning))];
    check(id, &table, |count| operations(count, FULL_CHANNEL, false, "Shop.Queue.WriteAsync"));
    assert_eq!(severity(&operations(50, "a channel", false, "Shop.Queue.ReadAsync"), id), None);
    // Writers that pause between two items have got through.
    for (pauses, expected) in [("Shop.Queue.WriteAsync", Notice), ("Shop.Health.LookAsync", Warning)] {
        let mut analysis = operations(50, FULL_CHANNEL, false, "Shop.Queue.WriteAsync");
        let found = analysis.managed.as_mut().and_then(|managed| managed.operations.as_mut()).unwrap();
        let mut other = found.groups[0].clone();
        other.awaits = "a delay".to_owned();
        other.methods = vec![pauses.to_owned()];
        found.groups.push(other);
        assert_eq!(severity(&analysis, id), Some(expected), "{pauses}");
    }
}

#[test]
fn pool_starvation() {
    let table = [(0, None), (2, None), (3, Some(Notice)), (7, Some(Notice)), (8, Some(Warning))];
    check(FindingId::PoolStarvation, &table, |blocked| {
        let pool = PoolSummary {
            workers: 20,
            idle: 2,
            waiting_for_tasks: (0..blocked).map(Tid).collect(),
            places: vec![("Shop.Feed.GetBlocking".to_owned(), blocked as usize)],
            ..PoolSummary::default()
        };
        managed(Managed { pool: Some(pool), ..Managed::default() })
    });
}

#[test]
fn finalizer_blocked() {
    let id = FindingId::FinalizerBlocked;
    let with = |finalizer: bool, owner: LockOwner, object: Option<&str>| {
        let mut analysis = waiting(3, &[(1, owner)], LockKind::Mutex);
        analysis.threads[0].managed = Some(ManagedThreadFacts { finalizer, ..ManagedThreadFacts::default() });
        if let Some(lock) = &mut analysis.threads[0].lock {
            lock.object = object.map(str::to_owned);
        }
        severity(&analysis, id)
    };
    assert_eq!(with(true, on(2), Some("Shop.Cache")), Some(Critical));
    // Another thread, a native lock or an owner that is not known: nothing is said of finalizers.
    assert_eq!(with(false, on(2), Some("Shop.Cache")), None);
    assert_eq!(with(true, on(2), None), None);
    assert_eq!(with(true, LockOwner::NotKnown, Some("Shop.Cache")), None);
}
