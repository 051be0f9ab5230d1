//! Types of payload fields, as a stream describes its own events.

use super::limits::Limits;
use super::text::{name16, text8};
use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};

/// Deepest nesting that is read. Objects in arrays of objects are 4; parsing recurses no deeper than this.
const DEPTH: u32 = 8;

/// A field of a payload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// Its name; may be empty.
    pub name: String,
    /// How it is written.
    pub kind: FieldType,
}

/// How a value is written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FieldType {
    /// Its fields, one after the other.
    Object(Vec<Field>),
    /// Four bytes, 0 or 1.
    Boolean32,
    /// One byte, 0 or 1.
    Boolean8,
    /// A UTF-16 unit.
    Char16,
    /// A UTF-8 unit.
    Char8,
    /// A signed integer of so many bytes.
    Int(u8),
    /// An unsigned integer of so many bytes.
    UInt(u8),
    /// IEEE 754 of four bytes.
    Single,
    /// IEEE 754 of eight bytes.
    Double,
    /// 16 bytes.
    Decimal,
    /// Units of 100 ns since 1601-01-01 UTC, eight bytes.
    FileTime,
    /// Year to millisecond, eight numbers of two bytes (version 6).
    SystemTime,
    /// 16 bytes.
    Guid,
    /// UTF-16 up to a zero.
    Text16,
    /// Two bytes of count, then the elements.
    Array(Box<FieldType>),
    /// So many elements.
    FixedArray(Box<FieldType>, u16),
    /// Position behind this field, and size in bytes, of an array elsewhere in the payload.
    RelativeArray(Box<FieldType>),
    /// Position in the payload, and size in bytes, of an array.
    AbsoluteArray(Box<FieldType>),
    /// Zigzag and LEB128.
    VarInt,
    /// LEB128.
    VarUInt,
}

impl FieldType {
    /// Bytes, where they are always the same.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            FieldType::Boolean8 | FieldType::Char8 => Some(1),
            FieldType::Char16 => Some(2),
            FieldType::Boolean32 | FieldType::Single => Some(4),
            FieldType::Double | FieldType::FileTime => Some(8),
            FieldType::Decimal | FieldType::SystemTime | FieldType::Guid => Some(16),
            FieldType::Int(bytes) | FieldType::UInt(bytes) => Some(usize::from(*bytes)),
            FieldType::RelativeArray(_) | FieldType::AbsoluteArray(_) => Some(4),
            FieldType::FixedArray(element, count) => element.size()?.checked_mul(usize::from(*count)),
            FieldType::Object(fields) => {
                fields.iter().try_fold(0_usize, |sum, field| sum.checked_add(field.kind.size()?))
            }
            FieldType::Text16 | FieldType::Array(_) | FieldType::VarInt | FieldType::VarUInt => None,
        }
    }
}

/// Which of the three ways a description is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// Versions 4 and 5: type, then name.
    First,
    /// The `V2Params` tag of versions 4 and 5: size, name, type.
    Second,
    /// Version 6: the same in fewer bytes.
    Sixth,
}

/// A parser of field lists; counts what it makes.
#[derive(Debug)]
pub(super) struct TypeParser<'l> {
    dialect: Dialect,
    limits: &'l Limits,
    made: usize,
}

impl<'l> TypeParser<'l> {
    pub(super) fn new(dialect: Dialect, limits: &'l Limits) -> Self {
        Self { dialect, limits, made: 0 }
    }

    pub(super) fn fields(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Field>, ReadError> {
        self.fields_at(cursor, 0)
    }

    fn fields_at(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Result<Vec<Field>, ReadError> {
        let count = match self.dialect {
            Dialect::First | Dialect::Second => cursor.u32("FieldCount")?,
            Dialect::Sixth => cursor.u16("Count")?.into(),
        };
        let mut fields = Vec::new();
        for _ in 0..count {
            self.made += 1;
            if self.made > self.limits.fields {
                let limit = self.limits.fields as u64;
                return Err(
                    cursor.error("FieldCount", ReadErrorKind::OverLimit { claimed: count.into(), limit })
                );
            }
            fields.push(match self.dialect {
                Dialect::First => {
                    let kind = self.kind(cursor, depth)?;
                    Field { kind, name: name16(cursor, "FieldName", self.limits.text)? }
                }
                Dialect::Second => {
                    let size = cursor.u32("Size")?;
                    let rest = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(4);
                    let mut cursor = cursor.sub("field", rest)?;
                    let name = name16(&mut cursor, "FieldName", self.limits.text)?;
                    Field { name, kind: self.kind(&mut cursor, depth)? }
                }
                Dialect::Sixth => {
                    let size = cursor.u16("FieldSize")?;
                    let mut cursor = cursor.sub("field", size.into())?;
                    let name = text8(&mut cursor, "FieldName", self.limits.text)?;
                    Field { name, kind: self.kind(&mut cursor, depth)? }
                }
            });
        }
        Ok(fields)
    }

    fn kind(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Result<FieldType, ReadError> {
        if depth >= DEPTH {
            let kind = ReadErrorKind::OverLimit { claimed: (depth + 1).into(), limit: DEPTH.into() };
            return Err(cursor.error("nesting", kind));
        }
        let before = *cursor;
        let code = match self.dialect {
            Dialect::First | Dialect::Second => cursor.u32("TypeCode")?,
            Dialect::Sixth => cursor.u8("TypeCode")?.into(),
        };
        let sixth = self.dialect == Dialect::Sixth;
        Ok(match code {
            1 => FieldType::Object(self.fields_at(cursor, depth + 1)?),
            3 => FieldType::Boolean32,
            4 => FieldType::Char16,
            5 => FieldType::Int(1),
            6 => FieldType::UInt(1),
            7 => FieldType::Int(2),
            8 => FieldType::UInt(2),
            9 => FieldType::Int(4),
            10 => FieldType::UInt(4),
            11 => FieldType::Int(8),
            12 => FieldType::UInt(8),
            13 => FieldType::Single,
            14 => FieldType::Double,
            15 => FieldType::Decimal,
            16 if sixth => FieldType::SystemTime,
            16 => FieldType::FileTime,
            17 => FieldType::Guid,
            18 => FieldType::Text16,
            19 if self.dialect != Dialect::First => FieldType::Array(self.element(cursor, depth)?),
            20 if sixth => FieldType::VarInt,
            21 if sixth => FieldType::VarUInt,
            22 if sixth => {
                let element = self.element(cursor, depth)?;
                FieldType::FixedArray(element, cursor.u16("ElementCount")?)
            }
            23 if sixth => FieldType::Char8,
            24 if sixth => FieldType::RelativeArray(self.element(cursor, depth)?),
            25 if sixth => FieldType::AbsoluteArray(self.element(cursor, depth)?),
            26 => FieldType::Boolean8,
            other => {
                let kind = ReadErrorKind::Unexpected { expected: 1, found: other.into() };
                return Err(before.error("TypeCode", kind));
            }
        })
    }

    fn element(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Result<Box<FieldType>, ReadError> {
        self.kind(cursor, depth + 1).map(Box::new)
    }
}
