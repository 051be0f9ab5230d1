//! Values of a payload, by the description of its event.

use super::text::Text;
use super::types::{Field, FieldType};
use biopsy_bytes::{Cursor, ReadError};

/// Most steps one payload is looked at with: an array of 65,535 empty objects in another such array must not keep us busy.
const STEPS: u32 = 1 << 18;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Yes or no.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer, a character.
    UInt(u64),
    /// A number.
    Float(f64),
    /// A text.
    Text(Text<'a>),
    /// 16 bytes: GUID, decimal.
    Bytes16([u8; 16]),
    /// Units of 100 ns since 1601-01-01 UTC.
    FileTime(u64),
    /// Fields.
    Object(Values<'a>),
    /// Elements.
    Array(Elements<'a>),
}

impl<'a> Value<'a> {
    /// A text.
    #[must_use]
    pub fn text(&self) -> Option<Text<'a>> {
        match self {
            Value::Text(text) => Some(*text),
            _ => None,
        }
    }

    /// A whole number, or yes and no as 1 and 0.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::UInt(value) | Value::FileTime(value) => i64::try_from(*value).ok(),
            Value::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// A number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for counters: 53 bits are enough")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            Value::Int(value) => Some(*value as f64),
            Value::UInt(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// Calls `each` with every value inside, itself included.
    pub fn visit(self, each: &mut dyn FnMut(&Value<'a>)) {
        // A stack of our own: how deep a payload nests is the writer's choice.
        let mut open = vec![self];
        let mut steps = 0;
        while let Some(value) = open.pop() {
            each(&value);
            steps += 1;
            if steps > STEPS {
                return;
            }
            let room = usize::try_from(STEPS - steps).unwrap_or_default();
            match value {
                Value::Object(fields) => open.extend(fields.map(|(_, value)| value).take(room)),
                Value::Array(elements) => open.extend(elements.take(room)),
                _ => (),
            }
            if open.len() > room {
                return;
            }
        }
    }
}

/// The fields of a payload or object, in order. Ends early where the payload does.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    fields: std::slice::Iter<'a, Field>,
    cursor: Cursor<'a>,
    whole: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn new(fields: &'a [Field], payload: &'a [u8]) -> Self {
        Self { fields: fields.iter(), cursor: Cursor::new(payload), whole: payload }
    }

    /// The field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.clone().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.fields.next()?;
        let mut steps = STEPS;
        match read(&field.kind, &mut self.cursor, self.whole, &mut steps) {
            Ok(value) => Some((&field.name, value)),
            Err(_) => {
                self.fields = [].iter();
                None
            }
        }
    }
}

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    element: &'a FieldType,
    left: u32,
    cursor: Cursor<'a>,
    whole: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The bytes, of an array of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        let left = usize::try_from(self.left).ok()?;
        matches!(self.element, FieldType::UInt(1) | FieldType::Int(1) | FieldType::Char8)
            .then(|| self.cursor.rest().get(..left))
            .flatten()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut steps = STEPS;
        let value = read(self.element, &mut self.cursor, self.whole, &mut steps).ok();
        if value.is_none() {
            self.left = 0;
        }
        value
    }
}

