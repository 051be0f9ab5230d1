//! The cursor.

use crate::error::{ReadError, ReadErrorKind};
use crate::varint::{MAX_VARINT_LEN, unzigzag};

/// Reads a byte slice from front to back. A failed read leaves the cursor where it was.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    /// Absolute offset of the first byte of `rest`.
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor over a whole file.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// A cursor over a part that begins at `base` in its file.
    #[must_use]
    pub fn at(bytes: &'a [u8], base: u64) -> Self {
        Self { rest: bytes, offset: base }
    }

    /// Absolute offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that remain.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing remains.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What remains, without moving.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], ReadError> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                self.offset = self.offset.saturating_add(count as u64);
                Ok(taken)
            }
            None => Err(self.end(field, count as u64)),
        }
    }

    /// A cursor limited to the next `count` bytes; this one moves behind them. What a structure claims as its size
    /// bounds all that is read inside it.
    #[inline]
    pub fn sub(&mut self, field: &'static str, count: usize) -> Result<Cursor<'a>, ReadError> {
        let offset = self.offset;
        Ok(Cursor { rest: self.take(field, count)?, offset })
    }

    /// Moves on by `count` bytes.
    pub fn skip(&mut self, field: &'static str, count: usize) -> Result<(), ReadError> {
        self.take(field, count).map(|_| ())
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, ReadError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// A little-endian `u16`.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, ReadError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A little-endian `u32`.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, ReadError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, ReadError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A little-endian `i64`.
    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Result<i64, ReadError> {
        self.array(field).map(i64::from_le_bytes)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ReadError> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                self.offset = self.offset.saturating_add(N as u64);
                Ok(*taken)
            }
            None => Err(self.end(field, N as u64)),
        }
    }

    /// A LEB128 integer of at most 64 bits. Padded forms (`80 00` for 0) are read; more than ten bytes are not.
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<u64, ReadError> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().take(MAX_VARINT_LEN).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte carries bit 63 only.
            if index == MAX_VARINT_LEN - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                self.offset = self.offset.saturating_add(index as u64 + 1);
                return Ok(value);
            }
        }
        if self.rest.len() < MAX_VARINT_LEN {
            Err(self.end(field, self.rest.len() as u64 + 1))
        } else {
            Err(self.error(field, ReadErrorKind::VarintTooLong))
        }
    }

    /// A zigzag-mapped LEB128 integer.
    #[inline]
    pub fn zigzag(&mut self, field: &'static str) -> Result<i64, ReadError> {
        self.varint(field).map(unzigzag)
    }

    /// A LEB128 integer that must fit 32 bits.
    #[inline]
    pub fn varint_u32(&mut self, field: &'static str) -> Result<u32, ReadError> {
        let before = *self;
        let value = self.varint(field)?;
        u32::try_from(value).map_err(|_| {
            *self = before;
            self.error(field, ReadErrorKind::OverLimit { claimed: value, limit: u64::from(u32::MAX) })
        })
    }

    /// A length or count: at most `limit`, checked before anybody allocates for it.
    #[inline]
    pub fn varint_len(&mut self, field: &'static str, limit: usize) -> Result<usize, ReadError> {
        let before = *self;
        let claimed = self.varint(field)?;
        match usize::try_from(claimed) {
            Ok(length) if length <= limit => Ok(length),
            Ok(_) | Err(_) => {
                *self = before;
                Err(self.error(field, ReadErrorKind::OverLimit { claimed, limit: limit as u64 }))
            }
        }
    }

    /// A number of elements of at least `element_size` bytes each, which must fit what remains: a hostile count
    /// cannot make the reader allocate more than a constant times the size of the input.
    pub fn varint_count(&mut self, field: &'static str, element_size: usize) -> Result<usize, ReadError> {
        let before = *self;
        let claimed = self.varint(field)?;
        let limit = self.rest.len().checked_div(element_size).unwrap_or(self.rest.len());
        match usize::try_from(claimed) {
            Ok(count) if count <= limit => Ok(count),
            Ok(_) | Err(_) => {
                *self = before;
                Err(self.error(field, ReadErrorKind::OverLimit { claimed, limit: limit as u64 }))
            }
        }
    }

    /// A `u32` that must be `expected` (a magic number).
    pub fn expect_u32(&mut self, field: &'static str, expected: u32) -> Result<(), ReadError> {
        let before = *self;
        let found = self.u32(field)?;
        if found == expected {
            return Ok(());
        }
        *self = before;
        Err(self.error(field, ReadErrorKind::Unexpected { expected: expected.into(), found: found.into() }))
    }

    /// An error about the field at the present position, for checks the caller makes.
    #[must_use]
    pub fn error(&self, field: &'static str, kind: ReadErrorKind) -> ReadError {
        ReadError { field, offset: self.offset, kind }
    }

    #[cold]
    fn end(&self, field: &'static str, needed: u64) -> ReadError {
        self.error(field, ReadErrorKind::UnexpectedEnd { needed, found: self.rest.len() as u64 })
    }
}

#[cfg(test)]
mod tests;
