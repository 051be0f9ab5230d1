//! What the words of the model say when they are asked: order by importance, what is found by name or number, and addresses that
//! cannot be taken for each other's.

use biopsy_model::capture::{Capture, RedactionCount};
use biopsy_model::dump::{Class, DumpKind, Reason};
use biopsy_model::footprint::{Blocks, Footprint, FootprintPart, MemoryKind};
use biopsy_model::heap::HeapType;
use biopsy_model::log::{LogFile, LogLevel};
use biopsy_model::look::Look;
use biopsy_model::loss::{LossKind, Warning};
use biopsy_model::metric::MetricTable;
use biopsy_model::peers::{PeerLook, PeerProcess};
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::timeline::Timeline;
use biopsy_model::{
    Avma, BootId, Confidence, FileOffset, LookupAddress, Pid, ProcessKey, Severity, Svma, Tid,
};

#[test]
fn an_address_says_which_space_it_is_of() {
    assert_eq!(format!("{:?}", Avma(0x7f10)), "Avma(0x7f10)");
    assert_eq!(format!("{:?}", Svma(0)), "Svma(0x0)");
    assert_eq!(format!("{:?}", FileOffset(u64::MAX)), "FileOffset(0xffffffffffffffff)");
    assert_eq!(format!("{} {:x} {:#x}", Avma(0x1f), Avma(0x1f), Avma(0x1f)), "0x1f 1f 0x1f");
    // What is looked up is either, and is the same number.
    let (actual, stated) = (LookupAddress::from(Avma(0x40)), LookupAddress::from(Svma(0x40)));
    assert_eq!((actual, stated.to_string().as_str()), (stated, "0x40"));
    assert_eq!(Tid::from(Pid(7)), Tid(7), "the first thread has the number of its process");
}

#[test]
fn what_matters_more_is_greater() {
    assert!(Severity::ALL.is_sorted() && Severity::ALL.last() == Some(&Severity::Critical));
    assert!(
        LogLevel::Error > LogLevel::Warning
            && LogLevel::Info > LogLevel::Debug
            && LogLevel::Debug > LogLevel::Unknown
    );
    let sure = [Confidence::Possible, Confidence::VeryLikely, Confidence::AlmostCertain, Confidence::Certain];
    assert!(sure.windows(2).all(|pair| pair[0] < pair[1] && pair[0].words() != pair[1].words()));
}

#[test]
fn memory_is_written_the_most_important_first() {
    for (place, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class.index(), place);
    }
    assert!(Class::ALL.is_sorted(), "the order of the list is that of the classes");
    // What others may write, too, changes whether or not there is a frozen copy.
    let frozen: Vec<Class> = Class::ALL.into_iter().filter(|class| class.needs_freeze()).collect();
    assert_eq!(frozen, [Class::Stacks, Class::Modules, Class::Private]);
}

#[test]
fn a_reference_is_in_the_field_of_its_number() {
    let fields = |names: &[&str], repeats| HeapType {
        fields: names.iter().map(|name| (*name).to_owned()).collect(),
        repeats,
        noted: vec!["_size".to_owned(), "same text".to_owned()],
        ..HeapType::default()
    };
    let object = fields(&["_items", "_next"], false);
    assert_eq!([0, 1, 2].map(|number| object.field_of(number)), [Some("_items"), Some("_next"), None]);
    // An array has the fields of its element again and again.
    let array = fields(&["key", "value"], true);
    assert_eq!(
        [0, 1, 2, 7, usize::MAX].map(|number| array.field_of(number)),
        [Some("key"), Some("value"), Some("key"), Some("value"), Some("value")]
    );
    // Of an array of references nothing is known, and nothing is divided by it.
    assert_eq!(
        [fields(&[], true), fields(&[], false)].map(|one| one.field_of(0).map(str::to_owned)),
        [None, None]
    );
    assert_eq!((object.noted("same text"), object.noted("_Size")), (Some(1), None));
}

#[test]
fn blocks_add_up_and_stop_at_the_largest_number() {
    let mut blocks = Blocks::default();
    [16, 32, 0].into_iter().for_each(|bytes| blocks.add(bytes));
    assert_eq!(blocks, Blocks { count: 3, bytes: 48 });
    let mut full = Blocks { count: u64::MAX, bytes: u64::MAX - 1 };
    full.add(7);
    assert_eq!(full, Blocks { count: u64::MAX, bytes: u64::MAX });
}

#[test]
fn memory_of_a_kind_is_found_and_otherwise_none() {
    let part = |kind, resident| FootprintPart { kind, resident, reserved: 9 };
    let parts = vec![part(MemoryKind::Stacks, 5), part(MemoryKind::Other("gpu".to_owned()), 7)];
    let footprint = Footprint { parts, ..Footprint::default() };
    assert_eq!(footprint.resident(&MemoryKind::Stacks), 5);
    assert_eq!(footprint.resident(&MemoryKind::from("gpu")), 7);
    assert_eq!(footprint.resident(&MemoryKind::from("npu")), 0);
    assert_eq!(footprint.resident(&MemoryKind::Allocated), 0);
}

