//! Descriptors: what they may say, and what is refused.

use biopsy_model::Avma;

use super::made::{BASE, MAGIC, Made};
use crate::layout::LayoutError;
use crate::runtime::{FoundRuntime, Runtime, RuntimeError, RuntimeVersion};

fn version(major: u16) -> Option<RuntimeVersion> {
    Some(RuntimeVersion { major, minor: 0, patch: None })
}

fn refused(made: &Made, found: &FoundRuntime) -> RuntimeError {
    made.open_at(found).map(|_| ()).expect_err("it is refused")
}

#[test]
fn a_whole_descriptor_is_enough_for_a_version_that_nobody_has_met() {
    let mut made = Made::new();
    made.thread(1, 2);
    for (name, value) in [("MethodDescTokenRemainderBitCount", 12), ("MethodDescAlignment", 8)] {
        made.global(name, value);
    }
    made.version = version(99);
    let missing = made.try_open().map(|_| ()).expect_err("no layout file fills the gaps");
    assert!(matches!(missing, RuntimeError::Layout(LayoutError::NoField { .. })), "{missing}");
    for (of, field, offset) in [
        ("GenericsDictInfo", "NumDicts", 4),
        ("GenericsDictInfo", "NumTypeArgs", 6),
        ("RangeSectionFragment", "Next", 0),
        ("RangeSectionFragment", "RangeBegin", 8),
        ("RangeSectionFragment", "RangeEndOpen", 16),
        ("RangeSectionFragment", "RangeSection", 24),
        ("RangeSection", "RangeBegin", 0),
        ("RangeSection", "RangeEndOpen", 8),
        ("RangeSection", "R2RModule", 32),
        ("RangeSection", "HeapList", 40),
        ("CodeHeapListNode", "StartAddress", 16),
        ("CodeHeapListNode", "EndAddress", 24),
        ("CodeHeapListNode", "MapBase", 32),
        ("CodeHeapListNode", "HeaderMap", 40),
        ("RealCodeHeader", "MethodDesc", 24),
        ("RealCodeHeader", "NumUnwindInfos", 32),
        ("RealCodeHeader", "UnwindInfos", 36),
        ("RuntimeFunction", "!", 12),
        ("RuntimeFunction", "BeginAddress", 0),
        ("RuntimeFunction", "UnwindData", 8),
        ("HashMap", "Buckets", 16),
        ("Bucket", "!", 64),
        ("Bucket", "Keys", 0),
        ("Bucket", "Values", 32),
    ] {
        made.offset(of, field, offset);
    }
    let runtime = made.try_open().expect("it fits");
    assert_eq!(runtime.layout().sources(), ["descriptor"]);
    assert_eq!(runtime.threads().expect("a list").len(), 1);
}

#[test]
fn what_every_runtime_must_say_is_named_when_it_is_missing() {
    for (of, field) in [
        ("MethodTable", "MTFlags"),
        ("MethodTable", "EEClassOrCanonMT"),
        ("EEClass", "MethodTable"),
        ("ArrayClass", "Rank"),
        ("ParamTypeDesc", "TypeArg"),
        ("MethodDesc", "ChunkIndex"),
        ("MethodDescChunk", "MethodTable"),
        ("Thread", "LinkNext"),
        ("Thread", "RuntimeThreadLocals"),
        ("RuntimeThreadLocals", "AllocContext"),
        ("GCAllocContext", "Limit"),
        ("ThreadStore", "FirstThreadLink"),
        ("ReadyToRunInfo", "CompositeInfo"),
    ] {
        let mut made = Made::new();
        made.thread(1, 2);
        made.without(of, field);
        let refused = made.try_open().map(|_| ()).expect_err("it is missing").to_string();
        let wanted = format!("the layout of this runtime does not describe `{of}.{field}`");
        assert_eq!(refused, wanted);
    }
}

