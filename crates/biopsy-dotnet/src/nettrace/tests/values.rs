//! Payloads of any description, written and read back.

use std::fmt::Write;

use super::*;

/// Kinds of fields that a version can describe.
fn kinds(version: u32) -> impl Strategy<Value = FieldType> {
    use FieldType::*;
    let mut plain = vec![Boolean32, Boolean8, Char16, Single, Double, Decimal, Guid, Text16];
    plain.extend([1, 2, 4, 8].into_iter().flat_map(|bytes| [Int(bytes), UInt(bytes)]));
    plain.extend(if version < 6 { vec![FileTime] } else { vec![SystemTime, Char8, VarInt, VarUInt] });
    prop::sample::select(plain).prop_recursive(3, 12, 3, move |inner| {
        let object = prop::collection::vec(inner.clone(), 0..4).prop_map(|kinds| Object(named(kinds)));
        let array = inner.clone().prop_map(|kind| Array(Box::new(kind)));
        let fixed = (inner, 0_u16..4).prop_map(|(kind, count)| FixedArray(Box::new(kind), count));
        match version {
            4 => object.boxed(),
            5 => prop_oneof![object, array].boxed(),
            _ => prop_oneof![object, array, fixed].boxed(),
        }
    })
}

fn named(kinds: Vec<FieldType>) -> Vec<Field> {
    kinds.into_iter().enumerate().map(|(number, kind)| field(&format!("f{number}"), kind)).collect()
}

/// Writes a value made of `source`, and how it is shown.
fn write(kind: &FieldType, source: &mut impl Iterator<Item = u8>, out: &mut Vec<u8>, shown: &mut String) {
    let mut bytes = |count: usize| -> Vec<u8> { source.by_ref().take(count).collect() };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    match kind {
        FieldType::Object(fields) => {
            shown.push('{');
            fields.iter().for_each(|field| write(&field.kind, source, out, shown));
            shown.push('}');
        }
        FieldType::Array(element) => {
            let count = u16::from(source.next().unwrap_or(0) % 4);
            out.extend(count.to_le_bytes());
            write(&FieldType::FixedArray(element.clone(), count), source, out, shown);
        }
        FieldType::FixedArray(element, count) => {
            shown.push('[');
            (0..*count).for_each(|_| write(element, source, out, shown));
            shown.push(']');
        }
        FieldType::Text16 => {
            let text: String = bytes(3).iter().map(|byte| char::from(byte % 90 + 32)).collect();
            text16(out, &text);
            let _ = write!(shown, "{text:?},");
        }
        FieldType::VarInt | FieldType::VarUInt => {
            let number = number(&bytes(8));
            biopsy_bytes::put_varint(out, number);
            let zigzag = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
            let is_signed = *kind == FieldType::VarInt;
            let _ = if is_signed { write!(shown, "{zigzag},") } else { write!(shown, "{number},") };
        }
        plain => {
            let bytes = bytes(plain.size().expect("a plain kind"));
            let (number, bits) = (number(&bytes[..bytes.len().min(8)]), 64 - 8 * bytes.len().min(8));
            let _ = match plain {
                FieldType::Boolean32 | FieldType::Boolean8 => write!(shown, "{},", number != 0),
                FieldType::Int(_) => write!(shown, "{},", (number << bits).cast_signed() >> bits),
                FieldType::Single => {
                    write!(shown, "{:x},", f64::from(f32::from_bits(number as u32)).to_bits())
                }
                FieldType::Double => write!(shown, "{number:x},"),
                FieldType::Decimal | FieldType::Guid | FieldType::SystemTime => write!(shown, "{bytes:?},"),
                _ => write!(shown, "{number},"),
            };
            out.extend(bytes);
        }
    }
}

fn show(value: &Value<'_>, shown: &mut String) {
    let _ = match value {
        Value::Bool(value) => write!(shown, "{value},"),
        Value::Int(value) => write!(shown, "{value},"),
        Value::UInt(value) | Value::FileTime(value) => write!(shown, "{value},"),
        Value::Float(value) => write!(shown, "{:x},", value.to_bits()),
        Value::Text(text) => write!(shown, "{:?},", text.to_string()),
        Value::Bytes16(bytes) => write!(shown, "{bytes:?},"),
        Value::Object(fields) => {
            shown.push('{');
            fields.clone().for_each(|(_, value)| show(&value, shown));
            write!(shown, "}}")
        }
        Value::Array(elements) => {
            shown.push('[');
            elements.clone().for_each(|value| show(&value, shown));
            write!(shown, "]")
        }
    };
}

fn payloads() -> impl Strategy<Value = (u32, Vec<Field>, Vec<u8>)> {
    (4_u32..7).prop_flat_map(|version| {
        let kinds = prop::collection::vec(kinds(version), 0..5).prop_map(named);
        (Just(version), kinds, prop::collection::vec(any::<u8>(), 1..60))
    })
}