/// Reads a value and moves behind it. Nesting is bounded where descriptions are parsed.
fn read<'a>(
    kind: &'a FieldType,
    cursor: &mut Cursor<'a>,
    whole: &'a [u8],
    steps: &mut u32,
) -> Result<Value<'a>, ReadError> {
    Ok(match kind {
        FieldType::Object(fields) => {
            let value = Values { fields: fields.iter(), cursor: *cursor, whole };
            skip(kind, cursor, steps)?;
            Value::Object(value)
        }
        FieldType::Array(element) => {
            let before = *cursor;
            let left = cursor.u16("array count")?.into();
            let value = Elements { element, left, cursor: *cursor, whole };
            *cursor = before;
            skip(kind, cursor, steps)?;
            Value::Array(value)
        }
        FieldType::FixedArray(element, count) => {
            let value = Elements { element, left: (*count).into(), cursor: *cursor, whole };
            skip(kind, cursor, steps)?;
            Value::Array(value)
        }
        FieldType::RelativeArray(element) => {
            let place = cursor.u32("RelLoc")?;
            // Also of an element that lies elsewhere itself.
            let base = usize::try_from(cursor.offset()).unwrap_or(usize::MAX);
            Value::Array(elsewhere(element, place, base, whole))
        }
        FieldType::AbsoluteArray(element) => {
            Value::Array(elsewhere(element, cursor.u32("DataLoc")?, 0, whole))
        }
        FieldType::Boolean32 => Value::Bool(cursor.u32("Boolean32")? != 0),
        FieldType::Boolean8 => Value::Bool(cursor.u8("Boolean8")? != 0),
        FieldType::Char16 => Value::UInt(cursor.u16("Char")?.into()),
        FieldType::Char8 => Value::UInt(cursor.u8("Char")?.into()),
        FieldType::Int(1) => Value::Int(i8::from_le_bytes(cursor.array("SByte")?).into()),
        FieldType::Int(2) => Value::Int(i16::from_le_bytes(cursor.array("Int16")?).into()),
        FieldType::Int(4) => Value::Int(i32::from_le_bytes(cursor.array("Int32")?).into()),
        FieldType::Int(_) => Value::Int(cursor.i64("Int64")?),
        FieldType::UInt(1) => Value::UInt(cursor.u8("Byte")?.into()),
        FieldType::UInt(2) => Value::UInt(cursor.u16("UInt16")?.into()),
        FieldType::UInt(4) => Value::UInt(cursor.u32("UInt32")?.into()),
        FieldType::UInt(_) => Value::UInt(cursor.u64("UInt64")?),
        FieldType::Single => Value::Float(f32::from_le_bytes(cursor.array("Single")?).into()),
        FieldType::Double => Value::Float(f64::from_le_bytes(cursor.array("Double")?)),
        FieldType::Decimal | FieldType::SystemTime | FieldType::Guid => {
            Value::Bytes16(cursor.array("16 bytes")?)
        }
        FieldType::FileTime => Value::FileTime(cursor.u64("FileTime")?),
        FieldType::Text16 => Value::Text(Text::read(cursor, "text")?),
        FieldType::VarInt => Value::Int(cursor.zigzag("VarInt")?),
        FieldType::VarUInt => Value::UInt(cursor.varint("VarUInt")?),
    })
}

/// An array that lies elsewhere: high 16 bits size in bytes, low 16 bits position after `base`.
fn elsewhere<'a>(element: &'a FieldType, place: u32, base: usize, whole: &'a [u8]) -> Elements<'a> {
    let from = base.saturating_add((place & 0xffff) as usize);
    let size = (place >> 16) as usize;
    let bytes = whole.get(from..from.saturating_add(size)).unwrap_or_default();
    let count = element.size().and_then(|one| bytes.len().checked_div(one)).unwrap_or_default();
    let left = u32::try_from(count).unwrap_or_default();
    Elements { element, left, cursor: Cursor::at(bytes, from as u64), whole }
}

/// Moves behind a value. Recursion is bounded by the depth of the description.
fn skip(kind: &FieldType, cursor: &mut Cursor<'_>, steps: &mut u32) -> Result<(), ReadError> {
    if let Some(size) = kind.size() {
        return cursor.skip("value", size);
    }
    match kind {
        FieldType::Object(fields) => fields.iter().try_for_each(|field| skip(&field.kind, cursor, steps)),
        FieldType::Array(element) => {
            let count = cursor.u16("array count")?;
            skip_elements(element, count, cursor, steps)
        }
        FieldType::FixedArray(element, count) => skip_elements(element, *count, cursor, steps),
        FieldType::Text16 => Text::read(cursor, "text").map(|_| ()),
        _ => cursor.varint("VarInt").map(|_| ()),
    }
}

fn skip_elements(
    element: &FieldType,
    count: u16,
    cursor: &mut Cursor<'_>,
    steps: &mut u32,
) -> Result<(), ReadError> {
    if let Some(size) = element.size() {
        return cursor.skip("elements", size.saturating_mul(count.into()));
    }
    for _ in 0..count {
        *steps = steps.saturating_sub(1);
        if *steps == 0 {
            return Err(cursor.error(
                "elements",
                biopsy_bytes::ReadErrorKind::OverLimit { claimed: count.into(), limit: STEPS.into() },
            ));
        }
        skip(element, cursor, steps)?;
    }
    Ok(())
}
