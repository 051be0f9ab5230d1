//! Objects of Java: where their classes say their fields are, references in all forms, strings.

use proptest::prelude::*;

use super::{Made, packed};
use crate::Memory;
use crate::jvm::compressed::Form;
use crate::jvm::layout::Fields;
use crate::jvm::vm::{ClassPointers, References, Vm};

/// A field: its name's number among the constants, flags, offset, and which numbers follow it in a stream.
type Field = (u16, u16, u32, u32);

fn stream(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    let form = Form::WithoutZero;
    packed(&mut out, fields.len() as u32, form);
    packed(&mut out, 0, form);
    for (name, access, offset, more) in fields {
        for number in [u32::from(*name), 1, *offset, u32::from(*access), *more] {
            packed(&mut out, number, form);
        }
        // An initial value, a generic signature, a group of contended fields.
        for bit in [0, 2, 4] {
            if more >> bit & 1 != 0 {
                packed(&mut out, 0x1234, form);
            }
        }
    }
    out
}

fn table(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, access, offset, _) in fields {
        // Access, name, type, initial value, offset and two bits that say that it is one.
        let place = offset << 2 | 1;
        for half in [*access, *name, 1, 0, place as u16, (place >> 16) as u16] {
            out.extend(half.to_le_bytes());
        }
    }
    out
}

/// A class with these fields, of names `f1` on.
fn class(made: &mut Made, fields: &[Field], as_table: bool) -> u64 {
    let names: Vec<String> = (1..=8).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let class = made.class("Main", &names);
    let bytes = if as_table { table(fields) } else { stream(fields) };
    let array = made.bytes(&[&(bytes.len() as u32).to_le_bytes(), bytes.as_slice()].concat());
    made.image.word(class + 32, array);
    made.image.put(class + 40, &(fields.len() as u16).to_le_bytes());
    class
}

