//! A small assembly made by hand, whole and damaged.

use std::sync::Arc;

use proptest::prelude::*;

use super::fuzz::fuzz_metadata;
use super::{Metadata, MetadataError, RowOf, Table, method_parameters, type_text};

/// Names and where they are in `#Strings`.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, name: &str) -> [u8; 2] {
        let at = u16::try_from(self.0.len()).expect("few names");
        self.0.extend(name.as_bytes());
        self.0.push(0);
        at.to_le_bytes()
    }
}

/// `Shop.Cart`1` with a nested type `Line`, two methods and a field, in a module `shop.dll`.
fn metadata() -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    // Blob 1: `instance !!0 (int32, !0[], class Shop.Cart`1/Line)`, generic with one parameter of its own.
    // Blob 13: `static void ()`. Blob 17: a field of type `string`.
    let blobs = [
        &[0u8][..],
        &[11, 0x30, 1, 3, 0x1e, 0, 0x08, 0x1d, 0x13, 0, 0x12, 3 << 2],
        &[3, 0x00, 0, 0x01],
        &[2, 0x06, 0x0e],
    ]
    .concat();
    let name = |strings: &mut Strings, text: &str| strings.add(text);
    let mut rows: Vec<u8> = Vec::new();
    // Module: generation, name, mvid, two GUIDs.
    rows.extend([0, 0]);
    rows.extend(name(&mut strings, "shop.dll"));
    rows.extend([1, 0, 0, 0, 0, 0]);
    // TypeDef: flags, name, namespace, extends, first field, first method.
    let mut type_def = |text: &str, space: &str, field: u8, method: u8| {
        rows.extend([0, 0, 0, 0]);
        rows.extend(strings.add(text));
        rows.extend(if space.is_empty() { [0, 0] } else { strings.add(space) });
        rows.extend([0, 0, field, 0, method, 0]);
    };
    type_def("<Module>", "", 1, 1);
    type_def("Cart`1", "Shop", 1, 1);
    type_def("Line", "", 2, 2);
    // Field: flags (static), name, signature.
    rows.extend([0x10, 0]);
    rows.extend(strings.add("_name"));
    rows.extend([17, 0]);
    // MethodDef: RVA, implementation, flags, name, signature, first parameter.
    let mut method = |text: &str, signature: u8, parameter: u8| {
        rows.extend([0, 0, 0, 0, 0, 0, 0, 0]);
        rows.extend(strings.add(text));
        rows.extend([signature, 0, parameter, 0]);
    };
    method("Add", 1, 1);
    method(".cctor", 13, 2);
    // Param: flags, position, name.
    rows.extend([0, 0, 1, 0]);
    rows.extend(strings.add("count"));
    // NestedClass: type, enclosing type.
    rows.extend([3, 0, 2, 0]);
    // GenericParam: number, flags, owner, name: of Cart`1 (TypeDef 2), and of Add (MethodDef 1).
    rows.extend([0, 0, 0, 0, 2 << 1, 0]);
    rows.extend(strings.add("TItem"));
    rows.extend([0, 0, 0, 0, 1 << 1 | 1, 0]);
    rows.extend(strings.add("TResult"));

    let mut tables = vec![0, 0, 0, 0, 2, 0, 0, 1];
    let there: u64 = 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 0x29 | 1 << 0x2a;
    tables.extend(there.to_le_bytes());
    tables.extend((1u64 << 0x29).to_le_bytes());
    for rows in [1u32, 3, 1, 2, 1, 1, 2] {
        tables.extend(rows.to_le_bytes());
    }
    tables.extend(rows);
    assemble(&[("#~", &tables), ("#Strings", &strings.0), ("#GUID", &[7; 16]), ("#Blob", &blobs)])
}

fn assemble(streams: &[(&str, &[u8])]) -> Vec<u8> {
    let mut head = b"BSJB\x01\x00\x01\x00\0\0\0\0\x0c\0\0\0v4.0.30319\0\0\0\0".to_vec();
    head.extend(u16::try_from(streams.len()).expect("few streams").to_le_bytes());
    let names: usize = streams.iter().map(|(name, _)| 8 + (name.len() + 4) / 4 * 4).sum();
    let mut at = head.len() + names;
    let mut bodies: Vec<u8> = Vec::new();
    for (name, body) in streams {
        head.extend(u32::try_from(at).expect("small").to_le_bytes());
        head.extend(u32::try_from(body.len()).expect("small").to_le_bytes());
        head.extend(name.as_bytes());
        head.extend(vec![0; 4 - name.len() % 4]);
        bodies.extend(*body);
        at += body.len();
    }
    head.extend(bodies);
    head
}

fn parsed() -> Metadata {
    Metadata::parse(Arc::from(metadata())).expect("it is metadata")
}

#[test]
fn types_have_names_and_owners() {
    let metadata = parsed();
    assert_eq!(metadata.assembly_name(), Ok("shop.dll"));
    assert_eq!(metadata.module_id(), Ok([7; 16]));
    assert_eq!(metadata.type_name(2).as_deref(), Ok("Shop.Cart`1"));
    assert_eq!(metadata.type_name(3).as_deref(), Ok("Shop.Cart`1+Line"));
    assert_eq!((metadata.enclosing(3), metadata.enclosing(2)), (Some(2), None));
    assert_eq!(metadata.type_parameters(RowOf { table: Table::TypeDef, row: 2 }), ["TItem"]);
    assert_eq!(metadata.method_owner(1), Some(2));
    assert_eq!(metadata.method_owner(2), Some(3));
    assert_eq!(metadata.field_owner(1), Some(2));
    assert_eq!((metadata.methods_of(2), metadata.methods_of(3)), (vec![1], vec![2]));
    assert_eq!((metadata.fields_of(1), metadata.fields_of(2)), (vec![], vec![1]));
}

#[test]
fn methods_have_names_parameters_and_signatures() {
    let metadata = parsed();
    let add = metadata.method(1).expect("a method");
    assert_eq!(add.name, "Add");
    let text = method_parameters(&metadata, add.signature, Some(1)).expect("a signature");
    assert_eq!(text, "(System.Int32, TItem[], Shop.Cart`1+Line)");
    let text = method_parameters(&metadata, add.signature, None).expect("a signature");
    assert_eq!(text, "(System.Int32, !0[], Shop.Cart`1+Line)");
    assert_eq!(metadata.parameters(1), [(1, "count")]);
    assert!(metadata.parameters(2).is_empty());
    let field = metadata.field_signature(1).expect("a signature");
    assert_eq!(type_text(&metadata, field).as_deref(), Ok("System.String"));
}

#[test]
fn rows_that_are_not_there_are_errors() {
    let metadata = parsed();
    assert!(matches!(metadata.type_name(4), Err(MetadataError::Outside { what: "row", index: 4, limit: 3 })));
    assert!(matches!(metadata.type_name(0), Err(MetadataError::Outside { .. })));
    assert!(metadata.blob(99).is_err() && metadata.string(9999).is_err() && metadata.guid(2).is_err());
}

#[test]
fn signatures_that_nest_without_end_are_refused() {
    let metadata = parsed();
    let deep = vec![0x0f; 100_000];
    assert!(matches!(type_text(&metadata, &deep), Err(MetadataError::TooLarge { .. })));
    // Arguments of arguments of arguments.
    let deep: Vec<u8> = [0x15, 0x12, 2 << 2, 1].repeat(50_000);
    assert!(type_text(&metadata, &deep).is_err());
}

proptest! {
    #[test]
    fn damage_is_never_a_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let mut bytes = metadata();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz_metadata(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        fuzz_metadata(&bytes);
    }
}
