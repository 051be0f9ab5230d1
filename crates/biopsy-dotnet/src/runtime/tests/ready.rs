//! Code that was compiled ahead: tables of functions, the map from entries to methods, handlers.

use biopsy_model::Avma;

use super::code::range;
use super::made::Made;
use crate::metadata::tests::made::{Assembly, SECTION_RVA, pe};
use crate::runtime::{CodeKind, RuntimeError, Tier};

/// Where the image is mapped; two entries of the map of code.
const IMAGE: u64 = 0x7e00_0000_0000;
const IMAGE_BYTES: usize = 0x6000;
/// Functions of an image {begin, end, unwind information}: three methods, of which the second has a funclet and a cold part.
const FUNCTIONS: [[u32; 3]; 5] = [
    [0x3000, 0x3100, 0x100],
    [0x3100, 0x3200, 0x110],
    [0x3200, 0x3240, 0x120],
    [0x4000, 0x4100, 0x130],
    [0x5000, 0x5080, 0x140],
];

struct Ready {
    made: Made,
    info: u64,
    buckets: u64,
    functions: u64,
}

/// An image whose methods at these relative addresses have been called.
fn ready(called: &[(u32, u64)]) -> Ready {
    let mut made = Made::new();
    made.thread(1, 2);
    made.memory.areas.push((IMAGE, vec![0; IMAGE_BYTES]));
    let module = made.alloc(0x100);
    let info = made.alloc(0x100);
    made.put(module + 24, info);
    made.put(info + 40, info);
    let bytes: Vec<u8> = FUNCTIONS.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
    let functions = made.store(&bytes);
    made.put(info + 80, functions);
    made.put32(info + 88, FUNCTIONS.len() as u32);
    let buckets = made.alloc(64 * 20);
    made.put(info + 112 + 16, buckets);
    made.put(buckets, called.len().div_ceil(3) as u64);
    for (number, (begin, method)) in called.iter().enumerate() {
        // Three of four slots are in use, the last is deleted.
        let bucket = buckets + 64 + 64 * (number as u64 / 3);
        let slot = bucket + 8 * (number as u64 % 3);
        made.put(slot, IMAGE + u64::from(*begin));
        // The topmost bit marks collisions.
        made.put(slot + 32, method >> 1 | 1 << 63);
        made.put(bucket + 24, 1);
    }
    range(&mut made, IMAGE, IMAGE + IMAGE_BYTES as u64, module, 0);
    Ready { made, info, buckets, functions }
}

const ALL: [(u32, u64); 4] =
    [(0x3000, 0x2000_0100), (0x3100, 0x2000_0200), (0x5000, 0x2000_0300), (0x9000, 0x400)];

/// Method, start and end of what is found at these relative addresses.
fn found(ready: &mut Ready, at: &[u32]) -> Vec<Option<(u64, u64, Option<u64>)>> {
    let runtime = ready.made.try_open().expect("it fits");
    let find = |at: &u32| {
        let method = runtime.find_method(Avma(IMAGE + u64::from(*at))).expect("readable")?;
        assert_eq!((method.kind, method.tier), (CodeKind::ReadyToRun, Some(Tier::ReadyToRun)));
        let relative = |address: Avma| address.0 - IMAGE;
        let desc = method.method_desc.expect("a method").0.0;
        Some((desc, relative(method.code_start), method.code_end.map(relative)))
    };
    at.iter().map(find).collect()
}

#[test]
fn methods_that_were_called_are_found_and_their_pieces_belong_to_them() {
    let mut ready = ready(&ALL);
    let [one, two, three] =
        [(0x3000, 0x3100), (0x3100, 0x3200), (0x5000, 0x5080)].map(|(start, end)| (start, Some(end)));
    let of = |number: usize, (start, end): (u64, Option<u64>)| Some((ALL[number].1, start, end));
    assert_eq!(
        found(&mut ready, &[0x3000, 0x30ff, 0x3100, 0x507f]),
        [of(0, one), of(0, one), of(1, two), of(2, three)]
    );
    // A funclet behind its method, and (without a table of split methods) what comes behind it.
    let behind = Some((ALL[1].1, 0x3100, None));
    assert_eq!(found(&mut ready, &[0x3210, 0x4010]), [behind, behind]);
    assert_eq!(found(&mut ready, &[0x2fff, 0x3240, 0x4fff, 0x5080]), [None, None, None, None]);
}

