//! Strings of V8 in all their shapes, lines of scripts, and positions of instructions.

use proptest::prelude::*;

use super::{Heap, smi};
use crate::Limits;

/// A string, as V8 comes to have it.
#[derive(Clone, Debug)]
enum Shape {
    Flat(Vec<u16>),
    External(Vec<u16>),
    Cons(Box<Shape>, Box<Shape>),
    /// So many characters from one on.
    Slice(Box<Shape>, usize, usize),
    Thin(Box<Shape>),
}

impl Shape {
    /// What it says.
    fn units(&self) -> Vec<u16> {
        match self {
            Self::Flat(units) | Self::External(units) => units.clone(),
            Self::Cons(first, second) => [first.units(), second.units()].concat(),
            Self::Slice(parent, from, count) => parent.units().into_iter().skip(*from).take(*count).collect(),
            Self::Thin(actual) => actual.units(),
        }
    }

    fn put(&self, heap: &mut Heap) -> u64 {
        let strings = heap.layout.strings;
        let (kind, words) = match self {
            Self::Flat(units) => return heap.units(units),
            Self::External(units) => {
                let data = heap.room(2 * units.len() as u64 + 8);
                let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                heap.image.put(data, &bytes);
                // The resource, and behind it where its data is.
                (strings.external, vec![0, 0, data])
            }
            Self::Cons(first, second) => (strings.cons, vec![0, first.put(heap), second.put(heap)]),
            Self::Slice(parent, from, _) => (strings.sliced, vec![0, parent.put(heap), smi(*from as i64)]),
            Self::Thin(actual) => (strings.thin, vec![0, actual.put(heap)]),
        };
        let at = heap.object(kind, &words);
        heap.length(at, self.units().len());
        at
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let unit = prop_oneof![0x20..0x7f_u16, 0xa0..0x100_u16, 0x400..0x500_u16];
    let flat = prop::collection::vec(unit, 0..12);
    let leaf = prop_oneof![flat.clone().prop_map(Shape::Flat), flat.prop_map(Shape::External)];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Shape::Cons(Box::new(a), Box::new(b))),
            (inner.clone(), 0..8_usize, 0..16_usize).prop_map(|(parent, from, count)| {
                let length = parent.units().len();
                let from = from.min(length);
                Shape::Slice(Box::new(parent), from, count.min(length - from))
            }),
            inner.prop_map(|actual| Shape::Thin(Box::new(actual))),
        ]
    })
}

proptest! {
    #[test]
    fn a_string_says_the_same_in_whatever_shape(shape in shapes(), most in 0..40_usize) {
        let mut heap = Heap::new();
        let at = shape.put(&mut heap);
        let expected: Vec<u16> = shape.units().into_iter().take(most).collect();
        let limits = Limits { text: most, ..Limits::default() };
        let read = heap.read(&limits, |objects| objects.string(at));
        prop_assert_eq!(read, Some(String::from_utf16_lossy(&expected)));
    }

    /// A slice that says to be longer than what it is of, and one that begins behind its end.
    #[test]
    fn a_slice_has_no_more_than_what_it_is_of(shape in shapes(), from in 0..100_i64, length in 0..100_usize) {
        let mut heap = Heap::new();
        let parent = shape.put(&mut heap);
        let at = heap.object(heap.layout.strings.sliced, &[0, parent, smi(from)]);
        heap.length(at, length);
        let units = shape.units();
        let expected: Vec<u16> = units.into_iter().skip(from as usize).take(length).collect();
        prop_assert_eq!(heap.string_at(at), Some(String::from_utf16_lossy(&expected)));
    }

    #[test]
    fn lines_are_counted_as_javascript_ends_them(
        parts in prop::collection::vec(prop::sample::select(vec!["a", "bc", "\n", "\r", "\r\n", "\u{2028}", "\u{2029}", "é"]), 0..30),
        position in 0..80_u32,
    ) {
        let mut heap = Heap::new();
        let source = parts.concat();
        let text = heap.string(&source);
        let script = heap.object(heap.layout.types.script, &[text, 0, 0]);
        let units: Vec<u16> = source.encode_utf16().collect();
        let line = heap.read(&Limits::default(), |objects| objects.line(script, position));
        // The end of `\r\n` is its second character; what ends a line is still on it.
        let ends = |at: usize| match units[at] {
            0x0d => units.get(at + 1) != Some(&0x0a),
            unit => matches!(unit, 0x0a | 0x2028 | 0x2029),
        };
        let expected = (position as usize <= units.len())
            .then(|| 1 + (0..position as usize).filter(|at| ends(*at)).count() as u32);
        prop_assert_eq!(line, expected, "{:?} at {}", source, position);
    }

    #[test]
    fn an_instruction_is_of_the_last_position_before_it(
        rows in prop::collection::vec((0..40_i64, -30..60_i64, any::<bool>()), 1..30),
        asked in 0..600_u32,
    ) {
        let mut heap = Heap::new();
        let (mut table, mut code, mut place) = (Vec::new(), -1_i64, 0_i64);
        let mut expected = None;
        for (number, (steps, by, is_statement)) in rows.iter().enumerate() {
            // The first is of the function's entry, at -1 or behind it; positions are from 1 on.
            let position = if number == 0 { by.abs() + 1 } else { (place + by).max(1) };
            varint(&mut table, if *is_statement { *steps } else { -steps - 1 });
            varint(&mut table, (position << 1) - (place << 1));
            (code, place) = (code + steps, position);
            if code <= i64::from(asked) {
                expected = Some((position - 1) as u32);
            }
        }
        let bytes = heap.object(heap.layout.types.bytes[1], &vec![0; 2 + table.len() / 8 + 1]);
        heap.image.word(bytes - 1 + heap.layout.array_length, smi(table.len() as i64));
        heap.image.put(bytes - 1 + heap.layout.array_data, &table);
        let byte_code = heap.object(heap.layout.types.bytecode, &[0, 0, bytes, 0, 0, 0, 0, 0]);
        let read = heap.read(&Limits::default(), |objects| objects.position(byte_code, asked));
        prop_assert_eq!(read, expected);
        // Cut anywhere it has what is before the cut, and never what is not there.
        for length in 0..table.len() {
            heap.image.word(bytes - 1 + heap.layout.array_length, smi(length as i64));
            let cut = heap.read(&Limits::default(), |objects| objects.position(byte_code, asked));
            prop_assert!(cut.is_none_or(|cut| cut < 2_000), "{:?}", cut);
        }
        heap.image.word(bytes - 1 + heap.layout.array_length, smi(-1));
        prop_assert_eq!(heap.read(&Limits::default(), |objects| objects.position(byte_code, asked)), None);
    }
}