#[test]
fn a_recording_of_one_moment_holds_no_time() {
    let mut moment = Capture::default();
    moment.warnings.push(Warning::new("a.code", "text"));
    moment.context.push(("limits".to_owned(), "text".to_owned()));
    assert!(!moment.holds_time());
    let dotnet = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
    let runtime = RuntimeTrace::new(Pid(7), dotnet, "port".to_owned());
    assert!(Capture { runtimes: vec![runtime], ..moment.clone() }.holds_time());
    assert!(Capture { timeline: Some(Timeline::default()), ..moment.clone() }.holds_time());
    assert!(Capture { metrics: vec![MetricTable::default()], ..moment.clone() }.holds_time());
    let log = LogFile {
        source: "/var/log/app.log".to_owned(),
        member: "logs/0.jsonl".to_owned(),
        assumed_zone: "UTC".to_owned(),
        lines: Vec::new(),
    };
    assert!(Capture { logs: vec![log], ..moment.clone() }.holds_time());
    // A look, and what was masked, are of one moment.
    let looks = vec![Look { pid: Pid(7), ..Look::default() }];
    let count = RedactionCount { member: "a".to_owned(), rule: "password".to_owned(), count: 1 };
    assert!(!Capture { looks, redactions: vec![count], ..moment }.holds_time());
}

/// A pid is given away again, on the same boot and on the next one: each part of the key tells processes apart, and nothing else does.
#[test]
fn a_process_is_its_boot_its_pid_and_its_start() {
    let key = |boot: &str, pid, start_ticks| ProcessKey {
        boot_id: BootId(boot.to_owned()),
        pid: Pid(pid),
        start_ticks,
    };
    let all = [key("a", 1, 1), key("a", 1, 2), key("a", 2, 1), key("b", 1, 1)];
    for (number, one) in all.iter().enumerate() {
        for (other_number, other) in all.iter().enumerate() {
            assert_eq!(one == other, number == other_number, "{one:?} {other:?}");
        }
    }
    assert!(all.is_sorted(), "by boot, then pid, then start");
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
}

#[test]
fn numbers_stand_in_columns() {
    assert_eq!(format!("[{:>6}] [{:<4}] [{:03}]", Pid(42), Tid(7), Tid(7)), "[    42] [7   ] [007]");
}

/// Notes of cores name a reason by its place in the list, from 1: an old core must mean what it meant.
#[test]
fn reasons_have_the_numbers_that_cores_have() {
    let numbers = [
        Reason::Zero,
        Reason::InFile,
        Reason::Kind,
        Reason::Ceiling,
        Reason::Unreadable,
        Reason::Gone,
        Reason::Device,
        Reason::NoTime,
    ];
    assert_eq!(Reason::ALL, numbers);
    let distinct: std::collections::HashSet<Reason> = Reason::ALL.into_iter().collect();
    assert_eq!(distinct.len(), Reason::ALL.len());
    assert_eq!([DumpKind::Core, DumpKind::Minidump].map(|kind| kind.to_string()), ["core", "minidump"]);
}

/// A report that says that something was lost is a report of trouble: only what was left out on purpose is none.
#[test]
fn of_all_losses_one_kind_is_meant() {
    let all = [
        LossKind::Samples,
        LossKind::Waits,
        LossKind::SideBand,
        LossKind::Throttled,
        LossKind::StacksSkipped,
        LossKind::Metrics,
        LossKind::Disk,
        LossKind::Allocations,
        LossKind::Switches,
    ];
    let meant: Vec<LossKind> = all.into_iter().filter(|kind| kind.is_meant()).collect();
    assert_eq!(meant, [LossKind::Switches]);
    assert!(all.is_sorted(), "what is worst for a profile comes first");
}

#[test]
fn a_warning_stays_on_its_line() {
    let warning = Warning::new("a.code", "x\u{1b}[2J\ny");
    assert_eq!(warning.in_words(), "x\\u{1b}[2J\\ny");
    let hinted = Warning { hint: Some("run\tas root".to_owned()), ..warning };
    assert_eq!(hinted.in_words(), "x\\u{1b}[2J\\ny (run\\tas root)");
}

#[test]
fn a_peer_is_found_by_its_number() {
    let process =
        |pid, name: &str| PeerProcess { pid: Pid(pid), name: name.to_owned(), ..PeerProcess::default() };
    let look = PeerLook { processes: vec![process(7, "server"), process(9, "database")], hidden: 1 };
    assert_eq!(look.process(Pid(9)).map(|one| one.name.as_str()), Some("database"));
    assert_eq!(look.process(Pid(8)), None);
}
