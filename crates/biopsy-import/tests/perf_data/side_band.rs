//! Records beside the samples: who ran, what was mapped, what was lost.

use biopsy_model::loss::LossKind;
use biopsy_model::module::ModuleKind;
use biopsy_model::timeline::{ThreadLife, Timeline, TimelineEvent};
use biopsy_model::{MonoNanos, Pid, Tid};

use crate::build::{Event, File, Row, Side, clock, codes, import, sample, timeline};

const PID: u32 = 100;
const MAIN: [u32; 2] = [PID, PID];

fn side() -> Side {
    Side { event: clock() }
}

fn at(time: u64, who: [u32; 2], ip: u64) -> Vec<u8> {
    let row =
        Row { time, pid: who[0], tid: who[1], ip, chain: vec![ip], period: 1_000_000, ..Row::default() };
    sample(&clock(), &row)
}

fn file(records: &[Vec<u8>]) -> File {
    File::new(&[clock()], records)
}

fn life(timeline: &Timeline, tid: u32) -> Vec<&ThreadLife> {
    timeline.threads.iter().filter(|life| life.info.tid == Tid(tid)).collect()
}

#[test]
fn threads_are_called_what_they_called_themselves_last() {
    let records = [
        side().comm(0, MAIN, "bash", false),
        side().comm(10, MAIN, "server", true),
        side().comm(20, [PID, 101], "worker", false),
        at(30, [PID, 101], 0x1000),
        at(31, MAIN, 0x1000),
        at(32, MAIN, 0x1000),
    ];
    let capture = import(&file(&records));
    let timeline = timeline(&capture);
    assert_eq!(life(timeline, PID)[0].info.name, "server");
    assert_eq!(life(timeline, 101)[0].info.name, "worker");
    let exec = TimelineEvent::Exec { time: MonoNanos(10), pid: Pid(PID), name: "server".to_owned() };
    assert_eq!(timeline.process_events, [exec]);
    assert_eq!(capture.header.target_name, "server", "the name of the process, not of a thread");
    assert_eq!(capture.processes.len(), 1);
}

#[test]
fn what_was_there_before_begins_with_the_recording() {
    let capture = import(&file(&[side().comm(0, MAIN, "server", false), at(500, MAIN, 0x1000)]));
    let life = life(timeline(&capture), PID)[0];
    assert_eq!((life.start, life.born, life.by, life.exit), (MonoNanos(500), false, None, None));
}

#[test]
fn new_threads_and_processes_know_their_makers() {
    let records = [
        side().comm(0, MAIN, "server", false),
        side().fork(10, [PID, 101], MAIN),
        side().fork(20, [200, 200], [PID, 101]),
        side().exit(30, [200, 200]),
        side().exit(31, [PID, 101]),
        at(40, MAIN, 0x1000),
    ];
    let capture = import(&file(&records));
    let timeline = timeline(&capture);
    let thread = life(timeline, 101)[0];
    assert_eq!((thread.born, thread.by, thread.start), (true, Some(Tid(PID)), MonoNanos(10)));
    assert_eq!((thread.exit, thread.info.pid), (Some(MonoNanos(31)), Pid(PID)));
    assert_eq!(life(timeline, 200)[0].info.name, "server", "until it says otherwise");
    let start = TimelineEvent::ProcessStart { time: MonoNanos(20), pid: Pid(200), parent: Pid(PID) };
    let exit = TimelineEvent::ProcessExit { time: MonoNanos(30), pid: Pid(200) };
    assert_eq!(timeline.process_events, [start, exit], "a thread is no process");
    let child = capture.processes.iter().find(|process| process.key.pid == Pid(200)).unwrap();
    assert_eq!(child.parent, Pid(PID));
}

#[test]
fn an_id_that_is_used_again_is_another_thread() {
    let records = [
        side().fork(10, [PID, 101], MAIN),
        side().exit(20, [PID, 101]),
        side().fork(30, [PID, 101], MAIN),
        at(40, [PID, 101], 0x1000),
    ];
    let capture = import(&file(&records));
    let lives = life(timeline(&capture), 101);
    let of: Vec<_> = lives.iter().map(|life| (life.start.0, life.exit.map(|exit| exit.0))).collect();
    assert_eq!(of, [(10, Some(20)), (30, None)]);
}

/// Kind, path, whether it is deleted, build id.
type Mapped = (ModuleKind, String, bool, Option<Vec<u8>>);

/// Module and address of the only frame of the only sample.
fn place(records: &[Vec<u8>]) -> (Option<Mapped>, u64) {
    let capture = import(&file(records));
    let timeline = timeline(&capture);
    assert_eq!(timeline.frames.len(), 1, "{:?}", timeline.frames);
    let frame = timeline.frames[0];
    let module = frame.module.map(|handle| &timeline.modules[handle.0 as usize]);
    let of = module.map(|of| (of.kind, of.path.clone(), of.deleted, of.build_id.clone()));
    (of, frame.address.0)
}

