//! Texts of the format: UTF-16 up to a zero in versions 4 and 5, UTF-8 with a length in version 6.

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use std::fmt::{self, Write};

/// A UTF-16 (little-endian) text in a payload, not yet copied.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Reads up to a zero, which is consumed too.
    ///
    /// # Errors
    /// When no zero comes.
    pub fn read(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Self, ReadError> {
        let units = cursor.rest().chunks_exact(2).position(|unit| unit == [0, 0]);
        let Some(units) = units else {
            let found = cursor.remaining() as u64;
            return Err(cursor.error(field, ReadErrorKind::UnexpectedEnd { needed: found + 2, found }));
        };
        let text = Text(cursor.take(field, units * 2)?);
        cursor.skip(field, 2)?;
        Ok(text)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Length in UTF-16 units.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len() / 2
    }

    /// Its bytes: UTF-16, little-endian, without the zero.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Its UTF-16 units.
    pub fn units(self) -> impl Iterator<Item = u16> + 'a {
        self.0.chunks_exact(2).filter_map(|unit| unit.first_chunk().copied().map(u16::from_le_bytes))
    }

    /// Whether it is this text.
    #[must_use]
    pub fn is(self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }

    /// Copies at most `units` UTF-16 units.
    #[must_use]
    pub fn to_string_of(self, units: usize) -> String {
        let mut text = String::with_capacity(self.len().min(units));
        for unit in char::decode_utf16(self.units().take(units)) {
            text.push(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        text
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unit in char::decode_utf16(self.units()) {
            f.write_char(unit.unwrap_or(char::REPLACEMENT_CHARACTER))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// A name in a description of versions 4 and 5, not longer than `limit` bytes.
pub(super) fn name16(
    cursor: &mut Cursor<'_>,
    field: &'static str,
    limit: usize,
) -> Result<String, ReadError> {
    Ok(Text::read(cursor, field)?.to_string_of(limit / 2))
}

/// A text of version 6, of which `limit` bytes are kept.
pub(super) fn text8(cursor: &mut Cursor<'_>, field: &'static str, limit: usize) -> Result<String, ReadError> {
    let length = cursor.varint_count(field, 1)?;
    let bytes = cursor.take(field, length)?;
    Ok(String::from_utf8_lossy(bytes.get(..limit).unwrap_or(bytes)).into_owned())
}
