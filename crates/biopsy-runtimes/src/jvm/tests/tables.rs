//! The tables that HotSpot exports about itself.

use biopsy_elf::MappedElf;

use crate::fuzz::made_module::{Data, FILE, image};
use crate::jvm::tables::Tables;
use crate::{Memory, Module};

/// Rows of tables: owner, name, static, number. Types: name, parent, size. Constants: name, number.
struct Made {
    fields: Vec<(String, String, bool, u64)>,
    types: Vec<(&'static str, Option<&'static str>, u64)>,
    numbers: Vec<(&'static str, i32)>,
    longs: Vec<(&'static str, i64)>,
    /// Exported variables that are something else.
    other: Vec<(&'static str, Option<u64>)>,
}

fn made() -> Made {
    let field =
        |owner: &str, name: &str, is_static, number| (owner.to_owned(), name.to_owned(), is_static, number);
    Made {
        fields: vec![
            field("A", "_one", false, 8),
            field("B", "_two", false, 16),
            field("B", "_variable", true, 0x1234_5678_9abc),
            field("B", "_two", false, 24),
            field("C", "_large", false, 1 << 20),
            field("C", "_largest", false, (1 << 20) - 1),
        ],
        types: vec![
            ("A", None, 40),
            ("B", Some("A"), 48),
            ("C", Some("B"), 0),
            ("D", Some("E"), 8),
            ("E", Some("D"), 1 << 20),
        ],
        numbers: vec![("small", -7), ("one", 1)],
        longs: vec![("long", -1 << 40)],
        other: Vec::new(),
    }
}

impl Made {
    fn read(&self) -> Option<Tables> {
        let mut data = Data::default();
        let mut rows = Vec::new();
        for (owner, name, is_static, number) in &self.fields {
            let (owner, name) = (data.text(owner.as_bytes()), data.text(name.as_bytes()));
            let (offset, address) = if *is_static { (0x55, *number) } else { (*number, 0x55) };
            rows.extend([owner, name, u64::from(*is_static), offset, address]);
        }
        rows.extend([0; 5]);
        let fields = data.words(&rows);
        let mut rows = Vec::new();
        for (name, parent, size) in &self.types {
            let parent = parent.map_or(0, |parent| data.text(parent.as_bytes()));
            rows.extend([data.text(name.as_bytes()), parent, *size]);
        }
        rows.extend([0; 3]);
        let types = data.words(&rows);
        let mut rows = Vec::new();
        for (name, number) in &self.numbers {
            // What is behind four bytes is not part of them.
            rows.extend([data.text(name.as_bytes()), u64::from(number.cast_unsigned()) | 0xbad << 32]);
        }
        rows.extend([0; 2]);
        let numbers = data.words(&rows);
        let mut rows = Vec::new();
        for (name, number) in &self.longs {
            rows.extend([data.text(name.as_bytes()), number.cast_unsigned()]);
        }
        rows.extend([0; 2]);
        let longs = data.words(&rows);
        let all = [
            ("gHotSpotVMStructs", fields),
            ("gHotSpotVMStructEntryTypeNameOffset", 0),
            ("gHotSpotVMStructEntryFieldNameOffset", 8),
            ("gHotSpotVMStructEntryIsStaticOffset", 16),
            ("gHotSpotVMStructEntryOffsetOffset", 24),
            ("gHotSpotVMStructEntryAddressOffset", 32),
            ("gHotSpotVMStructEntryArrayStride", 40),
            ("gHotSpotVMTypes", types),
            ("gHotSpotVMTypeEntryTypeNameOffset", 0),
            ("gHotSpotVMTypeEntrySuperclassNameOffset", 8),
            ("gHotSpotVMTypeEntrySizeOffset", 16),
            ("gHotSpotVMTypeEntryArrayStride", 24),
            ("gHotSpotVMIntConstants", numbers),
            ("gHotSpotVMIntConstantEntryNameOffset", 0),
            ("gHotSpotVMIntConstantEntryValueOffset", 8),
            ("gHotSpotVMIntConstantEntryArrayStride", 16),
            ("gHotSpotVMLongConstants", longs),
            ("gHotSpotVMLongConstantEntryNameOffset", 0),
            ("gHotSpotVMLongConstantEntryValueOffset", 8),
            ("gHotSpotVMLongConstantEntryArrayStride", 16),
        ];
        let mut symbols = Vec::new();
        for (name, value) in all {
            let other = self.other.iter().find(|(other, _)| *other == name);
            if let Some(value) = other.map_or(Some(value), |(_, other)| *other) {
                symbols.push((name.to_owned(), data.words(&[value])));
            }
        }
        let image = image(b"/lib/libjvm.so", &symbols, &data, 64);
        let memory = Memory::new(&image, None, 1 << 20);
        let module = Module::all(&image).next().expect("one module");
        assert_eq!(module.module.start, FILE);
        let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
        let elf = MappedElf::read(&read, module.module.start, 64).expect("a file");
        Tables::read(&memory, &elf, &elf.dynamic().expect("symbols"))
    }
}

#[test]
fn rows_say_where_things_are() {
    let tables = made().read().expect("tables");
    for (owner, name, offset) in [
        ("A", "_one", Some(8)),
        // Of the type above it, and of the one above that.
        ("B", "_one", Some(8)),
        ("C", "_one", Some(8)),
        // The first row of a name is the one that counts.
        ("B", "_two", Some(16)),
        ("A", "_two", None),
        ("B", "_variable", None),
        ("C", "_large", None),
        ("C", "_largest", Some((1 << 20) - 1)),
        ("nobody", "_one", None),
        // Types that are above each other end.
        ("D", "_one", None),
    ] {
        assert_eq!(tables.field(owner, name), offset, "{owner}::{name}");
    }
    assert_eq!(tables.variable("B", "_variable"), Some(0x1234_5678_9abc));
    assert_eq!([tables.variable("B", "_two"), tables.variable("C", "_variable")], [None; 2]);
    let sizes = ["A", "B", "C", "D", "E", "F"].map(|name| tables.size(name));
    // A size of nothing is none, and neither is one that is larger than any.
    assert_eq!(sizes, [Some(40), Some(48), None, Some(8), None, None]);
    let numbers = ["small", "one", "long", "none"].map(|name| tables.constant(name));
    assert_eq!(numbers, [Some(-7), Some(1), Some(-1 << 40), None]);
}

#[test]
fn a_row_without_a_name_ends_a_table_and_one_of_a_field_does_not() {
    let mut cut = made();
    // Text that has no end in its first 200 bytes is nobody's name.
    cut.fields[1].0 = "B".repeat(200);
    let tables = cut.read().expect("tables");
    assert_eq!((tables.field("A", "_one"), tables.field("B", "_two")), (Some(8), None));
    let mut skipped = made();
    skipped.fields[1].1 = "x".repeat(200);
    let tables = skipped.read().expect("tables");
    assert_eq!(tables.field("B", "_two"), Some(24), "the second row of the name");
    assert_eq!(tables.field("C", "_largest"), Some((1 << 20) - 1));
}

#[test]
fn what_is_exported_has_to_be_possible() {
    for (name, value, is_read) in [
        ("gHotSpotVMStructs", None, false),
        ("gHotSpotVMTypes", None, false),
        ("gHotSpotVMStructEntryTypeNameOffset", None, false),
        ("gHotSpotVMStructEntryArrayStride", Some(0), false),
        ("gHotSpotVMStructEntryArrayStride", Some(257), false),
        ("gHotSpotVMStructEntryArrayStride", Some(u64::MAX), false),
        ("gHotSpotVMStructEntryAddressOffset", Some(256), false),
        ("gHotSpotVMTypeEntrySizeOffset", Some(u64::MAX), false),
        // Without constants the rest is there.
        ("gHotSpotVMIntConstants", None, true),
        ("gHotSpotVMLongConstantEntryValueOffset", Some(300), true),
        // A table at the end of all addresses has no rows.
        ("gHotSpotVMStructs", Some(u64::MAX - 3), true),
        ("gHotSpotVMTypes", Some(0), true),
    ] {
        let mut other = made();
        other.other.push((name, value));
        assert_eq!(other.read().is_some(), is_read, "{name} {value:x?}");
    }
}
