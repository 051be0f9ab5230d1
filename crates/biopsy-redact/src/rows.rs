//! Lines of a table in text: where a row begins and ends, and whether a line is one.

use std::ops::Range;

/// Longest header or row, and how far above a row its header is looked for, in bytes.
pub(crate) const LINE_MAX: usize = 4096;

/// The line around a place, without its end. `None`: there is none, or it is too long.
pub(crate) fn line_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    if at >= text.len() {
        return None;
    }
    let floor = at.saturating_sub(LINE_MAX);
    let start = memchr::memrchr(b'\n', &text[floor..at])
        .map(|newline| floor + newline + 1)
        .or((floor == 0).then_some(0))?;
    let reach = &text[at..text.len().min(at + LINE_MAX)];
    let end = memchr::memchr(b'\n', reach)
        .map(|newline| at + newline)
        .or((at + reach.len() == text.len()).then_some(text.len()))?;
    Some(start..end)
}

/// Most cells of a row.
const CELLS_MAX: usize = 256;
/// What stands between cells.
pub(crate) const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// Longest name of a column, in bytes.
const NAME_MAX: usize = 48;

/// Longest record, in bytes: a key in quotes has many lines.
const RECORD_MAX: usize = 64 << 10;

/// A record: the range of each cell, without its quotes.
pub(crate) struct Record {
    /// With its line end.
    pub(crate) range: Range<usize>,
    pub(crate) cells: Vec<Range<usize>>,
}

/// The record at `at`, with its line end. Cells in quotes may have separators, line ends, and quotes written twice in them.
pub(crate) fn read_record(text: &[u8], at: usize, separator: u8) -> Option<Record> {
    let limit = text.len().min(at + RECORD_MAX);
    let mut cells = Vec::new();
    let mut start = at;
    loop {
        let is_quoted = text.get(start) == Some(&b'"');
        let end = if is_quoted {
            quoted_end(text, start + 1, limit)?
        } else {
            bare_end(text, start, limit, separator)
        };
        cells.push(start + usize::from(is_quoted)..end);
        let behind = end + usize::from(is_quoted);
        let line_end = match text.get(behind..limit)? {
            [byte, ..] if *byte == separator && cells.len() < CELLS_MAX => {
                start = behind + 1;
                continue;
            }
            [] if limit == text.len() => 0,
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b'\r'] if limit == text.len() => 1,
            _ => return None,
        };
        return Some(Record { range: at..behind + line_end, cells });
    }
}

/// The quote that ends a cell whose text begins at `from`.
fn quoted_end(text: &[u8], from: usize, limit: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr(b'"', text.get(at..limit)?)?;
        if text.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// The end of a cell without quotes.
fn bare_end(text: &[u8], start: usize, limit: usize, separator: u8) -> usize {
    let cell = &text[start.min(limit)..limit];
    let end = start + memchr::memchr2(separator, b'\n', cell).unwrap_or(cell.len());
    if end > start && text[end - 1] == b'\r' && text.get(end) != Some(&separator) { end - 1 } else { end }
}

/// Separator and number of the columns that a line names.
pub(crate) fn names_of_columns(line: &[u8]) -> Option<(u8, usize)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let first = line.first()?;
    if line.len() > LINE_MAX || !(first.is_ascii_alphabetic() || matches!(first, b'"' | b'_' | 0x80..)) {
        return None;
    }
    let separator = *line.iter().find(|b| SEPARATORS.contains(b))?;
    let mut names = 0;
    for cell in line.split(|b| *b == separator) {
        let quoted = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\""));
        let name = quoted.unwrap_or(cell);
        let begins = name.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | 0x80..));
        let is_of_name = |b: &u8| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b' ' | b'(' | b')' | 0x80..)
        };
        names += 1;
        if !begins || name.len() > NAME_MAX || names > CELLS_MAX || !name.iter().all(is_of_name) {
            return None;
        }
    }
    (names >= 2).then_some((separator, names))
}

/// What stands between the cells of the row that `at` is in, if it is one and the cell is not in quotes: is there a line of names above, with
/// as many cells as it has?
pub(crate) fn separator_around(text: &[u8], at: usize) -> Option<u8> {
    let row = line_at(text, at)?;
    let above = &text[row.start.saturating_sub(LINE_MAX)..row.start];
    let mut from = 0;
    memchr::memchr_iter(b'\n', above).find_map(|newline| {
        let line = &above[from..newline];
        from = newline + 1;
        let (separator, names) = names_of_columns(line)?;
        let record = read_record(text, row.start, separator)?;
        let own = record.cells.iter().find(|cell| cell.contains(&at))?;
        let is_quoted = own.start > row.start && text[own.start - 1] == b'"';
        (record.cells.len() == names && !is_quoted).then_some(separator)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_line_of_names_above() {
        for (text, part, wanted) in [
            ("user,note,count\na,pw=A,0\n", "pw", Some(b',')),
            ("user,note,count\r\nx,y,1\r\na,pw=A,0\r\n", "pw", Some(b',')),
            ("user;note;count\na;pw=A;0\n", "pw", Some(b';')),
            ("user\tnote\na\tpw=A\n", "pw", Some(b'\t')),
            ("\"user name\",\"note\"\na,pw=A\n", "pw", Some(b',')),
            ("user name,note\n\"a,b\",pw=A\n", "pw", Some(b',')),
            ("\u{feff}user,note\na,pw=A", "pw", Some(b',')),
            // What stands in quotes may hold commas.
            ("user,note\na,\"pw=A,b\"\n", "pw", None),
            // Another number of cells, no names, nothing above.
            ("user,note\na,pw=A,0\n", "pw", None),
            ("1,2,3\na,pw=A,0\n", "pw", None),
            ("one,two:,three\na,pw=A,0\n", "pw", None),
            ("one, two, three\na,pw=A,0\n", "pw", None),
            ("a,pw=A,0\n", "pw", None),
            ("user\nnote\npw=A,0\n", "pw", None),
            // A password with a comma is one value.
            ("A=b\npassword=ab,cd\n", "password", None),
        ] {
            let at = text.find(part).expect("it is there");
            assert_eq!(separator_around(text.as_bytes(), at), wanted, "{text:?}");
        }
    }
}
