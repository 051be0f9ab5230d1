//! Columns that are aligned by blanks: the values below a name in a header of `ps`, `kubectl` and their kin.

use std::ops::Range;

use crate::rows::line_at;
use crate::value::Value;

/// Fewest blanks between two columns.
const GAP_MIN: usize = 2;
/// Most rows that are read.
const ROWS_MAX: usize = 512;
/// Longest name of a column, in bytes.
const NAME_MAX: usize = 32;

/// Values in the column below a name, if the line it stands in is a header.
pub(crate) fn below(text: &[u8], name: &Range<usize>) -> Vec<Value> {
    column(text, name).unwrap_or_default()
}

fn column(text: &[u8], name: &Range<usize>) -> Option<Vec<Value>> {
    let line = line_at(text, name.start)?;
    let gap_behind = text[name.end..line.end].iter().take_while(|b| **b == b' ').count();
    let gap_before = text[line.start..name.start].iter().rev().take_while(|b| **b == b' ').count();
    let begins = line.start + gap_before == name.start || gap_before >= GAP_MIN;
    let ends = name.end + gap_behind == line.end || gap_behind >= GAP_MIN;
    if !begins || !ends || !is_header(&text[line.clone()]) {
        return None;
    }
    let at = name.start - line.start;
    // The value may be longer than its name, up to the next column.
    let limit = (name.end + gap_behind < line.end).then(|| name.end + gap_behind - line.start);
    let (mut index, mut columns) = (0, 0);
    for cell in cells(&text[line.clone()]) {
        index += usize::from(cell.end <= at);
        columns += 1;
    }
    let mut values = Vec::new();
    let mut from = line.end + 1;
    for _ in 0..ROWS_MAX {
        let Some(row) = line_at(text, from).filter(|row| row.len() > at) else { break };
        from = row.end + 1;
        let bytes = text[row.clone()].trim_ascii_end();
        // A ruler below the header: `----  ----`.
        if bytes.iter().all(|b| matches!(b, b'-' | b'=' | b' ' | b'+')) {
            continue;
        }
        let is_aligned = bytes.get(at).is_some_and(|b| !b.is_ascii_whitespace())
            && (at == 0 || bytes[at - 1] == b' ')
            && bytes.len() > at;
        if !is_aligned {
            // A row whose cells have outgrown their columns.
            let Some(cell) = cell_of(bytes, index, columns) else { break };
            values.push(Value {
                range: row.start + cell.start..row.start + cell.end,
                quoted: true,
                open: false,
                wrap: None,
            });
            continue;
        }
        let length = bytes[at..].iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len() - at);
        let fits = limit.is_none_or(|limit| at + length < limit);
        let is_alone = bytes[at + length..].is_empty() || bytes[at + length..].starts_with(b" ");
        if fits && is_alone {
            let start = row.start + at;
            values.push(Value { range: start..start + length, quoted: true, open: false, wrap: None });
        }
    }
    Some(values)
}

/// The cells of a line: what two or more blanks separate.
fn cells(line: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = line.iter().take_while(|b| **b == b' ').count();
    while start < line.len() {
        let end = memchr::memmem::find(&line[start..], b"  ").map_or(line.len(), |end| start + end);
        found.push(start..end);
        start = end + line[end..].iter().take_while(|b| **b == b' ').count();
    }
    found
}

/// The cell of a column in a row that has as many cells as its header, if it is one word.
fn cell_of(row: &[u8], index: usize, columns: usize) -> Option<Range<usize>> {
    let found = cells(row);
    let cell = found.get(index)?.clone();
    (found.len() == columns && columns >= 2 && !row[cell.clone()].contains(&b' ')).then_some(cell)
}

/// At least two names of one or two words, with gaps between them.
fn is_header(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let mut cells = 0;
    let mut rest = line;
    while !rest.is_empty() {
        let end = memchr::memmem::find(rest, b"  ").unwrap_or(rest.len());
        let cell = &rest[..end];
        let is_name = cell.len() <= NAME_MAX
            && cell.first().is_some_and(|b| b.is_ascii_alphabetic() || *b >= 0x80)
            && cell.iter().all(|b| b.is_ascii_alphanumeric() || *b >= 0x80 || b" _-()#/".contains(b))
            && cell.iter().filter(|b| **b == b' ').count() <= 1;
        // `connect-expired-password   FALSE` is a row of names and values.
        let is_value = [
            &b"true"[..],
            b"false",
            b"yes",
            b"no",
            b"on",
            b"off",
            b"null",
            b"none",
            b"auto",
            b"enabled",
            b"disabled",
        ]
        .iter()
        .any(|word| cell.eq_ignore_ascii_case(word));
        if !is_name || is_value {
            return false;
        }
        cells += 1;
        rest = rest[end..].trim_ascii_start();
    }
    cells >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_their_names() {
        let text = "NAME    TOKEN        AGE\nci      Xq7Kd0Pz     12d\nweb     9fKq2LxV     3d\n\nother\n";
        let at = text.find("TOKEN").expect("there");
        let values = below(text.as_bytes(), &(at..at + 5));
        let values: Vec<&str> = values.into_iter().map(|value| &text[value.range]).collect();
        assert_eq!(values, ["Xq7Kd0Pz", "9fKq2LxV"]);
        for none in [
            "the token is here\nand there too\n",
            "TOKEN\nx\n",
            "a  TOKEN, too\nb  x\n",
            "expired-token     FALSE\nconnect-timeout   0\n",
        ] {
            let at = none.to_uppercase().find("TOKEN").expect("there");
            assert_eq!(below(none.as_bytes(), &(at..at + 5)), [], "{none}");
        }
    }
}
