//! Tables in every form: sorted and not, edited, with rows of rows.

use super::made::{Assembly, SECTION_RVA, pe, root};
use super::*;
use crate::metadata::{PeFile, PeLayout};

fn parsed(bytes: &[u8]) -> Metadata {
    Metadata::parse(Arc::from(bytes)).expect("it is metadata")
}

/// Types that are nested in each other, with parameters; rows of the tables with keys in this order.
fn shop(descending: bool) -> Assembly {
    let mut shop = Assembly::new("shop.dll");
    let cart = shop.of_type("Shop", "Cart`2");
    let add = shop.method("Add", &[0, 0, 1]);
    let line = shop.of_type("", "Line");
    shop.method("Sum", &[0, 0, 1]);
    let part = shop.of_type("", "Part");
    let mut nested = vec![(line, cart), (part, line)];
    let mut parameters = vec![(cart, false, 0, "TKey"), (cart, false, 1, "TItem"), (add, true, 0, "TOther")];
    if descending {
        nested.reverse();
        parameters.reverse();
    }
    nested.into_iter().for_each(|(inner, outer)| shop.nested(inner, outer));
    for (of, of_method, number, name) in parameters {
        shop.parameter(of, of_method, number, name);
    }
    shop
}

#[test]
fn rows_are_found_by_their_keys_whether_or_not_they_are_sorted() {
    // Keys of parameters are coded: those of methods come between those of types.
    let in_order = shop(false);
    for (metadata, how) in [
        (in_order.metadata(), "not said to be sorted"),
        (shop(true).metadata(), "in another order"),
        (shop(true).sorted().metadata_as(true), "edited: it is not sorted whatever it says"),
    ] {
        let metadata = parsed(&metadata);
        assert_eq!(metadata.type_name(4).as_deref(), Ok("Shop.Cart`2+Line+Part"), "{how}");
        assert_eq!((metadata.enclosing(3), metadata.enclosing(2)), (Some(2), None), "{how}");
        let of = |table, row| metadata.type_parameters(RowOf { table, row });
        assert_eq!(of(Table::TypeDef, 2), ["TKey", "TItem"], "{how}");
        assert_eq!(of(Table::MethodDef, 1), ["TOther"], "{how}");
        assert!(of(Table::TypeDef, 3).is_empty() && of(Table::Field, 1).is_empty(), "{how}");
    }
    let mut sorted = Assembly::new("shop.dll").sorted();
    let types: Vec<u32> = (0..20).map(|number| sorted.of_type("", &format!("T{number}"))).collect();
    types.windows(2).for_each(|two| sorted.nested(two[1], two[0]));
    let metadata = parsed(&sorted.metadata());
    for two in types.windows(2) {
        assert_eq!(metadata.enclosing(two[1]), Some(two[0]));
    }
    assert_eq!(metadata.enclosing(types[0]), None);
}

#[test]
fn types_in_a_circle_or_too_deep_are_refused() {
    let mut circle = Assembly::new("a");
    let (one, other) = (circle.of_type("", "A"), circle.of_type("", "B"));
    circle.nested(one, other);
    circle.nested(other, one);
    let mut deep = Assembly::new("a");
    let types: Vec<u32> = (0..65).map(|_| deep.of_type("", "D")).collect();
    types.windows(2).for_each(|two| deep.nested(two[1], two[0]));
    let mut refs = Assembly::new("a");
    let first = refs.type_ref("N", "R", Some(2));
    let second = refs.type_ref("N", "S", Some(first));
    let (circle, deep, refs) = (circle.metadata(), deep.metadata(), refs.metadata());
    let too_deep = |found: Result<String, MetadataError>| {
        matches!(found, Err(MetadataError::Outside { what: "depth of nested types", limit: 64, .. }))
    };
    assert!(too_deep(parsed(&circle).type_name(one)));
    assert!(too_deep(parsed(&deep).type_name(types[64])) && parsed(&deep).type_name(types[63]).is_ok());
    assert!(too_deep(parsed(&refs).type_ref_name(second)));
}

