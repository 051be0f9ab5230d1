//! What several looks, other processes and a process's own end say beside its memory.

use super::*;
use crate::dump::{Across, Looks, Movement, OrphanedLock, STOPPED, SilentPeer, Step};
use biopsy_model::peers::PeerObject;
use biopsy_model::{Confidence, Nanos, Pid};

/// Evidence, line by line.
fn texts(finding: &Finding) -> Vec<&str> {
    finding.evidence.iter().map(|one| one.text.as_str()).collect()
}

/// So many threads that want locks of somebody who is not known, seen in three looks over so many milliseconds.
fn looked_at(count: u32, movement: Movement, kind: LockKind, span: Option<u64>) -> DumpAnalysis {
    let pairs: Vec<(u32, LockOwner)> = (1..=count).map(|tid| (tid, LockOwner::NotKnown)).collect();
    let mut analysis = waiting(20, &pairs, kind);
    for thread in &mut analysis.threads {
        thread.movement = Some(movement);
    }
    let span = span.map(|ms| Nanos(ms * 1_000_000));
    analysis.looks = Some(Looks { count: 3, span, pauses: vec![], lasting: vec![] });
    analysis
}

#[test]
fn no_progress() {
    let id = FindingId::NoProgress;
    let stuck = |count| looked_at(count, Movement::Stuck, LockKind::Mutex, Some(4_000));
    check(id, &[(0, None), (1, Some(Warning)), (9, Some(Warning)), (10, Some(Critical))], stuck);
    for (movement, expected) in [
        (Movement::Stuck, Some(Warning)),
        (Movement::SamePlace, Some(Warning)),
        (Movement::Again, None),
        (Movement::Moved, None),
        (Movement::New, None),
    ] {
        let analysis = looked_at(3, movement, LockKind::Mutex, Some(4_000));
        assert_eq!(severity(&analysis, id), expected, "{movement:?}");
    }
    // A lock that somebody has; a condition is where workers wait for work.
    for (kind, expected) in [
        (LockKind::Mutex, Some(Warning)),
        (LockKind::RwLockWrite, Some(Warning)),
        (LockKind::Condition, None),
        (LockKind::Semaphore, None),
    ] {
        let analysis = looked_at(3, Movement::Stuck, kind, Some(4_000));
        assert_eq!(severity(&analysis, id), expected, "{kind:?}");
    }
    // Looks that are nearer together say nothing.
    for (span, expected) in [(None, None), (Some(999), None), (Some(1_000), Some(Warning))] {
        let analysis = looked_at(3, Movement::Stuck, LockKind::Mutex, span);
        assert_eq!(severity(&analysis, id), expected, "{span:?}");
    }
    let one = finding(&stuck(1), id).expect("it stands still");
    assert_eq!(one.title, "1 thread waits for a lock and stood still in 3 looks over 4.0 s");
    let many = finding(&stuck(8), id).expect("they stand still");
    assert_eq!(many.title, "8 threads wait for a lock and stood still in 3 looks over 4.0 s");
    assert_eq!(texts(&many).last(), Some(&"and 3 threads more"));
    assert_eq!(many.evidence.len(), 6);
}

#[test]
fn who_is_in_a_circle_is_told_by_it() {
    let mut analysis = waiting(6, &[(1, on(2)), (2, on(1))], LockKind::Mutex);
    for thread in &mut analysis.threads {
        thread.movement = Some(Movement::Stuck);
    }
    analysis.looks =
        Some(Looks { count: 2, span: Some(Nanos(5_000_000_000)), pauses: vec![], lasting: vec![0] });
    assert_eq!(severity(&analysis, FindingId::Deadlock), Some(Critical));
    assert_eq!(severity(&analysis, FindingId::NoProgress), None);
}

#[test]
fn one_who_waits_for_a_lock_of_somebody_gone_is_told_in_right_words() {
    let gone = LockOwner::Elsewhere(Tid(99));
    for (waiters, begins) in [(1, "1 thread waits for "), (3, "3 threads wait for ")] {
        let pairs: Vec<(u32, LockOwner)> = (1..=waiters).map(|tid| (tid, gone)).collect();
        let found = finding(&waiting(10, &pairs, LockKind::Mutex), FindingId::AbandonedLock).expect("gone");
        assert!(found.title.starts_with(begins), "{}", found.title);
        assert_eq!(found.severity, Critical);
    }
}