fn vm<T>(
    made: &Made,
    references: References,
    classes: ClassPointers,
    major: u32,
    read: impl FnOnce(&Vm<'_>) -> T,
) -> T {
    let memory = Memory::new(&made.image, None, 1 << 20);
    let form = Form::WithoutZero;
    read(&Vm::known(&memory, &made.limits, made.layout.clone(), (major, form), references, classes))
}

proptest! {
    #[test]
    fn fields_are_where_their_class_says(
        as_table in any::<bool>(),
        fields in prop::collection::vec((1..9_u16, prop::sample::select(vec![0_u16, 2, 8, 10]), 8..100_000_u32, 0..32_u32), 0..12),
    ) {
        let mut made = Made::new(false, Form::WithoutZero);
        if as_table {
            made.layout.classes.fields = Fields::Table { array: 32, count: 40, data: 4 };
        }
        let class = class(&mut made, &fields, as_table);
        let object = made.words(&[0, class]);
        vm(&made, References::Wide, ClassPointers::Wide, 21, |vm| {
            for number in 1..10_u16 {
                // The last of a name is the one that counts; those of the class itself are not in its objects.
                let own = fields.iter().rfind(|(name, access, ..)| *name == number && access & 8 == 0);
                let expected = own.map(|(_, _, offset, _)| object + u64::from(*offset));
                assert_eq!(vm.field(object, &format!("f{number}")), expected, "{number} of {fields:?}");
            }
        });
    }

    /// A stream that is cut, or any bytes, gives the fields that are whole.
    #[test]
    fn a_stream_that_is_cut_has_the_fields_before(
        fields in prop::collection::vec((1..9_u16, Just(0_u16), 8..1000_u32, 0..32_u32), 1..8),
        cut in any::<prop::sample::Index>(),
        garbage in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut made = Made::new(false, Form::WithoutZero);
        let whole = class(&mut made, &fields, false);
        let bytes = stream(&fields);
        let length = cut.index(bytes.len());
        let cut = class(&mut made, &fields, false);
        let array = made.image.word_at(cut + 32);
        made.image.half(array, length as u32);
        let wild = class(&mut made, &fields, false);
        let array = made.bytes(&[&(garbage.len() as u32).to_le_bytes(), garbage.as_slice()].concat());
        made.image.word(wild + 32, array);
        let [whole, cut, wild] = [whole, cut, wild].map(|class| made.words(&[0, class]));
        vm(&made, References::Wide, ClassPointers::Wide, 21, |vm| {
            for name in (1..9).map(|number| format!("f{number}")) {
                let all: Vec<u64> = fields
                    .iter()
                    .filter(|(number, ..)| format!("f{number}") == name)
                    .map(|(_, _, offset, _)| u64::from(*offset))
                    .collect();
                assert_eq!(vm.field(whole, &name), all.last().map(|offset| whole + offset));
                assert!(vm.field(cut, &name).is_none_or(|at| all.contains(&(at - cut))));
                assert!(vm.field(wild, &name).is_none_or(|at| at - wild <= u64::from(u32::MAX)));
            }
        });
    }

    #[test]
    fn a_string_is_read_in_whatever_way_objects_are_stored(
        text in "[a-zé-ÿ]{0,50}|[a-zа-я😀]{0,50}",
        // As long as the longest name here, which it holds for too.
        most in 16..40_usize,
        how in 0..4_usize,
    ) {
        let mut made = Made::new(false, Form::WithoutZero);
        made.limits.text = most;
        // Fields `value` and `coder` of the class of strings.
        let base = 0x20_0000_u64;
        let string = made.class("java/lang/String", &["value", "coder"]);
        let array = made.bytes(&[&[0; 4], stream(&[(1, 0, 16, 0), (2, 0, 28, 0)]).as_slice()].concat());
        made.image.half(array, 40);
        made.image.word(string + 32, array);
        let (references, classes, major, length_at, data_at) = [
            (References::Wide, ClassPointers::Wide, 17, 16, 24),
            (References::Wide, ClassPointers::Wide, 25, 16, 20),
            (References::Narrow { base, shift: 3 }, ClassPointers::Narrow { base, shift: 3 }, 21, 12, 16),
            (References::Narrow { base: 0, shift: 0 }, ClassPointers::InMark { base, shift: 3, bits_below: 42 }, 25, 8, 12),
        ][how];
        let wide = text.chars().any(|one| u32::from(one) > 0xff);
        let units: Vec<u16> = text.encode_utf16().collect();
        let bytes: Vec<u8> = match wide {
            true => units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
            false => units.iter().map(|unit| *unit as u8).collect(),
        };
        let value = made.room(32 + bytes.len() as u64);
        made.image.half(value + length_at, bytes.len() as u32);
        made.image.put(value + data_at, &bytes);
        let object = made.room(64);
        match classes {
            ClassPointers::Wide => made.image.word(object + 8, string),
            ClassPointers::Narrow { base, shift } => made.image.half(object + 8, ((string - base) >> shift) as u32),
            ClassPointers::InMark { base, shift, bits_below } => {
                made.image.word(object, ((string - base) >> shift) << bits_below | 5);
            }
        }
        match references {
            References::Narrow { base, shift } => made.image.half(object + 16, ((value - base) >> shift) as u32),
            _ => made.image.word(object + 16, value),
        }
        made.image.put(object + 28, &[u8::from(wide)]);
        let expected = String::from_utf16_lossy(&units[..units.len().min(most)]);
        let read = vm(&made, references, classes, major, |vm| vm.string(object));
        prop_assert_eq!(read, Some(expected));
        // A length below nothing is none of an array.
        made.image.half(value + length_at, u32::MAX);
        prop_assert_eq!(vm(&made, references, classes, major, |vm| vm.string(object)), None);
    }
}

#[test]
fn a_field_is_looked_for_in_the_classes_above_and_no_further() {
    let mut made = Made::new(false, Form::WithoutZero);
    let above = class(&mut made, &[(1, 0, 24, 0)], false);
    let below = class(&mut made, &[(2, 0, 32, 0)], false);
    made.image.word(below + 16, above);
    let object = made.words(&[0, below]);
    let find = |made: &Made, name: &str| {
        vm(made, References::Wide, ClassPointers::Wide, 21, |vm| vm.field(object, name).map(|at| at - object))
    };
    assert_eq!([find(&made, "f1"), find(&made, "f2"), find(&made, "f3")], [Some(24), Some(32), None]);
    // A class that is above itself.
    made.image.word(above + 16, below);
    assert_eq!([find(&made, "f1"), find(&made, "f3")], [Some(24), None]);
}

#[test]
fn references_are_addresses_or_nothing() {
    let mut made = Made::new(false, Form::WithoutZero);
    let at = made.words(&[0x1_0000_0123]);
    for (references, word, expected) in [
        (References::Narrow { base: 0x1000, shift: 3 }, 0x1_0000_0123, Some(0x1000 + 0x123 * 8)),
        (References::Narrow { base: 0x1000, shift: 3 }, 0x1_0000_0000, None),
        (References::Narrow { base: u64::MAX, shift: 0 }, 1, None),
        (References::Wide, 0x1_0000_0123, Some(0x1_0000_0123)),
        (References::Wide, 0, None),
        (References::Masked { mask: 0xffff, view: 0x10_0000 }, 0x7_0000_0123, Some(0x10_0123)),
        (References::Shifted { shift: 4 }, 0x1230, Some(0x123)),
        (References::Shifted { shift: 4 }, 0xf, None),
    ] {
        made.image.word(at, word);
        let found = vm(&made, references, ClassPointers::Wide, 21, |vm| vm.reference_at(at));
        assert_eq!(found, expected, "{references:x?} {word:#x}");
    }
}

#[test]
fn constants_are_asked_for_a_name() {
    let mut made = Made::new(false, Form::WithoutZero);
    let class = made.class("Main", &["one", "two", "three"]);
    let other = made.class("Other", &[]);
    let read = |made: &Made, class: u64, name: &str| {
        vm(made, References::Wide, ClassPointers::Wide, 21, |vm| vm.mentions(class, name))
    };
    for (name, there) in [("one", true), ("three", true), ("Main", false), ("", false)] {
        assert_eq!(read(&made, class, name), there, "{name}");
    }
    assert!(!read(&made, other, "one") && !read(&made, 0, "one") && !read(&made, u64::MAX - 7, "one"));
    // The lowest bit of a constant says that it is not resolved yet.
    let pool = made.image.word_at(class + 24);
    let resolved = made.image.word_at(pool + 32);
    made.image.word(pool + 32, resolved | 1);
    assert!(read(&made, class, "one"));
}
