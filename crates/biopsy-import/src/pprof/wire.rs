//! Fields of a protobuf message (protobuf.dev/programming-guides/encoding): a key (`number << 3 | kind`), and a value of that kind.

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};

/// A value as it stands there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// An integer.
    Number(u64),
    /// A text, a message or packed integers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The integer; of anything else 0, as of a field that is not there.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// The same, of a field with a sign: it is stored as 64 bits of two's complement.
    pub(super) fn signed(self) -> i64 {
        self.number().cast_signed()
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The integers of a repeated field, packed or a single one. Ends at the first that cannot be read.
    pub(super) fn numbers(self) -> impl Iterator<Item = u64> + 'a {
        let (single, bytes) = match self {
            Self::Number(number) => (Some(number), &[][..]),
            Self::Bytes(bytes) => (None, bytes),
        };
        let mut packed = Cursor::new(bytes);
        let rest =
            std::iter::from_fn(
                move || {
                    if packed.is_empty() { None } else { packed.varint("packed integer").ok() }
                },
            );
        single.into_iter().chain(rest)
    }
}

/// The fields of a message, one after another. Ends behind the first that cannot be read, which is the last item.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    cursor: Cursor<'a>,
    failed: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(bytes), failed: false }
    }

    fn read(&mut self) -> Result<(u64, Value<'a>), ReadError> {
        let before = self.cursor;
        let key = self.cursor.varint("field key")?;
        let value = match key & 7 {
            0 => Value::Number(self.cursor.varint("integer")?),
            1 => Value::Number(self.cursor.u64("64 bits")?),
            2 => {
                let length = self.cursor.varint_len("length", usize::MAX)?;
                Value::Bytes(self.cursor.take("bytes", length)?)
            }
            5 => Value::Number(u64::from(self.cursor.u32("32 bits")?)),
            // Groups (3, 4) ended with protobuf 2; 6 and 7 do not exist.
            kind => {
                return Err(before.error("field key", ReadErrorKind::Unexpected { expected: 2, found: kind }));
            }
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Number of the field, and its value.
    type Item = Result<(u64, Value<'a>), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.cursor.is_empty() {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        Some(read)
    }
}
