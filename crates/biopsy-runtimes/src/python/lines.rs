//! Lines by instructions: the three tables that CPython has had.

use super::layout::LineTable;

/// The line of the instruction at `offset` bytes. `first`: the line where the code begins.
pub(super) fn line(kind: LineTable, table: &[u8], first: i32, offset: i64) -> i32 {
    // A frame that has not begun is at its first line.
    let offset = offset.max(0);
    match kind {
        LineTable::Pairs => by_pairs(table, first, offset),
        LineTable::Lengths => by_lengths(table, first, offset),
        LineTable::Locations => by_locations(table, first, offset),
    }
}

/// `co_lnotab` (Objects/lnotab_notes.txt): changes of the address, and of the line with a sign.
fn by_pairs(table: &[u8], first: i32, offset: i64) -> i32 {
    let (mut at, mut line) = (0i64, first);
    for [addresses, lines] in table.as_chunks::<2>().0 {
        at += i64::from(*addresses);
        if at > offset {
            break;
        }
        line = line.wrapping_add(i32::from(lines.cast_signed()));
    }
    line
}

/// `co_linetable` of 3.10: lengths, and changes of the line with a sign; -128 has no line.
fn by_lengths(table: &[u8], first: i32, offset: i64) -> i32 {
    let (mut at, mut line) = (0i64, first);
    for [length, lines] in table.as_chunks::<2>().0 {
        let change = lines.cast_signed();
        if change != i8::MIN {
            line = line.wrapping_add(change.into());
        }
        at += i64::from(*length);
        if offset < at {
            break;
        }
    }
    line
}

/// The location table (Objects/locations.md): a byte `1 kind:4 length - 1:3`, then bytes without the top bit. Kinds 10 to 12 change
/// the line by 0 to 2, 13 and 14 by a number, 15 has none; the lengths are in units of two bytes.
fn by_locations(table: &[u8], first: i32, offset: i64) -> i32 {
    let (mut at, mut line) = (0i64, first);
    let mut rest = table;
    while let Some((head, behind)) = rest.split_first() {
        let change = match head >> 3 & 15 {
            kind @ 10..=12 => i32::from(kind) - 10,
            13 | 14 => signed(behind),
            _ => 0,
        };
        line = line.wrapping_add(change);
        at += (i64::from(head & 7) + 1) * 2;
        if offset < at {
            break;
        }
        let next = behind.iter().position(|byte| byte & 0x80 != 0).unwrap_or(behind.len());
        rest = behind.get(next..).unwrap_or_default();
    }
    line
}

/// Six bits a byte, the least first; the lowest bit of the number is its sign.
fn signed(bytes: &[u8]) -> i32 {
    let value = number(bytes).unwrap_or(0);
    let size = (value >> 1) as i32;
    if value & 1 == 1 { -size } else { size }
}

fn number(bytes: &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for (byte, shift) in bytes.iter().zip((0..30).step_by(6)) {
        value |= u32::from(byte & 63) << shift;
        if byte & 64 == 0 {
            break;
        }
    }
    (!bytes.is_empty()).then_some(value)
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::{LineTable, line};

    #[test]
    fn changes_of_address_and_line() {
        // 6 bytes of line 10, then line 11 for 50 bytes, then back to line 9.
        let table = [6, 1, 50, (-2i8).cast_unsigned()];
        let at = |offset| line(LineTable::Pairs, &table, 10, offset);
        assert_eq!([at(-1), at(0), at(5), at(6), at(55), at(56), at(900)], [10, 10, 10, 11, 11, 9, 9]);
    }

    #[test]
    fn lengths_and_changes_of_line() {
        let table = [4, 1, 2, 0x80, 4, 2];
        let at = |offset| line(LineTable::Lengths, &table, 1, offset);
        assert_eq!([at(0), at(3), at(4), at(6), at(9)], [2, 2, 2, 4, 4]);
    }

    #[test]
    fn locations() {
        // Kind 11 (one line further), 2 units, columns; kind 0 (same line), 1 unit; kind 13 (-2 lines), 1 unit; kind 15, 1 unit.
        let table = [0x80 | 11 << 3 | 1, 1, 2, 0x80, 3, 0x80 | 13 << 3, 5, 0x80 | 15 << 3];
        let at = |offset| line(LineTable::Locations, &table, 7, offset);
        assert_eq!([at(-2), at(0), at(3), at(4), at(6), at(8), at(80)], [8, 8, 8, 8, 6, 6, 6]);
    }

    #[test]
    fn any_table_has_an_answer() {
        for table in [&[][..], &[0x80], &[0xff; 9], &[0x7f; 40], &[0xe8, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f]]
        {
            for kind in [LineTable::Pairs, LineTable::Lengths, LineTable::Locations] {
                let _ = line(kind, table, i32::MAX, 1_000_000);
            }
        }
    }
}
