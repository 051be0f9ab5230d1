//! What a runtime tells of the types of its heap: names of fields, statics, what is noted, and who unloads them.

use biopsy_model::heap::{SAME_TEXT, TypeFamily};

use super::*;
use crate::heap::shape::ReferencePlaces;
use crate::heap::source::Source as _;
use crate::runtime::TypeHandle;
use crate::runtime::tests::made::{Made, NUMBER, REFERENCE, STATIC};

fn handle(table: u64) -> TypeHandle {
    TypeHandle::from(table)
}

/// Names of the fields at these places of a type.
fn names(made: &mut Made, table: u64, offsets: &[u64], repeats: bool) -> Vec<String> {
    let runtime = made.open_unchecked();
    let places = ReferencePlaces { offsets: offsets.to_vec(), repeats };
    let described = runtime.describe_fields(runtime.describe(handle(table)), &places);
    assert_eq!(described.repeats, repeats);
    described.fields
}

#[test]
fn places_have_the_names_of_the_fields_that_lie_there_inherited_ones_too() {
    let mut made = Made::new();
    let object = made.object;
    let base = made.class("App", "Base", object, &[("_first", REFERENCE, 0), ("_count", NUMBER, 8)]);
    let fields = [("<Name>k__BackingField", REFERENCE, 16), ("_pair", 0x11, 24), ("<odd", REFERENCE, 48)];
    let derived = made.class("App", "Derived", base, &fields);
    // From the address of the object on, whose first word is its type; a struct takes several places.
    assert_eq!(
        names(&mut made, derived, &[8, 24, 32, 40, 56], false),
        ["_first", "Name", "_pair", "_pair", "<odd"]
    );
    assert_eq!(names(&mut made, base, &[8], false), ["_first"]);
    // A place before all fields is nobody's, and then none is believed.
    assert!(names(&mut made, base, &[0, 8], false).is_empty());
    assert!(names(&mut made, object, &[8], false).is_empty(), "it has no fields");
    assert!(names(&mut made, 0x7777_0000, &[8], false).is_empty());
}

#[test]
fn places_of_elements_have_the_names_of_the_fields_of_the_element() {
    let mut made = Made::new();
    let entry = made.value("App", "Entry", &[("key", REFERENCE, 0), ("value", REFERENCE, 8)]);
    let vector = made.array(entry, None);
    let square = made.array(entry, Some(2));
    let object = made.object;
    let class = made.class("App", "Plain", object, &[("_only", REFERENCE, 0)]);
    for table in [vector, square] {
        assert_eq!(names(&mut made, table, &[0, 8], true), ["key", "value"]);
    }
    assert!(names(&mut made, class, &[8], true).is_empty(), "no array, and places that repeat");
}

#[test]
fn statics_are_those_that_the_collector_looks_after() {
    let mut made = Made::new();
    let object = made.object;
    let row = made.core.of_type("App", "Cache");
    let table = made.method_table(row, 0, 24, object);
    let fields = [
        ("<All>k__BackingField", REFERENCE, 0, STATIC),
        ("_count", NUMBER, 8, STATIC),
        ("_own", REFERENCE, 0, 0),
        ("Last", REFERENCE, 16, STATIC),
    ];
    made.fields(table, &fields);
    // `DynamicStaticsInfo` in front of what belongs to the method table.
    let auxiliary = made.read(table + 32);
    made.put(auxiliary - 24, 0x5000);
    made.put(auxiliary - 16, 0x6000);
    let runtime = made.open_unchecked();
    let told = runtime.statics_of(handle(table)).expect("it has statics");
    assert_eq!(told.name, "App.Cache");
    let statics: Vec<_> = told.statics.iter().map(|(name, at)| (name.as_str(), at.0)).collect();
    assert_eq!(statics, [("All", 0x5000), ("Last", 0x5010)]);
    assert!(runtime.statics_of(handle(object)).is_none());
}

#[test]
fn gaps_and_types_that_cannot_be_read_are_described_as_such() {
    let mut made = Made::new();
    let (free, string) = (made.free, made.string);
    let runtime = made.open_unchecked();
    let gap = runtime.describe(handle(free));
    assert_eq!((gap.name.as_str(), gap.is_free, gap.method_table), ("Free", true, Avma(free)));
    let text = runtime.describe(handle(string));
    assert_eq!((text.name.as_str(), text.is_free), ("System.String", false));
    let lost = runtime.describe(handle(0x7777_0000));
    assert_eq!((lost.name.as_str(), lost.is_nameless()), ("?0x77770000", true));
}

