//! A small assembly made by hand, whole and damaged.

pub(crate) mod made;
mod tables;

use std::sync::Arc;

use proptest::prelude::*;

use biopsy_bytes::Cursor;

use super::fuzz::fuzz_metadata;
use super::tables::{compressed_i32, compressed_u32, partition};
use super::{Metadata, MetadataError, RowOf, Table, method_parameters};

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
    assert_eq!(metadata.type_name(2).as_deref(), Ok("Shop.Cart`1"));
    assert_eq!(metadata.type_name(3).as_deref(), Ok("Shop.Cart`1+Line"));
    assert_eq!((metadata.enclosing(3), metadata.enclosing(2)), (Some(2), None));
    assert_eq!(metadata.type_parameters(RowOf { table: Table::TypeDef, row: 2 }), ["TItem"]);
    assert_eq!(metadata.method_owner(1), Some(2));
    assert_eq!(metadata.method_owner(2), Some(3));
    assert_eq!(metadata.method_owner(3), Some(3), "the last list has no end");
    assert_eq!(metadata.field_name(1), Ok("_name"));
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
}

#[test]
fn rows_that_are_not_there_are_errors() {
    let metadata = parsed();
    assert!(matches!(metadata.type_name(4), Err(MetadataError::Outside { what: "row", index: 4, limit: 3 })));
    assert!(matches!(metadata.type_name(0), Err(MetadataError::Outside { .. })));
    assert!(metadata.blob(99).is_err() && metadata.string(9999).is_err());
}

#[test]
fn signatures_that_nest_without_end_are_refused() {
    let metadata = parsed();
    let of = |parameter: &[u8]| method_parameters(&metadata, &[&[0, 1, 1][..], parameter].concat(), None);
    assert!(matches!(of(&vec![0x0f; 100_000]), Err(MetadataError::TooLarge { .. })));
    // Arguments of arguments of arguments.
    let deep: Vec<u8> = [0x15, 0x12, 2 << 2, 1].repeat(50_000);
    assert!(of(&deep).is_err());
}

/// II.23.2: the shortest form of a number.
fn compress(number: u32) -> Vec<u8> {
    match number {
        0..0x80 => vec![number as u8],
        0x80..0x4000 => ((number | 0x8000) as u16).to_be_bytes().to_vec(),
        _ => (number | 0xc000_0000).to_be_bytes().to_vec(),
    }
}

#[test]
fn compressed_numbers_are_those_of_the_standard() {
    let unsigned: [(&[u8], u32); 9] = [
        (&[0x03], 0x03),
        (&[0x7f], 0x7f),
        (&[0x80, 0x80], 0x80),
        (&[0xae, 0x57], 0x2e57),
        (&[0xbf, 0xff], 0x3fff),
        (&[0xc0, 0x00, 0x40, 0x00], 0x4000),
        (&[0xdf, 0xff, 0xff, 0xff], 0x1fff_ffff),
        (&[0x80, 0x01], 1),
        (&[0xc0, 0x00, 0x00, 0x01], 1),
    ];
    for (bytes, number) in unsigned {
        assert_eq!(compressed_u32(&mut Cursor::new(bytes)), Ok(number), "{bytes:x?}");
        assert!((0..bytes.len()).all(|cut| compressed_u32(&mut Cursor::new(&bytes[..cut])).is_err()));
    }
    let signed: [(&[u8], i32); 8] = [
        (&[0x06], 3),
        (&[0x7b], -3),
        (&[0x80, 0x80], 64),
        (&[0x01], -64),
        (&[0xc0, 0x00, 0x40, 0x00], 8192),
        (&[0x80, 0x01], -8192),
        (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
        (&[0xc0, 0x00, 0x00, 0x01], -268_435_456),
    ];
    for (bytes, number) in signed {
        assert_eq!(compressed_i32(&mut Cursor::new(bytes)), Ok(number), "{bytes:x?}");
    }
    for first in 0xe0..=0xff {
        assert!(compressed_u32(&mut Cursor::new(&[first, 0, 0, 0])).is_err(), "{first:#x} begins no number");
    }
}

/// A table of type definitions whose names are so far into `#Strings` that offsets take four bytes.
#[test]
fn large_heaps_and_tables_have_wide_columns() {
    let rows = 3u32;
    let names = [&vec![b'x'; 70_000][..], b"\0Far\0"].concat();
    let mut tables = vec![0, 0, 0, 0, 2, 0, 1, 1];
    tables.extend((1u64 << 2).to_le_bytes());
    tables.extend([0; 8]);
    tables.extend(rows.to_le_bytes());
    for row in 0..rows {
        tables.extend(row.to_le_bytes());
        tables.extend(70_001u32.to_le_bytes());
        tables.extend([0; 4 + 2 + 2 + 2]);
    }
    let whole = assemble(&[("#~", &tables), ("#Strings", &names)]);
    let metadata = Metadata::parse(Arc::from(whole.clone())).expect("it is metadata");
    for row in 1..=rows {
        assert_eq!(metadata.cell(Table::TypeDef, row, 0), Ok(row - 1));
        assert_eq!(metadata.name(Table::TypeDef, row, 1), Ok("Far"));
    }
    assert!(metadata.string(u32::MAX).is_err());
    // A name that nothing ends is cut, and so is one that is no text.
    assert_eq!(metadata.string(0).map(str::len), Ok(16 << 10));
    let broken = assemble(&[("#~", &tables), ("#Strings", b"\0ab\xffcd\0")]);
    let broken = Metadata::parse(Arc::from(broken)).expect("it is metadata");
    assert_eq!(broken.string(1), Ok("ab"));
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

    #[test]
    fn every_number_comes_back(number in prop_oneof![0u32..0x100, 0x3f00u32..0x4100, 0u32..0x2000_0000]) {
        let bytes = compress(number);
        let mut cursor = Cursor::new(&bytes);
        prop_assert_eq!(compressed_u32(&mut cursor), Ok(number));
        prop_assert!(cursor.is_empty());
        // What is stored for a signed number is rotated by one.
        let signed = compressed_i32(&mut Cursor::new(&bytes)).unwrap();
        let bits = match bytes.len() { 1 => 7, 2 => 14, _ => 29 };
        let sign_extended = (i64::from(number >> 1) - if number & 1 == 1 { 1 << (bits - 1) } else { 0 }) as i32;
        prop_assert_eq!(signed, sign_extended);
    }

    #[test]
    fn the_first_row_that_is_not_before_is_found(rows in 0u32..200, first in 0u32..220) {
        let found = partition(rows, |row| row < first);
        prop_assert_eq!(found, (1..=rows).find(|row| *row >= first).unwrap_or(rows + 1));
    }

    #[test]
    fn names_and_blobs_anywhere_are_within_their_heaps(offset: u32) {
        let metadata = parsed();
        if let Ok(name) = metadata.string(offset) {
            prop_assert!(!name.contains('\0') && name.len() < 100);
        }
        if let Ok(blob) = metadata.blob(offset) {
            prop_assert!(blob.len() < 100);
        }
    }
}