#[test]
fn unwind_information_is_that_of_the_piece() {
    let mut ready = ready(&ALL);
    let runtime = ready.made.try_open().expect("it fits");
    let method = runtime.find_method(Avma(IMAGE + 0x3210)).expect("readable").expect("a method");
    let unwind = method.unwind.expect("it has some");
    assert_eq!((unwind.start, unwind.end), (Avma(IMAGE + 0x3200), Avma(IMAGE + 0x4000)));
    assert_eq!((unwind.address, method.range_begin), (Avma(IMAGE + 0x120), Avma(IMAGE)));
}

#[test]
fn cold_parts_belong_to_the_method_that_was_split() {
    let mut ready = ready(&ALL);
    // Function 3 is the cold part of function 0.
    let table = ready.made.store(&[3_u32, 0].map(u32::to_le_bytes).concat());
    let info = ready.info;
    ready.made.put(info + 96, table);
    ready.made.put32(info + 104, 2);
    assert_eq!(found(&mut ready, &[0x4010]), [Some((ALL[0].1, 0x3000, None))]);
    // What the table says and is not there, or that is no function, is no harm.
    ready.made.put32(table + 4, 99);
    assert_eq!(found(&mut ready, &[0x4010]), [None]);
    ready.made.put(info + 96, 0x7777_0000);
    assert_eq!(found(&mut ready, &[0x4010]), [Some((ALL[1].1, 0x3100, None))]);
}

#[test]
fn what_was_never_called_belongs_to_nobody_until_it_is() {
    let mut ready = ready(&ALL[1..]);
    assert_eq!(found(&mut ready, &[0x3010]), [None]);
    let at = Avma(IMAGE + 0x3010);
    let changed = ready.made.memory.areas.clone();
    let runtime = ready.made.try_open().expect("it fits");
    assert!(runtime.find_method(at).expect("readable").is_none());
    runtime.forget();
    assert!(runtime.find_method(at).expect("read again").is_none());
    drop(runtime);
    ready.made.memory.areas = changed;
    let bucket = ready.buckets + 64;
    ready.made.put(bucket + 24, IMAGE + 0x3000);
    ready.made.put(bucket + 56, ALL[0].1 >> 1);
    assert_eq!(found(&mut ready, &[0x3010]), [Some((ALL[0].1, 0x3000, Some(0x3100)))]);
}

#[test]
fn where_part_of_the_map_is_missing_the_nearest_method_is_not_guessed() {
    let mut ready = ready(&ALL);
    let buckets = ready.buckets;
    // As many as reach behind the end of memory.
    ready.made.put(buckets, 20_000);
    let known = Some((ALL[1].1, 0x3100, Some(0x3200)));
    assert_eq!(found(&mut ready, &[0x3110, 0x3210]), [known, None]);
    ready.made.put(buckets, (4 << 20) + 1);
    let runtime = ready.made.try_open().expect("it fits");
    let many = runtime.find_method(Avma(IMAGE + 0x3110)).expect_err("too many");
    assert!(matches!(many, RuntimeError::TooMany { what: "methods of an image", .. }));
}

/// Counts are of rows of some bytes: a size that lies must not make gigabytes of them.
#[test]
fn sizes_of_rows_that_lie_are_bounded() {
    for (of, bytes) in
        [("Bucket", 1 << 24), ("Bucket", 0), ("RuntimeFunction", 1 << 24), ("RuntimeFunction", 0)]
    {
        let mut ready = ready(&ALL);
        let buckets = ready.buckets;
        ready.made.put(buckets, 20_000);
        ready.made.offset(of, "!", bytes);
        let runtime = ready.made.try_open().expect("it fits");
        // Whatever is found there: it ends.
        let _ = runtime.find_method(Avma(IMAGE + 0x3110));
    }
}

#[test]
fn tables_that_lie_are_refused() {
    let refused = |change: fn(&mut Ready)| {
        let mut ready = ready(&ALL);
        change(&mut ready);
        let runtime = ready.made.try_open().expect("it fits");
        runtime.find_method(Avma(IMAGE + 0x3110)).expect_err("it lies")
    };
    let many = refused(|ready| ready.made.put32(ready.info + 88, (4 << 20) + 1));
    assert!(matches!(many, RuntimeError::TooMany { what: "functions of an image", .. }));
    for change in [
        (|ready| ready.made.put32(ready.info + 88, 1 << 20)) as fn(&mut Ready),
        |ready| ready.made.put(ready.info + 80, 0x7777_0000),
        |ready| ready.made.put(ready.info + 40, 0x7777_0000),
        |ready| ready.made.put(ready.info + 128, 0x7777_0000),
    ] {
        assert!(matches!(refused(change), RuntimeError::Memory(_)));
    }
    let unsaid = refused(|ready| ready.made.without("ReadyToRunInfo", "EntryPointToMethodDescMap"));
    assert!(matches!(unsaid, RuntimeError::Layout(_)), "nor is it found by looking");
}