#[test]
fn addresses_belong_to_what_was_mapped_there() {
    const CODE: u32 = 5;
    let [id, other] = [[0xab_u8; 20], [0xcd; 20]];
    let mapped = |path: &str| side().map(5, PID, [0x40_0000, 0x1000, 0x2000], path);
    let mapped2 = |of, protection| side().map2(5, PID, [0x40_0000, 0x1000, 0x2000], "/bin/a", of, protection);
    let elf = |path: &str, deleted, id: Option<&[u8]>| {
        Some((ModuleKind::Elf, path.to_owned(), deleted, id.map(<[u8]>::to_vec)))
    };
    let jit = |deleted| Some((ModuleKind::Jit, "[jit]".to_owned(), deleted, None));
    for (what, record, module, address) in [
        // Without the file, what it states is not known: the place in it stands for that.
        ("a file", mapped("/bin/a"), elf("/bin/a", false, None), 0x2123),
        ("a file that is gone", mapped("/bin/a (deleted)"), elf("/bin/a (deleted)", true, None), 0x2123),
        ("a build id", mapped2(Ok(&id), CODE), elf("/bin/a", false, Some(&id)), 0x2123),
        ("a short build id", mapped2(Ok(&other[..8]), CODE), elf("/bin/a", false, Some(&other[..8])), 0x2123),
        ("no build id", mapped2(Ok(&[]), CODE), elf("/bin/a", false, None), 0x2123),
        ("an inode", mapped2(Err(7), CODE), elf("/bin/a", false, None), 0x2123),
        ("data", mapped2(Err(7), 3), None, 0x40_0123),
        ("memory without a file", mapped("//anon"), jit(false), 0x40_0123),
        ("shared memory", mapped("/memfd:doublemapper (deleted)"), jit(true), 0x40_0123),
        ("the heap", mapped("[heap]"), jit(false), 0x40_0123),
        ("nothing", side().map(5, PID, [0x40_0000, 0, 0], "/bin/a"), None, 0x40_0123),
        ("another process's", side().map(5, 7, [0x40_0000, 0x1000, 0], "/bin/a"), None, 0x40_0123),
        ("later", side().map(50, PID, [0x40_0000, 0x1000, 0], "/bin/a"), None, 0x40_0123),
    ] {
        assert_eq!(place(&[record, at(10, MAIN, 0x40_0123)]), (module, address), "{what}");
    }
    let vdso = place(&[mapped("[vdso]"), at(10, MAIN, 0x40_0123)]).0.unwrap();
    assert_eq!((vdso.0, vdso.1.as_str()), (ModuleKind::Vdso, "[vdso]"));
}

#[test]
fn children_begin_with_what_their_parents_had_and_programs_with_nothing() {
    let mapped = side().map(5, PID, [0x40_0000, 0x1000, 0], "/bin/a");
    let forked = side().fork(6, [200, 200], MAIN);
    let child = [200, 200];
    let (module, _) = place(&[mapped.clone(), forked.clone(), at(10, child, 0x40_0123)]);
    assert_eq!(module.unwrap().1, "/bin/a");
    let executed = side().comm(7, child, "other", true);
    let (module, _) = place(&[mapped, forked, executed, at(10, child, 0x40_0123)]);
    assert_eq!(module, None);
}

#[test]
fn the_last_of_two_mappings_at_one_place_counts() {
    let records = [
        side().map(5, PID, [0x40_0000, 0x1000, 0], "/bin/a"),
        side().map(6, PID, [0x40_0000, 0x1000, 0], "/bin/b"),
        at(10, MAIN, 0x40_0123),
    ];
    assert_eq!(place(&records).0.unwrap().1, "/bin/b");
}

#[test]
fn loss_lies_between_what_was_told_before_and_now() {
    let records = [at(10, MAIN, 0x1000), side().lost(30, 7), side().lost(50, 2), at(60, MAIN, 0x1000)];
    let capture = import(&file(&records));
    let losses = &timeline(&capture).losses;
    let of: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.from.0, loss.to.0, loss.count)).collect();
    assert_eq!(of, [(LossKind::Samples, 30, 30, 7), (LossKind::Samples, 30, 50, 2)]);
}

#[test]
fn throttling_is_loss_from_its_start_to_its_end() {
    let throttled = |records: &[Vec<u8>]| -> Vec<(u64, u64)> {
        let capture = import(&file(records));
        let losses = timeline(&capture).losses.clone();
        assert!(losses.iter().all(|loss| loss.kind == LossKind::Throttled));
        losses.iter().map(|loss| (loss.from.0, loss.to.0)).collect()
    };
    let (on, off) = (|time| side().throttle(time, true), |time| side().throttle(time, false));
    let last = at(90, MAIN, 0x1000);
    assert_eq!(throttled(&[on(10), on(15), off(20), off(25), last.clone()]), [(10, 20)]);
    assert_eq!(throttled(&[on(10), last.clone()]), [(10, 90)], "to the end of the recording");
    assert_eq!(throttled(&[off(10), last]), []);
}

#[test]
fn records_that_are_too_short_are_counted() {
    let mut comm = side().comm(5, MAIN, "server", false);
    // The size says that it ends within its second number.
    comm.truncate(14);
    comm[6] = 14;
    let capture = import(&file(&[comm.clone(), comm, at(10, MAIN, 0x1000)]));
    assert_eq!(codes(&capture), ["import.damaged"]);
    assert_eq!(capture.warnings[0].message, "2 records of perf.data could not be read");
    assert_eq!(timeline(&capture).samples.len(), 1);
}

#[test]
fn records_without_times_stand_at_the_start() {
    let untimed = Event { flags: 0, ..clock() };
    let side = Side { event: untimed.clone() };
    let row = Row { time: 10, pid: PID, tid: PID, ip: 0x40_0123, period: 1, ..Row::default() };
    let records = [sample(&untimed, &row), side.map(50, PID, [0x40_0000, 0x1000, 0], "/bin/a")];
    let capture = import(&File::new(&[untimed], &records));
    assert_eq!(timeline(&capture).modules[0].path, "/bin/a");
}