#[test]
fn descriptors_that_are_damaged_say_where() {
    let mut made = Made::new();
    made.thread(1, 2);
    let found = made.found();
    let Avma(at) = found.descriptor.expect("it has one");
    let whole: Vec<u64> = (0..5).map(|word| made.read(at + word * 8)).collect();
    let mut with = |word: u64, value: u64| {
        (0..5).for_each(|number| made.put(at + number * 8, whole[number as usize]));
        made.put(at + word * 8, value);
        refused(&made, &found)
    };
    let magic = with(0, MAGIC + 1).to_string();
    assert!(
        magic.starts_with("the descriptor of the runtime at") && magic.ends_with("0x43414443434e45"),
        "{magic}"
    );
    let sizes = with(1, (4 << 20 | 1) << 32);
    assert!(matches!(sizes, RuntimeError::Layout(LayoutError::TooMuch { what: "bytes", .. })), "{sizes}");
    assert!(matches!(with(1, 0), RuntimeError::Layout(LayoutError::Malformed { .. })));
    assert!(matches!(with(2, 0x7777_0000), RuntimeError::Memory(_)));
    assert!(matches!(with(3, 4097), RuntimeError::TooMany { what: "the table of addresses", limit: 4096 }));
    made.put(at + 24, 3);
    made.put(at + 32, BASE + (1 << 20) - 16);
    assert!(matches!(refused(&made, &found), RuntimeError::Memory(_)), "the third is behind the end");
    let nowhere = FoundRuntime { descriptor: Some(Avma(0x7777_0000)), ..found };
    assert!(matches!(refused(&made, &nowhere), RuntimeError::Memory(_)));
}

#[test]
fn a_descriptor_that_is_cut_anywhere_is_refused() {
    let mut made = Made::new();
    made.thread(1, 2);
    let found = made.found();
    let Avma(at) = found.descriptor.expect("it has one");
    let size = (made.read(at + 8) >> 32) as u32;
    for cut in (0..size).step_by(97).chain(size - 3..size) {
        made.put32(at + 12, cut);
        let refused = refused(&made, &found);
        assert!(matches!(refused, RuntimeError::Layout(LayoutError::Malformed { .. })), "{cut}: {refused}");
    }
    made.put32(at + 12, size);
    assert!(made.open_at(&found).is_ok());
}

