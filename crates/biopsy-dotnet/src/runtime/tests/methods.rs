//! Names of methods, and how well their code is optimised.

use biopsy_model::Avma;

use super::made::Made;
use crate::runtime::{CodeKind, Method, MethodDesc, MethodName, RuntimeError, Tier};

/// `MethodClassification` of `method.hpp`.
const ORDINARY: u16 = 0;
const ARRAY: u16 = 4;
const INSTANTIATED: u16 = 5;
const DYNAMIC: u16 = 7;

/// A `MethodDesc` at this index of its chunk.
pub(super) fn method_desc(made: &mut Made, table: u64, row: u32, kind: u16, index: u8) -> u64 {
    let chunk = made.alloc(24 + 16 * 256);
    made.put(chunk, table);
    made.put16(chunk + 20, (row >> 12) as u16);
    let at = chunk + 24 + 8 * u64::from(index);
    made.put16(at, (row & 0xfff) as u16);
    made.bytes(at + 2, &[index]);
    made.put16(at + 6, kind);
    at
}

fn name_of(made: &mut Made, at: u64) -> Result<MethodName, RuntimeError> {
    made.open().method_name(at.into()).map(|name| (*name).clone())
}

/// Type, method and parameters.
fn shown(made: &mut Made, at: u64) -> (String, String, Option<String>) {
    let name = name_of(made, at).expect("a name");
    (name.type_name.to_string(), name.method.to_string(), name.signature.map(|text| text.to_string()))
}

#[test]
fn a_method_has_the_name_of_its_row_wherever_it_is_in_its_chunk() {
    let mut made = Made::new();
    let (object, module) = (made.object, made.module);
    let feed = made.class("App", "Feed", object, &[]);
    let get = made.core.method("Get", &[0x20, 2, 0x0e, 0x08, 0x1d, 0x0e]);
    let stop = made.core.method("Stop", &[0x20, 0, 0x01]);
    let broken = made.core.method("Broken", &[0x20, 2, 0x01, 0x08]);
    for index in [0, 3, 255] {
        let at = method_desc(&mut made, feed, get, ORDINARY, index);
        let name = name_of(&mut made, at).expect("a name");
        assert_eq!((&*name.type_name, &*name.method), ("App.Feed", "Get"), "{index}");
        assert_eq!(name.signature.as_deref(), Some("(System.Int32, System.String[])"));
        assert_eq!((name.method_table, name.module), (Some(feed.into()), Avma(module)));
        assert_eq!((name.token, &*name.module_name), (0x0600_0000 | get, "System.Private.CoreLib"));
        assert!(!name.dynamic);
    }
    let at = method_desc(&mut made, feed, stop, ORDINARY, 1);
    assert_eq!(shown(&mut made, at), ("App.Feed".to_owned(), "Stop".to_owned(), Some("()".to_owned())));
    let at = method_desc(&mut made, feed, broken, ORDINARY, 1);
    assert_eq!(shown(&mut made, at), ("App.Feed".to_owned(), "Broken".to_owned(), None));
}

#[test]
fn rows_above_4095_have_their_upper_bits_in_the_chunk() {
    let mut made = Made::new();
    let object = made.object;
    let feed = made.class("App", "Feed", object, &[]);
    let mut row = 0;
    while row < 4098 {
        row = made.core.method("M", &[0, 0, 1]);
    }
    let last = made.core.method("Last", &[0, 0, 1]);
    let at = method_desc(&mut made, feed, last, ORDINARY, 0);
    // The upper bits of the chunk's word are flags.
    let chunk = at - 24;
    let range = (made.read(chunk + 20) & 0xffff) as u16;
    made.put16(chunk + 20, range | 0xf000);
    made.put16(at, (last & 0xfff) as u16 | 0xf000);
    assert_eq!(shown(&mut made, at).1, "Last");
}