#[test]
fn a_lock_that_was_copied_by_fork() {
    let orphan = |owner: Option<u32>| {
        let mut analysis = waiting(1, &[(1, LockOwner::Elsewhere(Tid(99)))], LockKind::Mutex);
        let proof = "by hand".to_owned();
        analysis.orphaned = Some(OrphanedLock { waiter: Tid(1), owner: owner.map(Tid), proof });
        analysis
    };
    for (owner, words) in [
        (Some(99), "which thread 99 of its parent held when the process was forked"),
        (None, "which nobody in the process can give back"),
    ] {
        let analysis = orphan(owner);
        let found = finding(&analysis, FindingId::OrphanedLock).expect("one");
        assert!(
            found.title.starts_with("The only thread waits for ") && found.title.contains(words),
            "{}",
            found.title
        );
        assert_eq!((found.severity, found.impact), (Critical, 1.0));
        assert!(texts(&found).contains(&"how that is known: by hand"), "{:?}", texts(&found));
        // It is the same lock: said once.
        assert_eq!(severity(&analysis, FindingId::AbandonedLock), None);
    }
    let without = waiting(1, &[(1, LockOwner::Elsewhere(Tid(99)))], LockKind::Mutex);
    assert_eq!(severity(&without, FindingId::OrphanedLock), None);
}

/// Another process, or its own, that has not read what so many threads sent to it.
fn silent(waiters: u32, pid: u32, may_read: bool, missed: bool) -> DumpAnalysis {
    let peer = SilentPeer {
        pid: Pid(pid),
        process: "broker".to_owned(),
        waiters: (1..=waiters).map(Tid).collect(),
        unread: 4_096,
        does: "sleeps".to_owned(),
        may_read,
        missed,
    };
    let mut analysis = crowd(10);
    analysis.identity.pid = Pid(7);
    analysis.across = Some(Across { silent: vec![peer], ..Across::default() });
    analysis
}

#[test]
fn silent_peer() {
    const OTHER: u32 = 8;
    const OWN: u32 = 7;
    for (waiters, pid, may_read, missed, expected) in [
        // One of its threads runs, or waits for data: it may be about to read.
        (1, OTHER, true, false, Info),
        (2, OTHER, true, false, Notice),
        (9, OWN, true, false, Notice),
        (1, OTHER, false, false, Warning),
        (5, OTHER, false, false, Warning),
        // Its event loop is not told any more: of another process it may wait for room before it reads on.
        (1, OTHER, false, true, Notice),
        (5, OTHER, false, true, Notice),
        (1, OWN, false, true, Notice),
        (2, OWN, false, true, Warning),
    ] {
        let analysis = silent(waiters, pid, may_read, missed);
        let found = finding(&analysis, FindingId::SilentPeer).expect("it does not read");
        assert_eq!(found.severity, expected, "{waiters} {pid} {may_read} {missed}");
        let who = if waiters == 1 { "1 thread waits" } else { &format!("{waiters} threads wait") };
        let whose = if pid == OWN { "its own process" } else { "process 8 (broker)" };
        let title = format!("{who} for an answer of {whose}, which does not read what it was sent");
        assert_eq!(found.title, title);
        let last = found.evidence.last().expect("how much").text.clone();
        assert!(last.starts_with(&format!("process {pid} (broker) has not read 4096 bytes")), "{last}");
        assert_eq!(last.contains("EPOLLET"), missed, "{last}");
        assert_eq!(last.ends_with("; it sleeps"), !missed, "{last}");
        assert!((found.impact - (f64::from(waiters) / 10.0).max(0.4)).abs() < 1e-9);
    }
    assert_eq!(severity(&crowd(10), FindingId::SilentPeer), None);
}

#[test]
fn of_silent_peers_the_one_that_will_not_read_is_told() {
    let mut analysis = silent(9, 8, true, false);
    let Some(across) = &mut analysis.across else { panic!("made above") };
    let idle = SilentPeer { pid: Pid(9), waiters: vec![Tid(1)], may_read: false, ..across.silent[0].clone() };
    across.silent.push(idle);
    let found = finding(&analysis, FindingId::SilentPeer).expect("one of them");
    assert!(found.title.starts_with("1 thread waits for an answer of process 9"), "{}", found.title);
}

fn step(pid: u32, tid: u32, waits_for: &str, does: &str, object: Option<PeerObject>) -> Step {
    Step {
        pid: Pid(pid),
        process: "job".to_owned(),
        tid: Tid(tid),
        waits_for: waits_for.to_owned(),
        does: does.to_owned(),
        object,
    }
}