proptest! {
    #[test]
    fn every_value_comes_back((version, fields, source) in payloads(), cut: prop::sample::Index) {
        // Not a number: its bits may change on the way through a wider one.
        let source: Vec<u8> = source.into_iter().map(|byte| byte & 0xbf).collect();
        let mut source = source.iter().copied().cycle();
        let (mut payload, mut wanted) = (Vec::new(), String::new());
        fields.iter().for_each(|field| write(&field.kind, &mut source, &mut payload, &mut wanted));
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, fields.clone()))]);
        let shorter = payload[..cut.index(payload.len() + 1)].to_vec();
        writer.events(&[EventRow { payload, ..row(1, 1, 1, 5) }, EventRow { payload: shorter, ..row(1, 2, 1, 6) }], true);
        let bytes = writer.finish();
        let mut reader = open(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        prop_assert_eq!(&event.metadata.fields, &fields);
        let mut shown = String::new();
        event.values().for_each(|(_, value)| show(&value, &mut shown));
        prop_assert_eq!(&shown, &wanted);
        // What is cut off is left out, and nothing else is made of what is there.
        let event = reader.next_event().unwrap().unwrap();
        let mut shown = String::new();
        event.values().for_each(|(_, value)| show(&value, &mut shown));
        prop_assert!(wanted.starts_with(&shown), "{} of {}", shown, wanted);
    }
}

#[test]
fn arrays_elsewhere_are_within_the_payload_or_empty() {
    let elements = |kind: FieldType, place: u32, behind: &[u8]| {
        let fields = vec![field("list", FieldType::AbsoluteArray(Box::new(kind)))];
        let mut writer = Writer::new(6);
        writer.metadata(&[(1, &metadata("App", 1, fields))]);
        let payload = [&place.to_le_bytes()[..], behind].concat();
        writer.events(&[EventRow { payload, ..row(1, 1, 1, 5) }], true);
        let bytes = writer.finish();
        let mut reader = open(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        match event.values().get("list") {
            Some(Value::Array(list)) => list.filter_map(|one| one.int()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let words = FieldType::UInt(2);
    assert_eq!(elements(words.clone(), 4 << 16 | 4, &[1, 0, 2, 0]), [1, 2]);
    assert_eq!(elements(words.clone(), 3 << 16 | 4, &[1, 0, 2, 0]), [1], "half an element is none");
    for place in [5 << 16 | 4, 4 << 16 | 5, u32::MAX, 0xffff, 4 << 16 | 8] {
        assert!(elements(words.clone(), place, &[1, 0, 2, 0]).is_empty(), "{place:#x}");
    }
    // Elements without size would be without number.
    assert!(elements(FieldType::Object(Vec::new()), 4 << 16 | 4, &[0; 4]).is_empty());
    assert!(elements(FieldType::Text16, 4 << 16 | 4, &[0; 4]).is_empty());
}

/// An array elsewhere whose elements have arrays of their own, each behind its own place.
#[test]
fn arrays_of_elements_that_lie_elsewhere_are_behind_the_place_of_each() {
    let inner = FieldType::RelativeArray(Box::new(FieldType::UInt(1)));
    let element = FieldType::Object(vec![field("inner", inner)]);
    let fields = vec![field("list", FieldType::AbsoluteArray(Box::new(element)))];
    let mut writer = Writer::new(6);
    writer.metadata(&[(1, &metadata("App", 1, fields))]);
    // At 4 and 8 two elements; what they mean is at 12 and at 14.
    let words = [8_u32 << 16 | 4, 2 << 16 | 4, 1 << 16 | 2];
    let payload = [words.map(u32::to_le_bytes).concat(), vec![10, 11, 20]].concat();
    writer.events(&[EventRow { payload, ..row(1, 1, 1, 5) }], true);
    let bytes = writer.finish();
    let mut reader = open(&bytes);
    let event = reader.next_event().unwrap().unwrap();
    let mut numbers = Vec::new();
    event.values().for_each(|(_, value)| value.visit(&mut |value| numbers.extend(value.int())));
    // The last one first: what is inside comes from a stack.
    assert_eq!(numbers, [20, 11, 10]);
}

/// 65,535 empty objects in each of 65,535 elements.
#[test]
fn a_payload_of_nothing_keeps_nobody_busy() {
    let empty = FieldType::FixedArray(Box::new(FieldType::Object(Vec::new())), u16::MAX);
    let nested = FieldType::FixedArray(Box::new(empty), u16::MAX);
    let mut writer = Writer::new(6);
    writer.metadata(&[(1, &metadata("App", 1, vec![field("list", nested)]))]);
    writer.events(&[row(1, 1, 1, 5)], true);
    let bytes = writer.finish();
    let mut reader = open(&bytes);
    let event = reader.next_event().unwrap().unwrap();
    let mut seen = 0_u32;
    event.values().for_each(|(_, value)| value.visit(&mut |_| seen += 1));
    assert!(seen <= (1 << 18) + 1, "{seen}");
}