#[test]
fn methods_without_metadata_have_the_name_they_were_given() {
    let mut made = Made::new();
    let object = made.object;
    let text = made.store(b"IL_STUB_PInvoke\0behind");
    let at = method_desc(&mut made, object, 77, DYNAMIC, 0);
    made.put(at + 32, text);
    let name = name_of(&mut made, at).expect("a name");
    assert!(name.dynamic && name.type_name.is_empty() && name.signature.is_none());
    assert_eq!((&*name.method, name.token, name.method_table), ("IL_STUB_PInvoke", 0, None));
    // It was used again for another one: names of dynamic methods are not kept.
    made.put(at + 32, 0);
    assert_eq!(shown(&mut made, at).1, "");
    made.put(at + 32, 0x7777_0000);
    assert!(matches!(name_of(&mut made, at), Err(RuntimeError::Memory(_))));
    made.put(at + 32, text);
    made.bytes(text, &[0xff, b'x', 0]);
    assert_eq!(shown(&mut made, at).1, "\u{fffd}x");
}

#[test]
fn methods_of_arrays_are_named_by_their_slots() {
    let mut made = Made::new();
    let object = made.object;
    let array = made.array(object, Some(2));
    made.put16(array + 12, 20);
    for (slot, name) in [(20, "Get"), (21, "Set"), (22, "Address"), (23, ".ctor"), (24, ".ctor"), (3, "Get")]
    {
        let at = method_desc(&mut made, array, 0, ARRAY, 0);
        made.put16(at + 4, slot);
        let found = name_of(&mut made, at).expect("a name");
        assert_eq!((&*found.type_name, &*found.method, found.token), ("System.Object[,]", name, 0), "{slot}");
    }
}

#[test]
fn instances_of_generic_methods_have_their_arguments_and_definitions_their_variables() {
    let mut made = Made::new();
    let (object, string) = (made.object, made.string);
    let feed = made.class("App", "Feed", object, &[]);
    let map = made.core.method("Map", &[0x30, 2, 1, 0x01, 0x1e, 1]);
    made.core.parameter(map, true, 1, "TTo");
    made.core.parameter(map, true, 0, "TFrom");
    let at = method_desc(&mut made, feed, map, INSTANTIATED, 0);
    let dictionary = made.words(&[string, 0x7777_0000]);
    made.put(at + 24, dictionary);
    made.put16(at + 32, 1);
    made.put16(at + 34, 2);
    let parameters = Some("(TTo)".to_owned());
    let named = |method: &str| ("App.Feed".to_owned(), method.to_owned(), parameters.clone());
    assert_eq!(shown(&mut made, at), named("Map<System.String, ?>"));
    // The definition; no dictionary; more arguments than any method has.
    made.put16(at + 32, 8);
    assert_eq!(shown(&mut made, at), named("Map<TFrom, TTo>"));
    made.put16(at + 32, 1);
    made.put(at + 24, 0);
    assert_eq!(shown(&mut made, at), named("Map<TFrom, TTo>"));
    made.put(at + 24, dictionary);
    made.put16(at + 34, 1025);
    assert_eq!(shown(&mut made, at), named("Map<TFrom, TTo>"));
    made.put16(at + 34, 2);
    made.put(at + 24, 0x7777_0000);
    assert!(matches!(name_of(&mut made, at), Err(RuntimeError::Memory(_))));
}

#[test]
fn what_is_no_method_is_refused() {
    let mut made = Made::new();
    let object = made.object;
    let row = made.core.method("M", &[0, 0, 1]);
    let good = method_desc(&mut made, object, row, ORDINARY, 0);
    let no_row = method_desc(&mut made, object, row + 1, ORDINARY, 0);
    let no_type = method_desc(&mut made, object + 64, row, ORDINARY, 0);
    let runtime = made.open();
    assert!(runtime.method_name(good.into()).is_ok());
    for at in [good + 4, 0x800, 0, 7] {
        let refused = runtime.method_name(MethodDesc::from(at));
        assert!(matches!(refused, Err(RuntimeError::Unexpected { what: "a method", .. })), "{at:#x}");
    }
    assert!(matches!(runtime.method_name(no_row.into()), Err(RuntimeError::Metadata(_))));
    assert!(matches!(runtime.method_name(no_type.into()), Err(RuntimeError::Memory(_))));
    assert!(matches!(runtime.method_name(0x7777_0000.into()), Err(RuntimeError::Memory(_))));
}

fn code(start: u64, method: u64) -> Method {
    Method {
        method_desc: Some(method.into()),
        code_start: Avma(start),
        code_end: None,
        kind: CodeKind::Jit,
        tier: None,
        range_begin: Avma(0),
        unwind: None,
        code_header: None,
    }
}

