//! Which character of a script an instruction of the interpreter was made of.
//!
//! ```text
//! table:  { steps of code offset, steps of position } ...   each a variable-length number with a sign in its lowest bit;
//!                                                           a negative first one, -n - 1, says: no statement begins here
//! ```
//! Positions are collected lazily: a function of which no error was ever thrown has no table.
//! `src/codegen/source-position-table.cc`.

use super::objects::{Objects, small};

/// Bytes of a table of positions.
const TABLE: usize = 1 << 20;

impl Objects<'_> {
    /// The position in the script of the instruction at `offset` of byte code.
    pub(super) fn position(&self, bytecode: u64, offset: u32) -> Option<u32> {
        let layout = &self.layout;
        // Two of the words before the data refer to tables of bytes: of handlers and of positions. Which is which changed with
        // the wrapper that 12.x puts before them.
        let is_table = |at: &u64| {
            let kind = self.word(bytecode, *at).and_then(|table| self.kind(table));
            kind.is_some_and(|kind| layout.types.bytes.contains(&kind))
        };
        let slot = if layout.places_first { 24 } else { 32 };
        let table = Some(slot).filter(is_table).and_then(|slot| self.word(bytecode, slot))?;
        let length = usize::try_from(small(self.word(table, layout.array_length)?)?).ok()?.min(TABLE);
        let bytes = self.memory.bytes((table - 1).checked_add(layout.array_data)?, length);
        // The lowest bit says that it is a place outside of a script; then an inlined function's number, and the place plus 1.
        let found = u64::try_from(position_before(&bytes, offset)?.1).ok()?;
        let place = (found >> 1) & 0x3fff_ffff;
        if found & 1 != 0 { None } else { u32::try_from(place).ok()?.checked_sub(1) }
    }
}

/// The last position of a table that belongs to an instruction at `offset` or before it, behind where that is.
pub(super) fn position_before(table: &[u8], offset: u32) -> Option<(i64, i64)> {
    let mut rest = table;
    // Before the first instruction is the entry of the function.
    let (mut code, mut position, mut found) = (-1i64, 0i64, None);
    while let Some((steps, by)) = number(&mut rest).zip(number(&mut rest)) {
        code = code.checked_add(if steps < 0 { -(steps + 1) } else { steps })?;
        position = position.checked_add(by)?;
        if code > i64::from(offset) {
            break;
        }
        found = Some((code, position));
    }
    found
}

/// The next number of a table.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let mut bits = 0u64;
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        bits |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((bits >> 1) as i64 ^ -((bits & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `base::VLQEncode`.
    fn write(out: &mut Vec<u8>, value: i64) {
        let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
        while rest >= 0x80 {
            out.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    proptest! {
        #[test]
        fn numbers_are_those_that_were_written(values in prop::collection::vec(i64::from(i32::MIN)..=i64::from(i32::MAX), 0..20)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(&mut bytes, *value));
            let mut rest = bytes.as_slice();
            let read: Vec<i64> = std::iter::from_fn(|| number(&mut rest)).collect();
            prop_assert_eq!(read, values);
        }
    }

    #[test]
    fn numbers_have_a_sign_in_the_lowest_bit_and_end_with_a_small_byte() {
        let mut rest: &[u8] = &[0, 1, 2, 0x81, 0x01, 0xff];
        let all: Vec<_> = std::iter::from_fn(|| number(&mut rest)).collect();
        assert_eq!(all, [0, -1, 1, -65]);
    }
}
