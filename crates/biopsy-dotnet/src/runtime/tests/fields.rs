//! Fields of types, and where static ones are.

use biopsy_model::Avma;

use super::made::{Made, NUMBER, REFERENCE, RVA, STATIC, THREAD_STATIC};
use crate::runtime::{Field, FieldPlace, RuntimeError};

/// Name and place of each.
fn places(fields: &[Field]) -> Vec<(&str, FieldPlace)> {
    fields.iter().map(|field| (field.name.as_str(), field.place)).collect()
}

fn fields_of(made: &mut Made, table: u64) -> Result<Vec<Field>, RuntimeError> {
    made.open().fields(table.into()).map(|fields| fields.to_vec())
}

/// A class with an instance field and a static of each kind.
fn class(made: &mut Made, parent: u64) -> u64 {
    let table = made.class("App", "Thing", parent, &[]);
    made.fields(
        table,
        &[
            ("_own", NUMBER, 24, 0),
            ("Kept", REFERENCE, 8, STATIC),
            ("Plain", NUMBER, 16, STATIC),
            ("Mine", NUMBER, 32, STATIC | THREAD_STATIC),
            ("Table", 0x11, 0x2050, STATIC | RVA),
        ],
    );
    table
}

#[test]
fn fields_that_a_type_declares_are_told_and_inherited_ones_are_at_the_parent() {
    let mut made = Made::new();
    let object = made.object;
    let parent = made.class("App", "Base", object, &[("_first", REFERENCE, 0), ("_second", NUMBER, 8)]);
    let table = class(&mut made, parent);
    let auxiliary = made.read(table + 32);
    // Bit 0: the initialiser has not run yet.
    made.put(auxiliary - 24, 0x9001);
    made.put(auxiliary - 16, 0xa000);
    let own = fields_of(&mut made, table).expect("fields");
    assert_eq!(
        places(&own),
        [
            ("_own", FieldPlace::Instance(24)),
            ("Kept", FieldPlace::Static(Avma(0x9008))),
            ("Plain", FieldPlace::Static(Avma(0xa010))),
            ("Mine", FieldPlace::ThreadStatic(32)),
            ("Table", FieldPlace::Rva(0x2050)),
        ]
    );
    assert_eq!(
        own.iter().map(Field::is_kept_by_collector).collect::<Vec<_>>(),
        [false, true, false, false, true]
    );
    let inherited = fields_of(&mut made, parent).expect("fields");
    let wanted = [("_first", FieldPlace::Instance(0)), ("_second", FieldPlace::Instance(8))];
    assert_eq!(places(&inherited), wanted);
    let runtime = made.open();
    let find = |name: &str| runtime.find_field(table.into(), name).expect("readable").map(|one| one.place);
    assert_eq!(find("_own"), Some(FieldPlace::Instance(24)));
    assert_eq!(find("_second"), Some(FieldPlace::Instance(8)));
    assert_eq!((find("Kept"), find("_third")), (None, None), "no instance field");
}

#[test]
fn statics_that_are_not_allocated_have_no_place() {
    let mut made = Made::new();
    let object = made.object;
    let table = class(&mut made, object);
    let statics = |made: &mut Made| {
        let fields = fields_of(made, table).expect("fields");
        (fields[1].place, fields[2].place)
    };
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
    made.put(table + 32, 0);
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
    made.put(table + 32, 0x7777_0000);
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
    made.without("MethodTable", "AuxiliaryData");
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
}

#[test]
fn rows_of_fields_have_17_bits_or_all_24() {
    let mut made = Made::new();
    let object = made.object;
    let table = made.class("App", "Thing", object, &[("_a", NUMBER, 8), ("_b", NUMBER, 16)]);
    let class = made.read(table + 40);
    let list = made.read(class + 24);
    let row = made.read(list + 8) as u32 & 0xffff;
    // Other bits of the word are flags; with the full token they are not.
    made.put32(list + 8, row | 0x0002_0000);
    made.put32(list + 16 + 8, (row + 1) | 1 << 30);
    let fields = fields_of(&mut made, table).expect("fields");
    let found: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.row)).collect();
    assert_eq!(found, [("_a", row), ("_b", row + 1)]);
    made.put32(list + 16 + 8, (row + 1) | 0x0002_0000 | 1 << 30);
    assert!(fields_of(&mut made, table).is_err(), "there is no such row");
}

#[test]
fn arrays_and_descriptors_declare_none_and_instances_those_of_their_class() {
    let mut made = Made::new();
    let object = made.object;
    let list = made.class("App", "List`1", object, &[("_size", NUMBER, 16)]);
    let row = (made.read(list + 8) as u32) >> 8;
    let instance = made.method_table(row, 0, 24, object);
    made.put(instance + 40, list | 1);
    made.arguments(instance, &[object]);
    let array = made.array(list, None);
    let pointer = made.words(&[0x0f, object]) | 2;
    assert!(fields_of(&mut made, array).expect("none").is_empty());
    assert!(fields_of(&mut made, pointer).expect("none").is_empty());
    let fields = fields_of(&mut made, instance).expect("fields");
    assert_eq!(places(&fields), [("_size", FieldPlace::Instance(16))]);
}

