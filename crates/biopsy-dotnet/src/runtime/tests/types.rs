//! Types by their method tables.

use biopsy_model::Avma;

use super::made::{DEFINITION, GENERIC, Made};
use crate::runtime::{ElementType, RuntimeError, TypeHandle, TypeShape};

fn name_of(made: &mut Made, table: u64) -> String {
    made.open().type_of(table.into()).expect("a type").name.to_string()
}

#[test]
fn names_are_those_of_the_metadata_with_the_arguments_where_they_belong() {
    let mut made = Made::new();
    let (object, string) = (made.object, made.string);
    let map = made.class("App", "Map`2", object, &[]);
    made.arguments(map, &[string, object]);
    let outer_row = made.core.of_type("App", "Outer`1");
    let inner_row = made.core.of_type("", "Inner`1");
    made.core.nested(inner_row, outer_row);
    let inner = made.method_table(inner_row, 0, 24, object);
    made.arguments(inner, &[map, string]);
    let plain = made.class("", "Program", object, &[]);
    let vector = made.array(map, None);
    let jagged = made.array(vector, Some(2));
    let descriptor = |made: &mut Made, kind: u64, of: u64| made.words(&[kind, of]) | 2;
    let pointer = descriptor(&mut made, 0x0f, plain);
    let twice = descriptor(&mut made, 0x0f, pointer);
    let reference = descriptor(&mut made, 0x10, string);
    let function = descriptor(&mut made, 0x1b, 0);
    let variable = descriptor(&mut made, 0x1e, 0);
    let one = made.array(plain, Some(1));
    let none = made.array(plain, Some(0));
    let many = made.array(plain, Some(200));
    for (table, name) in [
        (object, "System.Object".to_owned()),
        (made.free, "Free".to_owned()),
        (map, "App.Map<System.String, System.Object>".to_owned()),
        (inner, "App.Outer<App.Map<System.String, System.Object>>+Inner<System.String>".to_owned()),
        (plain, "Program".to_owned()),
        (vector, "App.Map<System.String, System.Object>[]".to_owned()),
        (jagged, "App.Map<System.String, System.Object>[][,]".to_owned()),
        (pointer, "Program*".to_owned()),
        (twice, "Program**".to_owned()),
        (reference, "System.String&".to_owned()),
        (function, "delegate*".to_owned()),
        (variable, "T".to_owned()),
        (one, "Program[*]".to_owned()),
        (none, "Program[*]".to_owned()),
        (many, format!("Program[{}]", ",".repeat(31))),
    ] {
        assert_eq!(name_of(&mut made, table), name, "{table:#x}");
    }
}

#[test]
fn a_definition_has_the_names_of_its_variables_and_numbers_where_there_are_none() {
    let mut made = Made::new();
    let (object, string) = (made.object, made.string);
    let row = made.core.of_type("App", "Map`3");
    made.core.parameter(row, false, 1, "TValue");
    made.core.parameter(row, false, 0, "TKey");
    // The same row in the table of methods is somebody else.
    made.core.parameter(row, true, 0, "TOther");
    let map = made.method_table(row, 0, 24, object);
    made.arguments(map, &[string, string, string]);
    made.put32(map, DEFINITION);
    assert_eq!(name_of(&mut made, map), "App.Map<TKey, TValue, T3>");
}

#[test]
fn what_a_method_table_says_is_told() {
    let mut made = Made::new();
    let object = made.object;
    let table = made.class("App", "Thing", object, &[]);
    let class = made.read(table + 40);
    made.bytes(class + 40, &[0x12]);
    made.put(table, 40 << 32 | 0x0130_0000);
    let value = made.value("App", "Pair", &[]);
    let vector = made.array(value, None);
    let square = made.array(value, Some(2));
    let (string, module) = (made.string, made.module);
    let runtime = made.open();
    let of = |table: u64| runtime.type_of(table.into()).expect("a type");
    let thing = of(table);
    assert_eq!((thing.base_size, thing.component_size, thing.flags), (40, 0, 0x0130_0000));
    assert!(thing.contains_pointers && thing.has_finalizer && thing.collectible);
    assert_eq!((thing.parent, thing.module), (Some(object.into()), Avma(module)));
    assert_eq!((thing.element_type, thing.shape), (ElementType(0x12), TypeShape::Class));
    assert_eq!((thing.canonical, thing.type_row), (table.into(), of(object).type_row + 3));
    assert_eq!(of(value).shape, TypeShape::Value);
    assert_eq!(of(vector).shape, TypeShape::Vector { element: value.into() });
    assert_eq!((of(vector).component_size, of(vector).type_row), (8, 0));
    assert_eq!(of(square).shape, TypeShape::Array { element: value.into(), rank: 2 });
    assert_eq!((of(string).shape, of(string).component_size), (TypeShape::String, 2));
    assert!(of(object).parent.is_none());
}