#[test]
fn waits_for_another_process() {
    use PeerObject::{Child, FileLock, PipeData, PipeRoom, Semaphore, SharedLock, Socket};
    let chain = |object: PeerObject, does: &str, chain_returns: bool| {
        let steps = vec![step(7, 7, "something", "", Some(object)), step(8, 8, "", does, None)];
        let across = Across { chain: Some(steps), chain_returns, ..Across::default() };
        DumpAnalysis { across: Some(across), ..crowd(3) }
    };
    for (object, does, returns, expected) in [
        // What shells and supervisors do all day.
        (Child, "sleeps", false, Info),
        (Socket, "sleeps", false, Info),
        (PipeData, "runs", false, Info),
        (PipeRoom, "runs", false, Info),
        // Somebody keeps it.
        (FileLock, "sleeps", false, Notice),
        (Semaphore, "runs", false, Notice),
        (SharedLock, "sleeps", false, Notice),
        // It will not give it back until somebody lets it go on.
        (FileLock, STOPPED, false, Warning),
        (PipeRoom, STOPPED, false, Warning),
        (Child, STOPPED, false, Info),
        (PipeData, STOPPED, false, Info),
        // It waits for the first one itself: another thread of that may give it.
        (FileLock, STOPPED, true, Notice),
        (Child, "sleeps", true, Notice),
    ] {
        let found = finding(&chain(object, does, returns), FindingId::WaitsForProcess).expect("a chain");
        assert_eq!(found.severity, expected, "{object:?} {does} {returns}");
        if !returns {
            let title = format!("process 7 (job) waits for something; at the end process 8 (job) {does}");
            assert_eq!(found.title, title);
        }
    }
    assert_eq!(severity(&crowd(3), FindingId::WaitsForProcess), None);
}

#[test]
fn a_pipe_of_its_own_is_told_where_the_program_reads_it() {
    let own_pipe = |whose| {
        let chain = vec![step(7, 1, "data in the pipe of descriptor 3", "", Some(PeerObject::PipeData))];
        let across = Across { chain: Some(chain), ..Across::default() };
        let frames = vec![FrameRow { whose, ..frame("read_report", false) }];
        let groups = vec![StackGroup { frames, ..group(0..1, 1) }];
        let analysis = DumpAnalysis { across: Some(across), groups, ..crowd(3) };
        finding(&analysis, FindingId::WaitsForProcess).map(|found| (found.severity, found.title))
    };
    let title = "process 7 (job) waits for data in the pipe of descriptor 3, in `read_report`; nobody but itself has the writing end of the pipe";
    assert_eq!(own_pipe(crate::whose::Whose::Program), Some((Info, title.to_owned())));
    assert_eq!(own_pipe(crate::whose::Whose::Library), None, "so threads of runtimes rest");
}

#[test]
fn a_circle_of_processes_is_as_sure_as_what_it_rests_on() {
    let circle = |steps: Vec<Step>, sure| {
        let across = Across { circles: vec![steps], confidence: vec![sure], ..Across::default() };
        DumpAnalysis { across: Some(across), ..crowd(3) }
    };
    let two = || {
        vec![
            step(7, 7, "a lock", "", Some(PeerObject::FileLock)),
            step(8, 8, "data", "", Some(PeerObject::PipeData)),
        ]
    };
    let certain = finding(&circle(two(), Confidence::Certain), FindingId::Deadlock).expect("a circle");
    assert_eq!(certain.title, "Deadlock: process 7 (job) and process 8 (job) wait for each other");
    assert_eq!(certain.severity, Critical);
    let likely = finding(&circle(two(), Confidence::VeryLikely), FindingId::Deadlock).expect("a circle");
    assert_eq!(
        likely.title,
        "Deadlock, very likely: process 7 (job) and process 8 (job) wait for each other"
    );
    // Both ends of a connection that rests look the same.
    let rests = circle(two(), Confidence::Possible);
    assert_eq!(severity(&rests, FindingId::Deadlock), None);
    assert_eq!(severity(&rests, FindingId::WaitsForProcess), Some(Notice));
    // One alone, two threads of one process, and more of them.
    let of = |pids: &[(u32, u32)]| {
        let steps = pids.iter().map(|(pid, tid)| step(*pid, *tid, "a pipe", "", Some(PeerObject::PipeRoom)));
        finding(&circle(steps.collect(), Confidence::Certain), FindingId::Deadlock).expect("a circle").title
    };
    assert_eq!(
        of(&[(7, 7)]),
        "Deadlock: process 7 (job) waits for a pipe, which nobody but itself could give"
    );
    assert_eq!(of(&[(7, 71), (7, 72)]), "Deadlock: threads 71 and 72 of process 7 (job) wait for each other");
    assert_eq!(
        of(&[(7, 71), (7, 72), (7, 73)]),
        "Deadlock: 3 threads of process 7 (job) wait for each other in a circle"
    );
    assert_eq!(
        of(&[(7, 71), (8, 81), (9, 91), (7, 72)]),
        "Deadlock: 4 threads of 3 processes wait for each other in a circle"
    );
}

