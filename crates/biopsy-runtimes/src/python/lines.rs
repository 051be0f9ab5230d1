//! Lines by instructions: the three tables that CPython has had.
//!
//! A table is gone through once, and marks are set on the way: a line far behind is looked for from the last mark before it. Many frames of one
//! large function would else go through all of its table each.

use super::layout::LineTable;

/// From one mark to the next: so many entries, or bytes, whichever comes first. A mark is 24 bytes.
const ENTRIES: usize = 64;
const BYTES: usize = 512;

/// The lines of one function.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    kind: LineTable,
    table: Vec<u8>,
    /// By `offset`; there is one at the beginning and one at the end.
    marks: Vec<Mark>,
}

/// What is known before the entry at a place in the table.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Where the instructions of that entry begin, in bytes.
    offset: i64,
    line: i32,
    place: usize,
}

impl Lines {
    /// `first`: the line where the code begins.
    pub(super) fn new(kind: LineTable, table: Vec<u8>, first: i32) -> Self {
        let mut at = Mark { offset: 0, line: first, place: 0 };
        let mut marks = vec![at];
        let mut since = 0;
        while let Some(entry) = Entry::read(kind, table.get(at.place..).unwrap_or_default()) {
            at.line = at.line.wrapping_add(entry.change);
            at.offset += entry.length;
            at.place += Entry::bytes(kind, table.get(at.place..).unwrap_or_default());
            since += 1;
            if since >= ENTRIES || marks.last().is_none_or(|last| at.place - last.place >= BYTES) {
                marks.push(at);
                since = 0;
            }
        }
        marks.push(at);
        Self { kind, table, marks }
    }

    /// The line of the instruction at `offset` bytes.
    pub(super) fn line(&self, offset: i64) -> i32 {
        self.walk(offset).0
    }

    /// With how many entries were looked at.
    fn walk(&self, offset: i64) -> (i32, usize) {
        // A frame that has not begun is at its first line.
        let offset = offset.max(0);
        // What is before a mark ends there at the latest.
        let after = self.marks.partition_point(|mark| mark.offset <= offset);
        let Some(mut at) = after.checked_sub(1).and_then(|last| self.marks.get(last)).copied() else {
            return (0, 0);
        };
        let mut entries = 0;
        loop {
            let rest = self.table.get(at.place..).unwrap_or_default();
            let Some(entry) = Entry::read(self.kind, rest) else { break };
            entries += 1;
            let line = at.line.wrapping_add(entry.change);
            at.offset += entry.length;
            match self.kind {
                // The line changes behind the instructions of the entry.
                LineTable::Pairs if offset < at.offset => break,
                LineTable::Pairs => at.line = line,
                LineTable::Lengths | LineTable::Locations => {
                    at.line = line;
                    if offset < at.offset {
                        break;
                    }
                }
            }
            at.place += Entry::bytes(self.kind, rest);
        }
        (at.line, entries)
    }
}

/// Instructions that have a line.
struct Entry {
    /// In bytes.
    length: i64,
    change: i32,
}

impl Entry {
    /// The first entry of what is left of a table.
    fn read(kind: LineTable, rest: &[u8]) -> Option<Self> {
        match kind {
            // `co_lnotab` (Objects/lnotab_notes.txt): changes of the address, and of the line with a sign.
            LineTable::Pairs => {
                let [addresses, lines] = *rest.first_chunk::<2>()?;
                Some(Self { length: addresses.into(), change: lines.cast_signed().into() })
            }
            // `co_linetable` of 3.10: lengths, and changes of the line with a sign; -128 has no line.
            LineTable::Lengths => {
                let [length, lines] = *rest.first_chunk::<2>()?;
                let change = lines.cast_signed();
                let change = if change == i8::MIN { 0 } else { change.into() };
                Some(Self { length: length.into(), change })
            }
            // The location table (Objects/locations.md): a byte `1 kind:4 length - 1:3`, then bytes without the top bit. Kinds 10 to 12
            // change the line by 0 to 2, 13 and 14 by a number, 15 has none; the lengths are in units of two bytes.
            LineTable::Locations => {
                let (head, behind) = rest.split_first()?;
                let change = match head >> 3 & 15 {
                    kind @ 10..=12 => i32::from(kind) - 10,
                    13 | 14 => signed(behind),
                    _ => 0,
                };
                Some(Self { length: (i64::from(head & 7) + 1) * 2, change })
            }
        }
    }

    /// How many bytes of the table the first entry takes.
    fn bytes(kind: LineTable, rest: &[u8]) -> usize {
        match kind {
            LineTable::Pairs | LineTable::Lengths => 2,
            LineTable::Locations => {
                let next = rest.iter().skip(1).position(|byte| byte & 0x80 != 0);
                next.map_or(rest.len(), |next| next + 1)
            }
        }
    }
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
    use super::*;

    /// As `Lines::line`, of a table that is looked at once.
    fn line(kind: LineTable, table: &[u8], first: i32, offset: i64) -> i32 {
        Lines::new(kind, table.to_vec(), first).line(offset)
    }

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

    /// However long a table is, and however long one of its entries.
    #[test]
    fn a_line_is_looked_for_from_the_last_mark_before_it() {
        let many = [2, 1].repeat(100_000);
        let mut long = vec![0x80 | 11 << 3];
        long.extend([0; 100_000]);
        long.extend([0x80 | 11 << 3].repeat(10_000));
        for (kind, table, last) in [
            (LineTable::Pairs, many.clone(), 200_000),
            (LineTable::Lengths, many, 200_000),
            (LineTable::Locations, long, 20_002),
        ] {
            let lines = Lines::new(kind, table, 0);
            for offset in [0, 1, 2, 3, 777, last / 2, last - 1, last, last * 9] {
                let (line, entries) = lines.walk(offset);
                let expected = match kind {
                    LineTable::Pairs => (offset / 2).min(last / 2),
                    LineTable::Lengths | LineTable::Locations => (offset / 2 + 1).min(last / 2),
                };
                assert_eq!(i64::from(line), expected, "{kind:?} at {offset}");
                assert!(entries <= ENTRIES + 1, "{kind:?} at {offset}: {entries}");
            }
        }
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
