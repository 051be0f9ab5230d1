//! Circles and chains across processes, from looks that are made up.

use super::*;

fn wait(helpers: &[u32], object: PeerObject) -> PeerWait {
    PeerWait {
        object,
        what: "something".to_owned(),
        helpers: helpers.iter().map(|pid| Pid(*pid)).collect(),
        all_seen: true,
        timed: false,
        certain: true,
        unread: 0,
        missed: false,
    }
}

/// Processes of one thread each: pid, and what it waits for.
fn look(processes: &[(u32, Option<PeerWait>)]) -> PeerLook {
    let process = |(pid, wait): &(u32, Option<PeerWait>)| PeerProcess {
        pid: Pid(*pid),
        parent: None,
        name: format!("p{pid}"),
        stopped: false,
        threads: vec![PeerThread { tid: Tid(*pid), call: Some(1), argument: 0, wait: wait.clone() }],
    };
    PeerLook { processes: processes.iter().map(process).collect(), hidden: 0 }
}

fn frozen(tid: u32, call: u32) -> Vec<DumpThread> {
    let state = ThreadState::InSystemCall {
        number: Some(call),
        name: "write".to_owned(),
        wait: crate::dump::WaitKind::Output,
        words: "writes".to_owned(),
    };
    vec![DumpThread { tid: Tid(tid), state, ..DumpThread::default() }]
}

#[test]
fn a_pipe_that_an_idle_child_keeps_open_is_told_from_one_that_is_served() {
    let chain = |call: u32, parent: u32| {
        let mut look = look(&[(7, Some(wait(&[8], PeerObject::PipeData))), (8, None)]);
        look.processes[1].parent = Some(Pid(parent));
        look.processes[1].threads[0].call = Some(call);
        join(&frozen(7, 1), &look, &[], &FxHashSet::default()).chain.map(|chain| chain.len())
    };
    assert_eq!(chain(34, 7), Some(2), "it pauses, and has the end that nobody writes to");
    assert_eq!(chain(34, 1), Some(2), "its parent left it");
    assert_eq!(chain(0, 7), None, "it reads: it will write what comes of that");
    assert_eq!(chain(34, 4), None, "somebody else's");
}

#[test]
fn who_asked_for_the_end_of_a_child_stands_in_the_program() {
    use crate::dump::strands::{self, RuntimeKind, RuntimeStrands, StrandFrame, StrandId, StrandKind};
    let strand = |tid: u32, function: &str| {
        let frames = vec![StrandFrame { function: function.into(), ..StrandFrame::default() }];
        let id = StrandId(u64::from(tid));
        Strand { tid: Some(Tid(tid)), frames, ..Strand::new(id, StrandKind::Thread) }
    };
    let asked_by = |all: &[(u32, &str)]| {
        let mut runtime = RuntimeStrands::new(RuntimeKind::Java, b"java", 0);
        runtime.strands = all.iter().map(|(tid, function)| strand(*tid, function)).collect();
        let facts = [runtime];
        let facts = crate::dump::DumpFacts { strands: &facts, ..crate::dump::DumpFacts::default() };
        let mut look = look(&[(7, Some(wait(&[8], PeerObject::Child))), (8, None)]);
        look.processes[0].threads[0].tid = Tid(70);
        let frozen = [frozen(7, 1), frozen(70, 1)].concat();
        let chain = join(&frozen, &look, &strands::analyze(&facts), &FxHashSet::default()).chain.unwrap();
        chain[0].tid
    };
    let reaper = (70, "java.lang.ProcessHandleImpl.waitForProcessExit0");
    let asks = |tid| (tid, "java.lang.ProcessImpl.waitFor");
    assert_eq!(asked_by(&[reaper, asks(7)]), Tid(7));
    assert_eq!(asked_by(&[reaper]), Tid(70), "nobody asked");
    assert_eq!(
        asked_by(&[reaper, asks(7), asks(9)]),
        Tid(70),
        "two asked, and it is not known who for this one"
    );
}