#[test]
fn a_process_that_ends_itself() {
    let id = FindingId::TargetEnded;
    let ends = |status: Option<u8>| {
        let mut threads = vec![thread(1), thread(2)];
        threads[1].ends_with = status;
        DumpAnalysis { last_line: Some("no space left".to_owned()), ..dump(threads) }
    };
    for (status, expected, impact, line) in
        [(0, Info, 0.1, false), (1, Warning, 0.9, true), (255, Warning, 0.9, true)]
    {
        let found = finding(&ends(Some(status)), id).expect("it ends");
        assert_eq!((found.severity, found.impact), (expected, impact), "{status}");
        assert_eq!(found.title, format!("The process ends itself with status {status}"));
        let last = texts(&found).contains(&"the last line that it wrote: no space left");
        assert_eq!(last, line, "what it wrote before it failed: {status}");
        assert!(
            texts(&found)[0].ends_with(&format!("ends the process with status {status}")),
            "{:?}",
            texts(&found)
        );
    }
    assert_eq!(severity(&ends(None), id), None);
    // A signal ends it: that is told.
    let crashed = DumpAnalysis { crash: Some(crash(11, None, None)), ..ends(Some(1)) };
    assert_eq!(severity(&crashed, id), None);
}

#[test]
fn how_a_crash_came_about_is_told_line_by_line() {
    let mut died = crash(11, Some(AddressKind::Null { offset: 24 }), Some(Access::Read));
    died.message = Some("free(): invalid pointer".to_owned());
    died.ended_by = Some("SIGABRT".to_owned());
    died.sender = Some(4_000);
    died.code = Some((1, Some("no such address")));
    let analysis = DumpAnalysis { crash: Some(died), ..crowd(1) };
    let first = &of_dump(&analysis)[0];
    let texts = texts(first);
    for line in [
        "the C library said: free(): invalid pointer",
        "signal 11 with code 1: no such address",
        "a handler of signal 11 was called for it, which then ended the process by SIGABRT",
        "sent by process 4000",
    ] {
        assert!(texts.contains(&line), "{line}: {texts:#?}");
    }
    assert!(texts[0].starts_with("it happened in thread 1"), "{texts:?}");
    // Nothing of that where nothing is known.
    let plain = DumpAnalysis { crash: Some(crash(11, None, None)), ..crowd(1) };
    let plain = &of_dump(&plain)[0];
    let lines: Vec<&str> = plain.evidence.iter().map(|one| one.text.as_str()).collect();
    assert!(lines.iter().all(|line| !line.contains("sent by") && !line.contains("handler")), "{lines:?}");
}

/// Memory that is missing, or bytes that contradict each other.
#[test]
fn what_is_missing_of_a_dump_and_what_its_frames_lack() {
    let whole =
        finding(&DumpAnalysis { damaged: true, ..crowd(1) }, FindingId::IncompleteDump).expect("damaged");
    assert_eq!(whole.title, "The dump is not whole: parts of it contradict themselves or could not be read");
    assert!(whole.evidence.is_empty(), "{:?}", whole.evidence);
    let row = |class, mb: u64, mappings| {
        let bytes = mb << 20;
        MemoryRow { class, name: String::new(), mapped: bytes, in_dump: bytes, mappings }
    };
    let mut analysis = crowd(1);
    analysis.memory.in_dump = 400 << 20;
    analysis.memory.classes = vec![
        row(MemoryClass::Anonymous, 300, 12),
        row(MemoryClass::Stack, 100, 7),
        row(MemoryClass::Reserved, 0, 9),
    ];
    let split = finding(&analysis, FindingId::MemorySplit).expect("400 MB");
    assert!(split.title.starts_with("75 % of the memory in the dump is "), "{}", split.title);
    assert_eq!(split.evidence.len(), 2, "what has no bytes in it is no part: {:?}", split.evidence);
    assert!(split.evidence[0].text.ends_with(": 315 MB in 12 mappings"), "{}", split.evidence[0].text);
}