/// Text of a descriptor with these parts, by index into its table of addresses.
fn parts(types: &str, parts: &[usize]) -> String {
    let parts: Vec<String> =
        parts.iter().map(|index| format!(r#""P{index}":[[{index}],"pointer"]"#)).collect();
    format!(r#"{{"version":0,"types":{types},"subDescriptors":{{{}}}}}"#, parts.join(","))
}

#[test]
fn parts_are_found_directly_and_through_a_pointer_and_each_once() {
    let mut made = Made::new();
    made.thread(1, 2);
    let json = made.json();
    let deep = made.descriptor(&parts(r#"{"Deep":{"X":4},"Direct":{"X":99}}"#, &[]), &[]);
    let slot = made.words(&[deep]);
    // The collector's descriptor is there, or its pointer is; a pointer that is not set yet says nothing.
    let (empty, nowhere) = (made.words(&[0]), 0x7777_0000);
    let direct = made.descriptor(&parts(r#"{"Direct":{"X":5}}"#, &[0, 1, 2]), &[slot, empty, nowhere]);
    let own = made.alloc(8);
    let text = json.replacen(
        r#""types""#,
        r#""subDescriptors":{"GC":[[0],"pointer"],"Own":[[1],"pointer"]},"types""#,
        1,
    );
    let whole = made.descriptor(&text, &[direct, own]);
    // Of itself.
    made.put(own, whole);
    let found = FoundRuntime { descriptor: Some(Avma(whole)), ..made.found() };
    let runtime = made.open_at(&found);
    // The metadata is that of `found`, which comes behind the addresses of `whole`.
    let runtime = runtime.expect("it fits");
    let layout = runtime.layout();
    assert_eq!((layout.find_field("Direct", "X"), layout.find_field("Deep", "X")), (Some(5), Some(4)));
    let sources: Vec<_> = layout.sources().iter().map(String::as_str).collect();
    assert_eq!(
        sources,
        ["descriptor", "descriptor GC", "descriptor GC P0", "coreclr-10.0", "coreclr-common"]
    );
}

#[test]
fn a_chain_of_parts_without_end_is_left() {
    let mut made = Made::new();
    made.thread(1, 2);
    let mut next = made.words(&[0]);
    for number in 0..40 {
        let text = parts(&format!(r#"{{"T{number}":{{"X":{number}}}}}"#), &[0]);
        let slot = made.descriptor(&text, &[next]);
        next = made.words(&[slot]);
    }
    let json = made.json().replacen(r#""types""#, r#""subDescriptors":{"GC":[[0],"pointer"]},"types""#, 1);
    let whole = made.descriptor(&json, &[next]);
    let found = FoundRuntime { descriptor: Some(Avma(whole)), ..made.found() };
    let runtime = made.open_at(&found).expect("it fits");
    assert_eq!(runtime.layout().find_field("T39", "X"), Some(39));
    assert_eq!(runtime.layout().find_field("T25", "X"), Some(25), "the sixteenth");
    assert_eq!(runtime.layout().find_field("T24", "X"), None);
    drop(runtime);
    // A part that is damaged costs the runtime: what it would have said is not known.
    let broken = made.words(&[MAGIC, 0, 0, 0, 0]);
    let json = made.json().replacen(r#""types""#, r#""subDescriptors":{"GC":[[0],"pointer"]},"types""#, 1);
    let whole = made.descriptor(&json, &[broken]);
    let found = FoundRuntime { descriptor: Some(Avma(whole)), ..made.found() };
    assert!(matches!(refused(&made, &found), RuntimeError::Layout(LayoutError::Malformed { .. })));
}

#[test]
fn without_a_descriptor_only_versions_with_a_whole_layout_file_can_be_read() {
    let mut made = Made::new();
    let found = made.found();
    for (version, wanted) in [
        (version(10), "no layout for .NET 10.0"),
        (version(99), "no layout for .NET 99.0"),
        (None, "no layout for .NET of unknown version"),
    ] {
        let found = FoundRuntime { descriptor: None, version, ..found.clone() };
        let refused = refused(&made, &found).to_string();
        assert!(refused.starts_with(wanted) && refused.contains("8.0 (linux-x64)"), "{refused}");
    }
    // 8 has a file, which is for tables of two sizes.
    let table = made.alloc(1300);
    for (bytes, what) in [(1300, "has 1300 bytes"), (0, "has 0 bytes")] {
        let dac_table = Some((Avma(table), bytes));
        let found = FoundRuntime { descriptor: None, version: version(8), dac_table, ..found.clone() };
        let refused = refused(&made, &found).to_string();
        assert!(refused.contains(what), "{refused}");
    }
    let endless = FoundRuntime { dac_table: Some((Avma(table), u64::MAX)), ..found.clone() };
    let refused_table = refused(&made, &endless);
    assert!(matches!(refused_table, RuntimeError::TooMany { what: "the table of addresses", .. }));
    let nowhere = FoundRuntime { dac_table: Some((Avma(0x7777_0000), 16)), ..found };
    assert!(matches!(refused(&made, &nowhere), RuntimeError::Memory(_)));
}

/// No descriptor says where the cache of locks is; it follows the table of locks among the addresses.
#[test]
fn the_cache_of_locks_is_behind_their_table() {
    let mut made = Made::new();
    made.thread(1, 2);
    let locks = made.words(&[0]);
    made.global("SyncTableEntries", locks);
    let cache = |made: &mut Made, addresses: &[u64]| {
        let table = made.words(addresses);
        made.table = Some((Avma(table), addresses.len() as u64 * 8));
        made.try_open().expect("it fits").layout().find_global("SyncBlockCache")
    };
    assert_eq!(cache(&mut made, &[BASE, locks, BASE + 8]), Some(BASE + 8));
    assert_eq!(cache(&mut made, &[BASE, locks]), None, "it is the last");
    assert_eq!(cache(&mut made, &[BASE]), None);
    made.global("SyncBlockCache", BASE + 64);
    assert_eq!(cache(&mut made, &[BASE, locks, BASE + 8]), Some(BASE + 64), "the descriptor says it");
}

#[test]
fn runtimes_that_cannot_be_read_are_no_runtimes() {
    let mut made = Made::new();
    let found = made.found();
    for name in ["FreeObjectMethodTable", "ObjectMethodTable", "ExceptionMethodTable"] {
        let mut made = Made::new();
        made.global(name, 0x7777_0000);
        let found = made.found();
        assert!(matches!(refused(&made, &found), RuntimeError::Memory(_)), "{name}");
    }
    let empty = crate::made_up::MadeUp::default();
    let refused = Runtime::open(Box::new(&empty), &found, &Default::default()).map(|_| ());
    assert!(matches!(refused, Err(RuntimeError::Memory(_))));
}
