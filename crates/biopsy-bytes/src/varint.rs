//! LEB128 variable-length integers and the zigzag mapping of signed ones, as protobuf and DWARF use them.

/// Longest encoding of a 64-bit value.
pub const MAX_VARINT_LEN: usize = 10;

/// Appends `value` in LEB128: seven bits a byte, low bits first, high bit set on all but the last byte.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low seven bits are what is wanted")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed value, zigzag-mapped so that small magnitudes stay short.
#[inline]
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Maps 0, -1, 1, -2 ... to 0, 1, 2, 3 ...
#[inline]
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
#[inline]
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