#[test]
fn a_process_of_one_thread_that_waits_for_another_has_nobody() {
    let last = |threads: u32| {
        let inside =
            PeerWait { what: "another thread of its process".into(), ..wait(&[8], PeerObject::Inside) };
        let mut look = look(&[(7, Some(wait(&[8], PeerObject::Child))), (8, Some(inside))]);
        let more = (1..threads).map(|tid| PeerThread {
            tid: Tid(80 + tid),
            call: Some(35),
            argument: 0,
            wait: None,
        });
        look.processes[1].threads.extend(more);
        let chain = join(&frozen(7, 1), &look, &[], &FxHashSet::default()).chain.unwrap();
        chain[1].waits_for.clone()
    };
    assert!(last(1).contains("it has one thread"), "{}", last(1));
    assert_eq!(last(2), "another thread of its process");
}

#[test]
fn who_is_stopped_does_nothing_else() {
    let does = |stopped: bool| {
        let mut look = look(&[(7, Some(wait(&[8], PeerObject::FileLock))), (8, None)]);
        look.processes[1].stopped = stopped;
        let chain = join(&frozen(7, 1), &look, &[], &FxHashSet::default()).chain.unwrap();
        chain[1].does.clone()
    };
    assert_eq!(does(false), "writes");
    assert_eq!(does(true), STOPPED);
}

#[test]
fn a_file_that_a_process_has_locked_itself() {
    let own = look(&[(7, Some(wait(&[7], PeerObject::FileLock)))]);
    let mut two = own.clone();
    two.processes[0].threads.push(PeerThread { tid: Tid(9), call: Some(35), argument: 0, wait: None });
    let across = join(&frozen(7, 1), &two, &[], &FxHashSet::default());
    assert_eq!(across.chain.map(|chain| chain.len()), Some(1), "another thread of it may have it");
    assert_eq!(join(&frozen(7, 1), &own, &[], &FxHashSet::default()).circles.len(), 1, "it is alone");
}

#[test]
fn two_processes_that_write_to_each_other_are_a_circle() {
    let both = [(7, Some(wait(&[8], PeerObject::PipeRoom))), (8, Some(wait(&[7], PeerObject::PipeRoom)))];
    let across = join(&frozen(7, 1), &look(&both), &[], &FxHashSet::default());
    assert_eq!(across.circles.len(), 1);
    assert_eq!(across.confidence, [Confidence::Certain]);
    assert_eq!(across.circles[0].iter().map(|step| step.pid.0).collect::<Vec<_>>(), [7, 8]);
    assert!(
        join(&frozen(7, 0), &look(&both), &[], &FxHashSet::default()).circles.is_empty(),
        "it did something else when it was frozen"
    );
}

#[test]
fn processes_that_wait_at_different_words_of_shared_memory_are_a_circle() {
    let at = |what: &str| {
        let what = what.to_owned();
        Some(PeerWait { what, certain: false, ..wait(&[7, 8], PeerObject::SharedWord) })
    };
    let across = |a: &str, b: &str| {
        let look = look(&[(7, at(a)), (8, at(b))]);
        join(&frozen(7, 1), &look, &[], &FxHashSet::default())
    };
    let found = across("a semaphore at byte 0x0", "a semaphore at byte 0x20");
    assert_eq!((found.circles.len(), found.confidence), (1, vec![Confidence::VeryLikely]));
    assert!(
        across("a semaphore at byte 0x0", "a semaphore at byte 0x0").circles.is_empty(),
        "workers at rest"
    );
    assert_eq!(across("a semaphore at byte 0x0", "a semaphore at byte 0x0").chain, None);
}

#[test]
fn what_a_process_sent_to_itself_counts_where_nobody_is_told_of_it() {
    let silent = |missed| {
        let own = PeerWait { unread: 300, missed, ..wait(&[7], PeerObject::Socket) };
        join(&frozen(7, 1), &look(&[(7, Some(own))]), &[], &FxHashSet::default()).silent
    };
    assert!(silent(false).is_empty());
    assert_eq!(
        silent(true).iter().map(|peer| (peer.unread, peer.may_read)).collect::<Vec<_>>(),
        [(300, false)]
    );
}