#[test]
fn instances_share_the_class_of_their_canonical_type() {
    let mut made = Made::new();
    let object = made.object;
    let row = made.core.of_type("App", "List`1");
    let canonical = made.method_table(row, 0, 24, object);
    let instance = made.method_table(row, 0, 24, object);
    made.put(instance + 40, canonical | 1);
    made.arguments(instance, &[object]);
    let other = made.method_table(row, 0, 24, object);
    let victim = made.class("App", "Victim", object, &[]);
    made.put(other + 40, victim | 1);
    let class = made.read(victim + 40);
    made.put(class + 16, other);
    let runtime = made.open_unchecked();
    let found = runtime.type_of(instance.into()).expect("a type");
    assert_eq!((found.canonical, &*found.name), (canonical.into(), "App.List<System.Object>"));
    let refused = runtime.type_of(other.into());
    assert!(matches!(refused, Err(RuntimeError::Unexpected { what: "a method table", .. })), "{refused:?}");
}

#[test]
fn what_is_no_method_table_is_refused() {
    let mut made = Made::new();
    let object = made.object;
    let small = made.class("App", "Small", object, &[]);
    made.put32(small + 4, 7);
    let interface = made.class("App", "IThing", object, &[]);
    made.put(interface, 0x000c_0000);
    let stray = made.method_table(1, 0, 24, object);
    made.put(stray + 40, 0x10);
    let unknown = made.words(&[0x55, 0]) | 2;
    let runtime = made.open();
    assert!(runtime.type_of(interface.into()).is_ok(), "interfaces have no objects, and no size");
    for (handle, what) in [
        (object + 4, "not an address of a method table"),
        (0x800, "not an address of a method table"),
        (small, "class"),
        (unknown, "descriptor of kind 0x55"),
    ] {
        match runtime.type_of(handle.into()) {
            Err(RuntimeError::Unexpected { what: "a method table", found, .. }) => {
                assert!(found.contains(what), "{handle:#x}: {found}");
            }
            other => panic!("{handle:#x}: {other:?}"),
        }
    }
    for handle in [stray, object + 64, 0x7777_0000, 0x7777_0002] {
        assert!(matches!(runtime.type_of(handle.into()), Err(RuntimeError::Memory(_))), "{handle:#x}");
    }
}

#[test]
fn arguments_that_cannot_be_read_are_questions_and_the_type_is_known_still() {
    let mut made = Made::new();
    let object = made.object;
    let of_bad_one = made.class("App", "Map`2", object, &[]);
    made.arguments(of_bad_one, &[object + 4, object]);
    let nowhere = made.class("App", "Box`1", object, &[]);
    made.put(nowhere, 24 << 32 | u64::from(GENERIC));
    made.put(nowhere + 48, 0x7777_0000);
    let too_many = made.class("App", "Box`1", object, &[]);
    made.arguments(too_many, &[object]);
    let counts = made.read(too_many + 48) - 8;
    made.put16(counts + 6, 1025);
    let none = made.class("App", "Box`1", object, &[]);
    made.arguments(none, &[object]);
    let counts = made.read(none + 48) - 8;
    made.put16(counts + 4, 0);
    let bad = format!("App.Map<?{}, System.Object>", Avma(object + 4));
    for (table, name) in
        [(of_bad_one, &*bad), (nowhere, "App.Box<?>"), (too_many, "App.Box<?>"), (none, "App.Box<?>")]
    {
        assert_eq!(name_of(&mut made, table), name);
        let arguments = made.open().type_of(table.into()).expect("a type").arguments.len();
        assert_eq!(arguments, if table == of_bad_one { 2 } else { 0 });
    }
}

#[test]
fn a_type_whose_name_is_nowhere_is_shown_by_its_address() {
    let mut made = Made::new();
    let object = made.object;
    let beyond = made.method_table(9999, 0, 24, object);
    let elsewhere = made.class("App", "Lost", object, &[]);
    made.put(elsewhere + 24, 0x7777_0000);
    for table in [beyond, elsewhere] {
        assert_eq!(name_of(&mut made, table), format!("?{}", Avma(table)));
    }
}

#[test]
fn types_that_are_made_of_each_other_have_a_name_all_the_same() {
    let mut made = Made::new();
    let object = made.object;
    let own = made.array(object, None);
    made.put(own + 48, own);
    let (one, other) = (made.class("App", "A`1", object, &[]), made.class("App", "B`1", object, &[]));
    made.arguments(one, &[other]);
    made.arguments(other, &[one]);
    assert_eq!(name_of(&mut made, own), "...[]");
    assert_eq!(name_of(&mut made, one), "App.A<App.B<...>>");
}