/// Versions of a method: code and tier, in a list.
fn versions(made: &mut Made, all: &[(u64, u32)]) -> u64 {
    let mut next = 0;
    for (start, tier) in all.iter().rev() {
        let node = made.alloc(64);
        made.put(node, *start);
        made.put(node + 24, next);
        made.put32(node + 36, *tier);
        next = node;
    }
    next
}

#[test]
fn the_tier_of_code_is_that_of_its_version() {
    let mut made = Made::new();
    let object = made.object;
    let at = method_desc(&mut made, object, 1, ORDINARY, 0);
    let all: Vec<(u64, u32)> = (0..7).map(|number| (0x9000 + u64::from(number) * 0x100, number)).collect();
    let first = versions(&mut made, &all);
    let state = made.words(&[0, 0, first]);
    let data = made.words(&[state]);
    made.put(at + 8, data);
    let runtime = made.open();
    let tiers = [
        Some(Tier::Tier0),
        Some(Tier::Tier1),
        Some(Tier::OnStackReplacement),
        Some(Tier::Optimized),
        Some(Tier::Tier0Instrumented),
        Some(Tier::Tier1Instrumented),
        None,
    ];
    for ((start, _), tier) in all.iter().zip(tiers) {
        assert_eq!(runtime.tier(&code(*start, at)).expect("readable"), tier, "{start:#x}");
    }
    assert_eq!(runtime.tier(&code(0x8000, at)).expect("readable"), None, "no version has this code");
    let ahead = Method { tier: Some(Tier::ReadyToRun), ..code(0x8000, at) };
    assert_eq!(runtime.tier(&ahead).expect("told"), Some(Tier::ReadyToRun));
    assert_eq!(runtime.tier(&Method { method_desc: None, ..code(0x9000, at) }).expect("a stub"), None);
}

#[test]
fn versions_that_run_in_a_circle_or_nowhere_say_nothing() {
    let mut made = Made::new();
    let object = made.object;
    let at = method_desc(&mut made, object, 1, ORDINARY, 0);
    let tier = |made: &mut Made| made.open().tier(&code(0x9000, at));
    assert_eq!(tier(&mut made).expect("none yet"), None);
    made.put(at + 8, 0x7777_0000);
    assert!(matches!(tier(&mut made), Err(RuntimeError::Memory(_))));
    let first = versions(&mut made, &[(0x8000, 1)]);
    made.put(first + 24, first);
    let state = made.words(&[0, 0, first]);
    let data = made.words(&[state]);
    made.put(at + 8, data);
    assert_eq!(tier(&mut made).expect("it ends"), None);
}

/// 8 has one table of all methods with versions.
#[test]
fn the_table_of_8_has_the_versions_of_all_methods() {
    let mut made = Made::new();
    let (object, domain) = (made.object, made.domain);
    let at = method_desc(&mut made, object, 1, ORDINARY, 0);
    made.without("MethodDesc", "CodeData");
    made.offset("AppDomain", "MethodDescVersioningStateTable", 0x80);
    made.offset("AppDomain", "MethodDescVersioningStateTableSize", 0x88);
    made.offset("MethodDescVersioningState", "FirstVersionNode", 8);
    let one = versions(&mut made, &[(0x9000, 1), (0x9100, 9)]);
    let other = versions(&mut made, &[(0xa000, 3)]);
    let states = [made.words(&[0, one]), made.words(&[0, other]), made.words(&[0, 0])];
    // Empty, deleted, and what is no address are skipped.
    let table = made.words(&[0, states[0], u64::MAX, 0xfff0, states[1], states[2]]);
    made.put(domain + 0x80, table);
    made.put32(domain + 0x88, 6);
    let tiers = |made: &mut Made| {
        let runtime = made.open();
        [0x9000, 0x9100, 0xa000].map(|start| runtime.tier(&code(start, at)).expect("read or left out"))
    };
    assert_eq!(tiers(&mut made), [Some(Tier::Tier1), None, Some(Tier::Optimized)]);
    made.put32(domain + 0x88, 2);
    assert_eq!(tiers(&mut made), [Some(Tier::Tier1), None, None]);
    // A size that lies ends with the memory: then nothing is known.
    made.put32(domain + 0x88, u32::MAX);
    made.put(domain + 0x80, 0x7777_0000);
    assert_eq!(tiers(&mut made), [None, None, None]);
}
