//! The table of exceptions (3.11 on, Objects/exception_handling_notes.txt): which handler is around an instruction.
//!
//! Entries of four numbers (start, length, handler, depth and a bit), six bits a byte, the most important first; a byte with the top bit set
//! begins an entry. They are in the order of their starts, and the interpreter looks for one by halves; so marks are set every few entries.

/// From one mark to the next: so many entries.
const ENTRIES: usize = 16;
/// Handlers around one instruction.
const NESTED: usize = 64;

/// The table of one function.
#[derive(Clone, Debug)]
pub(super) struct Exceptions {
    table: Vec<u8>,
    /// Where an entry is, by the start of its instructions.
    marks: Vec<(i64, usize)>,
}

/// Instructions with a handler: offsets in bytes.
struct Entry {
    start: i64,
    end: i64,
    handler: i64,
    /// Of the stack, at the handler.
    depth: u64,
}

impl Exceptions {
    /// Entries from the first one on that is not in order are left out.
    pub(super) fn new(mut table: Vec<u8>) -> Self {
        let (mut marks, mut place, mut before, mut count) = (Vec::new(), 0, 0, 0);
        while let Some((entry, next)) = read(&table, place).filter(|(entry, _)| entry.start >= before) {
            if count % ENTRIES == 0 {
                marks.push((entry.start, place));
            }
            (before, place, count) = (entry.start, next, count + 1);
        }
        table.truncate(place);
        Self { table, marks }
    }

    /// Depths of the stack at the handlers that are around an instruction, from the innermost on.
    ///
    /// An instruction has the innermost handler only; that has the next one outwards, with less on the stack.
    pub(super) fn depths(&self, offset: i64) -> Vec<u64> {
        let mut depths: Vec<u64> = Vec::new();
        let mut at = offset;
        for _ in 0..NESTED {
            let (Some(entry), _) = self.find(at) else { break };
            if depths.last().is_none_or(|inner| entry.depth < *inner) {
                depths.push(entry.depth);
            }
            at = entry.handler;
        }
        depths
    }

    /// The entry of an instruction, and how many were looked at.
    fn find(&self, offset: i64) -> (Option<Entry>, usize) {
        let after = self.marks.partition_point(|(start, _)| *start <= offset);
        let first = after.checked_sub(1).and_then(|last| self.marks.get(last));
        let Some((_, mut place)) = first.copied() else { return (None, 0) };
        let mut looked_at = 0;
        while let Some((entry, next)) = read(&self.table, place) {
            looked_at += 1;
            if entry.start > offset {
                break;
            }
            if offset < entry.end {
                return (Some(entry), looked_at);
            }
            place = next;
        }
        (None, looked_at)
    }
}

/// The entry at a place of the table, and the place behind it.
fn read(table: &[u8], place: usize) -> Option<(Entry, usize)> {
    let mut next = place;
    let mut number = || {
        let mut value = 0_i64;
        for _ in 0..5 {
            let byte = *table.get(next)?;
            next += 1;
            value = value << 6 | i64::from(byte & 63);
            if byte & 64 == 0 {
                break;
            }
        }
        Some(value)
    };
    let [start, length, handler, depth] = [number()?, number()?, number()?, number()?];
    let entry = Entry {
        start: start * 2,
        end: (start + length) * 2,
        handler: handler * 2,
        depth: (depth >> 1).cast_unsigned(),
    };
    Some((entry, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `assemble_exception_table` of Python/assemble.c; numbers are of units of two bytes.
    fn table(entries: &[[u64; 4]]) -> Vec<u8> {
        let mut table = Vec::new();
        for entry in entries {
            for (place, number) in entry.iter().enumerate() {
                let digits = (0..5).rev().find(|digit| number >> (6 * digit) != 0).unwrap_or(0);
                for digit in (0..=digits).rev() {
                    let more = if digit > 0 { 64 } else { 0 };
                    let begins = if place == 0 && digit == digits { 128 } else { 0 };
                    table.push((number >> (6 * digit) & 63) as u8 | more | begins);
                }
            }
        }
        table
    }

    #[test]
    fn handlers_lead_outwards() {
        // Instructions 10 to 20 with the handler at 40, that with the one at 60; depths 3 and 1.
        let exceptions = Exceptions::new(table(&[[10, 10, 40, 6], [40, 8, 60, 2], [70, 100, 200, 8]]));
        for (unit, depths) in
            [(9, &[][..]), (10, &[3, 1]), (19, &[3, 1]), (20, &[]), (44, &[1]), (169, &[4]), (170, &[])]
        {
            assert_eq!(exceptions.depths(unit * 2), depths, "{unit}");
        }
        assert!(Exceptions::new(Vec::new()).depths(0).is_empty());
        // A handler that is its own.
        assert_eq!(Exceptions::new(table(&[[0, 9, 4, 2]])).depths(2), [1]);
    }

    #[test]
    fn a_handler_is_looked_for_from_the_last_mark_before_it() {
        let entries: Vec<[u64; 4]> =
            (0..100_000).map(|number| [number * 10, 5, 2_000_000, 2 * number]).collect();
        let exceptions = Exceptions::new(table(&entries));
        for number in [0, 1, 15, 16, 17, 99_999, 54_321] {
            let (entry, looked_at) = exceptions.find(number * 20 + 9);
            assert_eq!(entry.map(|entry| entry.depth), Some(number.cast_unsigned()));
            assert!(looked_at <= ENTRIES, "{number}: {looked_at}");
            assert!(exceptions.find(number * 20 + 10).0.is_none(), "{number}");
        }
    }

    #[test]
    fn what_is_not_in_order_is_left_out() {
        let exceptions = Exceptions::new(table(&[[10, 5, 40, 2], [5, 5, 40, 4], [30, 5, 40, 6]]));
        assert_eq!(
            [exceptions.depths(20), exceptions.depths(10), exceptions.depths(60)],
            [vec![1], vec![], vec![]]
        );
        for bytes in [&[0x7f; 40][..], &[0xff; 40], &[0; 7], &[1, 2, 3]] {
            assert!(Exceptions::new(bytes.to_vec()).depths(i64::MAX).is_empty());
        }
    }
}