/// Each type is an array of the one before. Asked one after the other they are all known, whatever the depth.
#[test]
fn names_of_endless_types_are_cut() {
    let mut made = Made::new();
    let mut tables = vec![made.object];
    for _ in 0..1500 {
        let before = *tables.last().expect("one");
        tables.push(made.array(before, Some(32)));
    }
    let last = *tables.last().expect("many");
    let runtime = made.open();
    let at_once = runtime.type_of(last.into()).expect("a type");
    assert!(at_once.name.starts_with("...["), "{}", &at_once.name[..20]);
    let lengths: Vec<usize> =
        tables.iter().map(|table| runtime.type_of((*table).into()).expect("a type").name.len()).collect();
    assert!(lengths.iter().all(|length| *length <= (16 << 10) + 64), "{:?}", lengths.iter().max());
}

#[test]
fn base_types_are_followed_to_the_end_and_not_in_a_circle() {
    let mut made = Made::new();
    let exception = made.exception;
    let first = made.class("App", "Error", exception, &[]);
    let second = made.class("App", "WorseError", first, &[]);
    let (one, other) = (made.class("App", "A", 0, &[]), made.class("App", "B", 0, &[]));
    made.put(one + 16, other);
    made.put(other + 16, one);
    let string = made.string;
    let runtime = made.open();
    let is_a = |table: u64, base: u64| runtime.is_a(table.into(), TypeHandle::from(base));
    assert!(is_a(second, exception).expect("readable") && is_a(second, second).expect("readable"));
    assert!(!is_a(exception, second).expect("readable") && !is_a(string, exception).expect("readable"));
    assert!(matches!(is_a(one, exception), Err(RuntimeError::TooMany { what: "base types", .. })));
    assert!(is_a(0x7777_0000, exception).is_err());
}

#[test]
fn texts_are_cut_where_asked_and_only_strings_are_texts() {
    let mut made = Made::new();
    let text = made.text("grün und gut");
    let empty = made.text("");
    let broken = made.text("ab");
    made.put16(broken + 12, 0xd800);
    let long = made.text("x");
    made.put32(long + 8, u32::MAX);
    let object = made.object;
    let other = made.instance(object, 16);
    // The collector marks what it has seen in the lowest bits.
    let marked = made.text("seen");
    let word = made.read(marked);
    made.put(marked, word | 1);
    let runtime = made.open();
    let read = |at: u64, chars: usize| runtime.string(Avma(at), chars).map_err(|error| error.to_string());
    assert_eq!(read(text, 100), Ok(("grün und gut".to_owned(), 12)));
    assert_eq!(read(text, 4), Ok(("grün".to_owned(), 12)));
    assert_eq!(read(text, 0), Ok((String::new(), 12)));
    assert_eq!(read(empty, 9), Ok((String::new(), 0)));
    assert_eq!(read(broken, 9), Ok(("\u{fffd}b".to_owned(), 2)));
    assert_eq!(read(marked, 9), Ok(("seen".to_owned(), 4)));
    assert_eq!(read(long, 1), Ok(("x".to_owned(), u32::MAX)));
    assert!(read(long, 1 << 20).is_err(), "behind the end of memory");
    let refused = read(other, 9).expect_err("no string");
    assert!(refused.starts_with("a string at") && refused.contains("method table"), "{refused}");
}

#[test]
fn types_that_are_loaded_are_those_of_the_table_that_are_types_of_the_assembly() {
    let mut made = Made::new();
    let (object, module) = (made.object, made.module);
    let thing = made.class("App", "Thing", object, &[]);
    let strange = made.class("App", "Strange", object, &[]);
    made.put(strange + 24, 0x7777_0000);
    let second = made.words(&[thing | 2, strange, 0x10, 0x7777_0000]);
    let more = made.words(&[0, second, 4]);
    let first = made.words(&[0, object, 0]);
    // {next, table, count} is in the module itself.
    made.put(module + 32, more);
    made.put(module + 40, first);
    made.put(module + 48, 3);
    let of = |made: &mut Made| -> Vec<u64> {
        let runtime = made.open();
        let module = runtime.module(Avma(module)).expect("a module");
        runtime.loaded_types(&module).iter().map(|of| of.0.0).collect()
    };
    assert_eq!(of(&mut made), [object, thing]);
    // In a circle: it ends.
    made.put(more, module + 32);
    assert_eq!(of(&mut made).len(), 2 * 128);
    made.put(more, 0x7777_0000);
    assert_eq!(of(&mut made), [object, thing]);
    // Longer than any, or not there: what was found before counts.
    made.put(more + 16, 1 << 21);
    assert_eq!(of(&mut made), [object]);
    made.put(more + 16, 4);
    made.put(module + 40, 0x7777_0000);
    assert_eq!(of(&mut made), [thing]);
    made.without("Module", "TypeDefToMethodTableMap");
    assert!(of(&mut made).is_empty());
}