#[test]
fn types_of_other_assemblies_have_the_names_around_them() {
    let mut assembly = Assembly::new("a");
    let outer = assembly.type_ref("System", "Outer", None);
    let inner = assembly.type_ref("", "Inner", Some(outer));
    let lost = assembly.type_ref("", "Lost", Some(99));
    let metadata = parsed(&assembly.metadata());
    assert_eq!(metadata.type_ref_name(outer).as_deref(), Ok("System.Outer"));
    assert_eq!(metadata.type_ref_name(inner).as_deref(), Ok("System.Outer+Inner"));
    assert!(matches!(
        metadata.type_ref_name(lost),
        Err(MetadataError::Outside { what: "row", index: 99, .. })
    ));
}

#[test]
fn the_owner_of_a_method_is_found_through_the_order_of_edited_tables() {
    let metadata = parsed(&shop(false).metadata());
    assert_eq!([1, 2].map(|row| metadata.method_owner(row)), [Some(2), Some(3)]);
    // The first of `<Module>` would be the first of all, and it has none.
    let mut edited = shop(false);
    edited.push(Table::MethodPtr, &[2]);
    edited.push(Table::MethodPtr, &[1]);
    let metadata = parsed(&edited.metadata_as(true));
    assert_eq!([1, 2, 3].map(|row| metadata.method_owner(row)), [Some(3), Some(2), None]);
}

/// A signature of one parameter, as text.
fn parameter(metadata: &Metadata, bytes: &[u8]) -> Result<String, MetadataError> {
    method_parameters(metadata, &[&[0, 1, 1][..], bytes].concat(), None)
}

#[test]
fn each_kind_of_parameter_is_shown() {
    let mut assembly = shop(false);
    assembly.type_ref("System", "Uri", None);
    let metadata = parsed(&assembly.metadata());
    // Types are coded: row and, in the lowest bits, the table.
    for (bytes, shown) in [
        (&[0x01][..], "System.Void"),
        (&[0x1c], "System.Object"),
        (&[0x0f, 0x05], "System.Byte*"),
        (&[0x10, 0x0e], "System.String&"),
        (&[0x1d, 0x1d, 0x08], "System.Int32[][]"),
        (&[0x12, 2 << 2], "Shop.Cart`2"),
        (&[0x11, 1 << 2 | 1], "System.Uri"),
        (&[0x12, 30 << 2], "?"),
        (&[0x12, 0], "?"),
        (&[0x12, 1 << 2 | 3], "?"),
        (&[0x13, 3], "!3"),
        (&[0x1e, 2], "!!2"),
        (&[0x15, 0x12, 2 << 2, 2, 0x0e, 0x1d, 0x08], "Shop.Cart<System.String, System.Int32[]>"),
        (&[0x15, 0x12, 2 << 2, 0], "Shop.Cart"),
        (&[0x14, 0x08, 1, 0, 0], "System.Int32[*]"),
        (&[0x14, 0x08, 3, 1, 5, 2, 0, 1], "System.Int32[,,]"),
        (&[0x14, 0x08, 0x7f, 0, 0], "System.Int32[,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,]"),
        (&[0x1b, 0, 2, 0x01, 0x08, 0x0e], "delegate*<System.Void, System.Int32, System.String>"),
        (&[0x1b, 0x10, 1, 0, 0x01], "delegate*<System.Void>"),
        // Modifiers, pinned, behind the sentinel of a list of any length.
        (&[0x1f, 5, 0x20, 9, 0x08], "System.Int32"),
        (&[0x45, 0x41, 0x08], "System.Int32"),
    ] {
        assert_eq!(parameter(&metadata, bytes), Ok(format!("({shown})")), "{bytes:x?}");
        for cut in 0..bytes.len() {
            assert!(parameter(&metadata, &bytes[..cut]).is_err(), "{cut} of {bytes:x?}");
        }
    }
    let refused = parameter(&metadata, &[0x77]).expect_err("no type");
    assert!(matches!(refused, MetadataError::NotThis { what: "element type", found: 0x77, .. }));
}