/// `base::VLQEncode`.
fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[test]
fn a_position_outside_of_a_script_is_none_and_an_inlined_one_is_the_same() {
    for (word, expected) in [(2 << 1, Some(1)), (2 << 1 | 1, None), (5 << 31 | 2 << 1, Some(1)), (0, None)] {
        let mut heap = Heap::new();
        let mut table = Vec::new();
        varint(&mut table, 1);
        varint(&mut table, word);
        let bytes = heap.object(heap.layout.types.bytes[0], &[smi(table.len() as i64), 0, 0]);
        heap.image.put(bytes - 1 + heap.layout.array_data, &table);
        let byte_code = heap.object(heap.layout.types.bytecode, &[0, 0, bytes, 0, 0, 0, 0, 0]);
        let read = heap.read(&Limits::default(), |objects| objects.position(byte_code, 0));
        assert_eq!(read, expected, "{word:#x}");
    }
}

#[test]
fn strings_that_lead_to_themselves_have_no_text() {
    let mut heap = Heap::new();
    let strings = heap.layout.strings;
    for kind in [strings.cons, strings.sliced, strings.thin] {
        let at = heap.object(kind, &[0, 0, 0]);
        heap.length(at, 1_000_000);
        heap.image.word(at - 1 + 16, at);
        heap.image.word(at - 1 + 24, if kind == strings.sliced { smi(1) } else { at });
        assert_eq!(heap.string_at(at), None, "{kind}");
    }
}

#[test]
fn what_is_no_string_has_no_text() {
    let mut heap = Heap::new();
    let other = heap.object(heap.layout.strings.first_other, &[smi(3), 0]);
    let negative = heap.string("abc");
    heap.length(negative, usize::MAX);
    let unknown = heap.object(4, &[smi(3), 0]);
    let behind_the_end = heap.object(heap.layout.strings.external, &[0, 0, super::HEAP - 1]);
    heap.length(behind_the_end, 4);
    for word in [0, 1, 2, smi(7), other, negative, unknown, behind_the_end, u64::MAX, u64::MAX - 2] {
        assert_eq!(heap.string_at(word), None, "{word:#x}");
    }
}

#[test]
fn what_may_be_kept_of_texts_ends() {
    let mut heap = Heap::new();
    let name = heap.string("a name of twenty-odd letters");
    let functions: Vec<u64> =
        (0..4).map(|_| heap.object(heap.layout.types.shared, &[0, name, 0, 0])).collect();
    let limits = Limits { texts: 60, ..Limits::default() };
    let read = heap.read(&limits, |objects| {
        functions.iter().map(|one| objects.shared_function(*one).is_some()).collect::<Vec<_>>()
    });
    assert_eq!(read, [true, true, false, false]);
}