#[test]
fn who_was_not_seen_may_help() {
    let mut both = [(7, Some(wait(&[8], PeerObject::PipeRoom))), (8, Some(wait(&[7], PeerObject::PipeRoom)))];
    if let Some(wait) = &mut both[0].1 {
        wait.all_seen = false;
    }
    assert!(join(&frozen(7, 1), &look(&both), &[], &FxHashSet::default()).circles.is_empty());
    let gone = [(7, Some(wait(&[8, 9], PeerObject::PipeRoom))), (8, Some(wait(&[7], PeerObject::PipeRoom)))];
    assert!(
        join(&frozen(7, 1), &look(&gone), &[], &FxHashSet::default()).circles.is_empty(),
        "9 was not followed"
    );
}

#[test]
fn a_reader_that_has_the_only_other_end_waits_for_itself() {
    let across = join(
        &frozen(7, 1),
        &look(&[(7, Some(wait(&[7], PeerObject::PipeData)))]),
        &[],
        &FxHashSet::default(),
    );
    assert_eq!(across.circles.len(), 1);
}

#[test]
fn a_chain_ends_at_who_waits_for_nobody() {
    let processes =
        [(7, Some(wait(&[8], PeerObject::Child))), (8, Some(wait(&[9], PeerObject::FileLock))), (9, None)];
    let chain = join(&frozen(7, 1), &look(&processes), &[], &FxHashSet::default())
        .chain
        .expect("it waits for a child");
    assert_eq!(chain.iter().map(|step| step.pid.0).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(chain[2].does, "writes");
    let idle = [(7, Some(wait(&[8], PeerObject::Socket))), (8, None)];
    assert_eq!(join(&frozen(7, 1), &look(&idle), &[], &FxHashSet::default()).chain, None, "a server at rest");
}

#[test]
fn a_pipe_of_which_only_its_own_process_has_the_writing_end_is_told_after_what_others_have() {
    let itself = || wait(&[7], PeerObject::PipeData);
    let seen_in_part = PeerWait { all_seen: false, ..itself() };
    let timed = PeerWait { timed: true, ..itself() };
    // Another thread of it could write: no circle.
    let chain = |data: PeerWait, call: u32, managed: &[u32]| {
        let mut look = look(&[(7, Some(data)), (8, None)]);
        let other = PeerThread { tid: Tid(70), wait: None, ..look.processes[1].threads[0].clone() };
        look.processes[0].threads[0].call = Some(call);
        look.processes[0].threads.push(other);
        let mut all = [frozen(7, call), frozen(70, 1)].concat();
        for thread in &mut all {
            thread.managed = managed.contains(&thread.tid.0).then(Default::default);
        }
        let across = join(&all, &look, &[], &FxHashSet::default());
        assert!(across.circles.is_empty());
        across.chain.map(|chain| chain.len())
    };
    assert_eq!(chain(itself(), 0, &[]), Some(1));
    assert_eq!(chain(seen_in_part, 0, &[]), None);
    assert_eq!(chain(timed, 0, &[]), None);
    assert_eq!(chain(wait(&[7], PeerObject::Socket), 0, &[]), None);
    assert_eq!(chain(itself(), 7, &[]), None, "`poll`: its threads wake each other so");
    assert_eq!(chain(itself(), 0, &[70]), None, "a thread of .NET's own, for signals");
    assert_eq!(chain(itself(), 0, &[7]), Some(1), "a thread of the program in .NET");
}

#[test]
fn a_child_waits_for_room_that_only_its_parent_could_make() {
    let full = |parent: u32, wait: PeerWait| {
        let mut look = look(&[(7, None), (8, Some(wait))]);
        look.processes[1].parent = Some(Pid(parent));
        let found = join(&frozen(7, 202), &look, &[], &FxHashSet::default()).full_pipes;
        found.iter().map(FullPipe::label).collect::<Vec<_>>()
    };
    assert_eq!(full(7, wait(&[7], PeerObject::PipeRoom)), ["process 8 (p8)"]);
    assert_eq!(full(7, wait(&[7], PeerObject::SocketRoom)), ["process 8 (p8)"], "a pipe of Node");
    assert!(full(4, wait(&[7], PeerObject::PipeRoom)).is_empty(), "somebody else's child");
    assert!(full(7, wait(&[7, 9], PeerObject::PipeRoom)).is_empty(), "another one reads there, too");
    assert!(full(7, wait(&[7], PeerObject::PipeData)).is_empty(), "it reads");
    let unseen = PeerWait { all_seen: false, ..wait(&[7], PeerObject::PipeRoom) };
    assert!(full(7, unseen).is_empty());
}