#[test]
fn lists_that_lie_are_refused() {
    let mut made = Made::new();
    let object = made.object;
    let table = made.class("App", "Thing", object, &[("_a", NUMBER, 8)]);
    let class = made.read(table + 40);
    let list = made.read(class + 24);
    made.put(class + 24, 0x7777_0000);
    assert!(matches!(fields_of(&mut made, table), Err(RuntimeError::Memory(_))));
    made.put(class + 24, list);
    made.put32(list + 8, 0);
    assert!(matches!(fields_of(&mut made, table), Err(RuntimeError::Metadata(_))), "row 0 is none");
    made.without("EEClass", "FieldDescList");
    let refused = fields_of(&mut made, table).expect_err("it is not said where they are").to_string();
    assert_eq!(refused, "the layout of this runtime does not describe `EEClass.FieldDescList`");
    made.without("EEClass", "NumInstanceFields");
    let refused = fields_of(&mut made, table).expect_err("nor how many").to_string();
    assert_eq!(refused, "the layout of this runtime does not describe `EEClass.NumInstanceFields`");
}

#[test]
fn a_circle_of_parents_has_no_more_fields() {
    let mut made = Made::new();
    let object = made.object;
    let one = made.class("App", "A", object, &[("_a", NUMBER, 8)]);
    let other = made.class("App", "B", one, &[("_b", NUMBER, 16)]);
    made.put(one + 16, other);
    let runtime = made.open();
    assert!(runtime.find_field(other.into(), "_c").expect("it ends").is_none());
    assert!(runtime.find_field(other.into(), "_b").expect("readable").is_some());
}

/// Offsets as in 8: counts lie behind the class, statics in tables of the module.
fn as_in_8(made: &mut Made) {
    for (of, field, offset) in [
        ("EEClass", "FieldsArePacked", 60),
        ("EEClass", "FixedEEClassFields", 61),
        ("EEClassPackedFields", "NumInstanceFields", 0),
        ("EEClassPackedFields", "NumStaticFields", 4),
        ("Module", "ModuleID", 0x80),
        ("DomainLocalModule", "GCStatics", 32),
        ("DomainLocalModule", "DynamicClassTable", 8),
        ("DynamicClassInfo", "!", 16),
        ("MethodTable", "Flags2", 14),
        ("MethodTable", "!", 64),
    ] {
        made.offset(of, field, offset);
    }
    made.without("MethodTable", "AuxiliaryData");
    made.without("DynamicStaticsInfo", "GCStatics");
}

/// Writes the counts of a class behind it.
fn counts(made: &mut Made, table: u64, instance: u32, statics: u32) {
    let class = made.read(table + 40);
    made.bytes(class + 60, &[0, 64]);
    made.put32(class + 64, instance);
    made.put32(class + 68, statics);
}

#[test]
fn counts_of_8_lie_behind_the_class_and_its_statics_in_the_module() {
    let mut made = Made::new();
    let (object, module) = (made.object, made.module);
    as_in_8(&mut made);
    let table = class(&mut made, object);
    counts(&mut made, object, 0, 0);
    counts(&mut made, table, 1, 4);
    let local = made.alloc(0x100);
    made.put(module + 0x80, local);
    made.put(local + 32, 0x9000);
    let statics = |made: &mut Made| {
        let fields = fields_of(made, table).expect("fields");
        assert_eq!(fields.len(), 5);
        (fields[1].place, fields[2].place)
    };
    let at = |address| FieldPlace::Static(Avma(address));
    assert_eq!(statics(&mut made), (at(0x9008), at(local + 16)));
    // A type that may be unloaded has them elsewhere.
    made.put32(table, 2);
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
    // An instance of a generic type: its number is behind the optional parts of the method table, 9 virtual methods take
    // two of them, and 4 bits of flags one more for each above two.
    made.put32(table, 4);
    made.put16(table + 12, 9);
    made.put16(table + 14, 0b1110);
    let behind = table + 64 + 8 * 3;
    made.put32(behind + 8, 5);
    let classes = made.alloc(0x100);
    made.put(local + 8, classes);
    let values = made.words(&[0xb000]);
    made.put(classes + 5 * 16, values);
    assert_eq!(statics(&mut made), (at(0xb008), at(values + 16)));
    made.put32(behind + 8, u32::MAX);
    assert_eq!(statics(&mut made), (FieldPlace::Unknown, FieldPlace::Unknown));
}

#[test]
fn counts_of_8_that_cannot_be_are_refused() {
    let mut made = Made::new();
    let object = made.object;
    as_in_8(&mut made);
    let table = class(&mut made, object);
    counts(&mut made, object, 0, 0);
    for (instance, statics) in [(1 << 17, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        counts(&mut made, table, instance, statics);
        let refused = fields_of(&mut made, table).expect_err("too many").to_string();
        assert!(refused.contains("too many fields"), "{refused}");
    }
    let class = made.read(table + 40);
    made.bytes(class + 60, &[1]);
    let refused = fields_of(&mut made, table).expect_err("packed").to_string();
    assert!(refused.contains("packed"), "{refused}");
}