#[test]
fn numbers_are_noted_of_the_collections_of_the_runtime_and_of_what_is_derived_from_them() {
    let mut made = Made::new();
    let object = made.object;
    let list = made.class(
        "System.Collections",
        "ArrayList",
        object,
        &[("_items", REFERENCE, 0), ("_size", NUMBER, 8)],
    );
    let own = made.class("App", "Basket", list, &[("_total", NUMBER, 16)]);
    let timer = made.class(
        "System.Threading",
        "TimerQueueTimer",
        object,
        &[("_period", NUMBER, 4), ("_dueTime", NUMBER, 0)],
    );
    let task = made.class("System.Threading.Tasks", "Task", object, &[("m_stateFlags", NUMBER, 16)]);
    let later = made.class("App", "Later", task, &[]);
    let delegate = made.class("System", "MulticastDelegate", object, &[]);
    let handler = made.class("App", "Handler", delegate, &[]);
    let base = made.class("System", "ValueType", object, &[]);
    let number = made.class("System", "Number", base, &[]);
    let namesake = made.class("System.Collections", "ArrayListOther", object, &[("_size", NUMBER, 8)]);
    // Nothing is noted of a type whose fields have other names than they had.
    let renamed =
        made.class("System.Runtime.Loader", "AssemblyLoadContext", object, &[("_status", NUMBER, 8)]);
    let (string, array) = (made.string, made.array(object, None));
    let runtime = made.open_unchecked();
    let none = TypeFamily::default();
    let size = |offset| vec![("_size", offset)];
    for (table, noted, family) in [
        (list, size(16), none.clone()),
        (own, size(16), none.clone()),
        (timer, vec![("_dueTime", 8), ("_period", 12)], none.clone()),
        (task, vec![("m_stateFlags", 24)], TypeFamily::Task),
        (later, vec![("m_stateFlags", 24)], TypeFamily::Task),
        (handler, vec![], TypeFamily::Delegate),
        (number, vec![], TypeFamily::Value),
        (namesake, vec![], none.clone()),
        (renamed, vec![], none.clone()),
        (object, vec![], none.clone()),
        (array, vec![], none.clone()),
        (0x7777_0000, vec![], none.clone()),
    ] {
        let found = runtime.noted(handle(table));
        let fields: Vec<_> =
            found.names.iter().map(String::as_str).zip(found.offsets.iter().copied()).collect();
        let name = runtime.describe(handle(table)).name;
        assert_eq!((fields, found.family, found.is_text), (noted, family, false), "{name}");
        assert_eq!(found.names.len(), found.offsets.len(), "{name}");
    }
    let text = runtime.noted(handle(string));
    assert_eq!((text.names, text.offsets, text.is_text), (vec![SAME_TEXT.to_owned()], vec![], true));
}

#[test]
fn objects_of_a_type_that_can_be_unloaded_keep_its_loader() {
    let mut made = Made::new();
    made.offset("Module", "LoaderAllocator", 0x40);
    made.offset("MethodTableAuxiliaryData", "LoaderModule", 8);
    let (object, string) = (made.object, made.string);
    let allocator = made.class("System.Reflection", "LoaderAllocator", object, &[]);
    let managed = made.instance(allocator, 16);
    let other = made.instance(string, 16);
    let (other, managed_handle) = (made.handle(other), made.handle(managed));
    // What lies around the handle: nothing, an odd number, a handle of something else, and one that leads nowhere.
    let native = made.words(&[0, 0x1234_5671, other, 0x7777_0000, managed_handle, 0]);
    let (loader, plain) = (made.alloc(0x100), made.alloc(0x100));
    made.put(loader + 0x40, native);
    let row = made.core.of_type("Plugin", "Thing");
    let thing = made.method_table(row, 0, 24, object);
    let auxiliary = made.read(thing + 32);
    let ask = |made: &mut Made| made.open_unchecked().loader_allocator(handle(thing));
    assert_eq!(ask(&mut made), None, "neither module has one");
    made.put(auxiliary + 8, loader);
    assert_eq!(ask(&mut made), Some(Avma(managed)));
    // Of the module that loaded it, before that of its definition.
    made.put(auxiliary + 8, plain);
    let module = made.module;
    made.put(module + 0x40, native);
    assert_eq!(ask(&mut made), Some(Avma(managed)));
    made.without("Module", "LoaderAllocator");
    assert_eq!(ask(&mut made), None);
}