#[test]
fn functions_that_are_not_in_order_are_put_in_order() {
    let mut ready = ready(&ALL);
    let functions = ready.functions;
    let [first, second] = [FUNCTIONS[0], FUNCTIONS[1]].map(|words| words.map(u32::to_le_bytes).concat());
    ready.made.bytes(functions, &second);
    ready.made.bytes(functions + 12, &first);
    assert_eq!(found(&mut ready, &[0x3110]), [Some((ALL[1].1, 0x3100, Some(0x3200)))]);
}

/// An image whose headers lead to the table of handlers: function 2 is the handler of the first method.
fn with_handlers(ready: &mut Ready, flags: u32, kind: u32) {
    let metadata = Assembly::new("App").metadata();
    let behind = SECTION_RVA + 72 + metadata.len() as u32;
    let table = behind + 64;
    let clauses = table + 16;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut more = words(&[0x0052_5452, 0x0000_0009, flags, 1, kind, table, 16]);
    more.resize(64, 0);
    more.extend(words(&[0x3000, clauses, u32::MAX, clauses + 24]));
    more.extend(words(&[0, 0, 0, 0x200, 0x240, 0]));
    let image = pe(&metadata, Some(0), &more, true);
    assert!(image.len() < 0x3000);
    ready.made.memory.areas[1].1[..image.len()].copy_from_slice(&image);
}

#[test]
fn handlers_belong_to_the_method_whose_clauses_name_them() {
    let mut ready = ready(&ALL);
    with_handlers(&mut ready, 0, 104);
    assert_eq!(found(&mut ready, &[0x3210]), [Some((ALL[0].1, 0x3000, None))]);
    assert_eq!(found(&mut ready, &[0x4010]), [None], "neither method nor handler: it was never called");
    // Of a part of a composite image nothing is known, and the nearest before is taken; an image without handlers has none.
    with_handlers(&mut ready, 0x20, 104);
    assert_eq!(found(&mut ready, &[0x3210]), [Some((ALL[1].1, 0x3100, None))]);
    with_handlers(&mut ready, 0, 105);
    assert_eq!(found(&mut ready, &[0x3210]), [None]);
}

/// The layout of 9 does not say where the map is: it is found by what it must lead to.
#[test]
fn the_map_is_found_by_looking_where_no_layout_says_it() {
    let called: Vec<(u32, u64)> = (0..9).map(|number| (0x3000 + number * 0x10, 0x2000_0000)).collect();
    let mut ready = ready(&called);
    let (info, core) = (ready.info, ready.made.module);
    ready.made.put(core + 24, info);
    ready.made.put(info, core);
    let header = ready.made.words(&[0x0052_5452]);
    ready.made.put(info + 16, header);
    // Keys are near the table of functions.
    ready.made.put(info + 80, IMAGE + 0x100);
    let functions: Vec<u8> = FUNCTIONS.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
    ready.made.memory.areas[1].1[0x100..0x100 + functions.len()].copy_from_slice(&functions);
    ready.made.without("Module", "ReadyToRunInfo");
    ready.made.without("ReadyToRunInfo", "EntryPointToMethodDescMap");
    let found_by_looking = |made: &mut Made| {
        let runtime = made.try_open().expect("it fits");
        let layout = runtime.layout();
        let map = layout.find_field("ReadyToRunInfo", "EntryPointToMethodDescMap");
        (layout.find_field("Module", "ReadyToRunInfo"), map)
    };
    assert_eq!(found_by_looking(&mut ready.made), (Some(24), Some(112)));
    // One key that is elsewhere, or too few of them: that is no map.
    let first = ready.buckets + 64;
    ready.made.put(first, 0x1_0000);
    assert_eq!(found_by_looking(&mut ready.made), (Some(24), None));
    ready.made.put(first, IMAGE + 0x3000);
    let buckets = ready.buckets;
    ready.made.put(buckets, 2);
    assert_eq!(found_by_looking(&mut ready.made), (Some(24), None));
    ready.made.put32(header, 0);
    assert_eq!(found_by_looking(&mut ready.made), (None, None));
}