#[test]
fn parameters_without_end_are_refused() {
    let metadata = parsed(&shop(false).metadata());
    // So many sizes of dimensions, arguments, and parameters are not there.
    for bytes in [
        &[0x14, 0x08, 2, 0xdf, 0xff, 0xff, 0xff][..],
        &[0x15, 0x12, 8, 0xdf, 0xff, 0xff, 0xff, 0x08],
        &[0x1b, 0, 0xdf, 0xff, 0xff, 0xff, 0x08],
    ] {
        assert!(matches!(parameter(&metadata, bytes), Err(MetadataError::Damaged(_))), "{bytes:x?}");
    }
    let many = [&[0, 0xdf, 0xff, 0xff, 0xff, 0x01][..], &[0x08; 5000]].concat();
    let shown = method_parameters(&metadata, &many, None);
    assert!(matches!(shown, Err(MetadataError::TooLarge { what: "signature", .. })), "{shown:?}");
}

#[test]
fn streams_that_lie_are_used_as_far_as_they_go_or_refused() {
    let assembly = shop(false);
    let tables = assembly.table_stream();
    let refused = |streams: &[(&str, &[u8])]| Metadata::parse(Arc::from(root(streams))).map(|_| ());
    assert_eq!(refused(&[("#Strings", b"\0")]), Err(MetadataError::Absent("stream of tables")));
    for cut in 0..tables.len() {
        assert!(refused(&[("#~", &tables[..cut])]).is_err(), "{cut} of {}", tables.len());
    }
    assert!(refused(&[("#~", &tables)]).is_ok(), "without names");
    let metadata = parsed(&root(&[("#~", &tables)]));
    assert!(metadata.type_name(2).is_err() && metadata.string(0) == Ok(""));
    // A table that nobody has described.
    let mut unknown = tables.clone();
    unknown[8 + 7] |= 0x40;
    assert!(refused(&[("#~", &unknown)]).is_err());
    // Rows of 4 billion.
    let mut many = tables.clone();
    many[24..28].fill(0xff);
    assert!(matches!(refused(&[("#~", &many)]), Err(MetadataError::Outside { what: "rows of table", .. })));
    let mut text = root(&[("#~", &tables)]);
    text[12..16].copy_from_slice(&5000u32.to_le_bytes());
    assert!(matches!(
        Metadata::parse(Arc::from(text)),
        Err(MetadataError::TooLarge { what: "version text", .. })
    ));
}

#[test]
fn assemblies_are_read_from_files_and_from_memory_and_not_the_other_way() {
    let metadata = shop(false).metadata();
    for (mapped, layout, other) in
        [(true, PeLayout::Mapped, PeLayout::Flat), (false, PeLayout::Flat, PeLayout::Mapped)]
    {
        let bytes = pe(&metadata, Some(0), b"ready", mapped);
        let file = PeFile::parse(&bytes[..], layout).expect("it is an assembly");
        assert_eq!(file.metadata(&bytes[..]).expect("it has metadata").assembly_name(), Ok("shop.dll"));
        let ready = SECTION_RVA + 72 + metadata.len() as u32;
        assert_eq!((file.ready_to_run(), file.layout()), ((ready, 64), layout));
        let mut five = [0; 5];
        file.read(&bytes[..], ready, &mut five).expect("it is there");
        assert_eq!(&five, b"ready");
        assert!(file.read(&bytes[..], ready + 1, &mut five).is_err(), "behind the end");
        assert!(file.read(&bytes[..], u32::MAX, &mut five).is_err());
        let wrong = PeFile::parse(&bytes[..], other).and_then(|file| file.metadata(&bytes[..]));
        assert!(wrong.is_err());
        // Cut anywhere: no metadata, or all of it.
        for cut in (0..bytes.len() - 5).step_by(61) {
            let read = PeFile::parse(&bytes[..cut], layout).and_then(|file| file.metadata(&bytes[..cut]));
            assert!(read.is_err(), "{cut}");
        }
        // The size is a claim.
        let at = bytes.windows(4).position(|four| four == b"BSJB").expect("metadata") - 72 + 12;
        for size in [u32::MAX, 256 << 20, 0x10_0000] {
            let mut lies = bytes.clone();
            lies[at..at + 4].copy_from_slice(&size.to_le_bytes());
            let file = PeFile::parse(&lies[..], layout).expect("the headers are whole");
            assert!(file.metadata(&lies[..]).is_err(), "{size:#x}");
        }
    }
}
