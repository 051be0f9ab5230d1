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
/// as many cells as it has, or are there rows like it above and below?
pub(crate) fn separator_around(text: &[u8], at: usize) -> Option<u8> {
    let row = line_at(text, at)?;
    separator_below_names(text, at, &row).or_else(|| {
        let (separator, record) = row_among_others(text, &row, at)?;
        let own = record.cells.iter().find(|cell| cell.contains(&at))?;
        let is_quoted = own.start > row.start && text[own.start - 1] == b'"';
        (!is_quoted).then_some(separator)
    })
}

fn separator_below_names(text: &[u8], at: usize, row: &Range<usize>) -> Option<u8> {
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

/// Fewest cells of a row in a table that nothing names the columns of, and fewest of one that has but one row beside it.
const NAMELESS_MIN: usize = 3;
const NAMELESS_WIDE: usize = 5;
/// Rows that are looked at on each side.
const BESIDE_MAX: usize = 2;

/// What a cell holds, for the question whether it is of the column that another one is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Nothing, which any column may have.
    Nothing,
    /// A number, a time, an address.
    Digits,
    /// Words.
    Words,
    /// Anything else, of this length.
    Other(usize),
}

fn what_it_holds(cell: &[u8]) -> Holds {
    match cell {
        [] => Holds::Nothing,
        cell if cell.iter().all(|b| b.is_ascii_digit() || b".:-+/ TZ%".contains(b)) => Holds::Digits,
        cell if cell.iter().all(|b| b.is_ascii_alphabetic() || b" _-./".contains(b) || *b >= 0x80) => {
            Holds::Words
        }
        cell => Holds::Other(cell.len()),
    }
}

/// The row on this line, and what stands between its cells, where no line names the columns: rows beside it have as many cells, and in
/// each column but that of `at` the same sort of things. A password with a comma is one value, and a log line with two of them is no row.
pub(crate) fn row_among_others(text: &[u8], row: &Range<usize>, at: usize) -> Option<(u8, Record)> {
    let holds = |record: &Record| -> Option<Vec<Holds>> {
        let is_padded = |cell: &[u8]| cell.trim_ascii().len() < cell.len();
        let cells = || record.cells.iter().map(|cell| &text[cell.clone()]);
        (!cells().any(is_padded)).then(|| cells().map(what_it_holds).collect())
    };
    SEPARATORS.into_iter().find_map(|separator| {
        let read = |line: &Range<usize>| {
            read_record(&text[..line.end], line.start, separator)
                .filter(|record| record.range.end == line.end)
        };
        let record = read(row).filter(|record| record.cells.len() >= NAMELESS_MIN)?;
        let own = record.cells.iter().position(|cell| cell.start <= at && at <= cell.end)?;
        let wanted = holds(&record)?;
        let is_like = |line: Range<usize>| {
            let other = read(&line).and_then(|other| holds(&other));
            other.is_some_and(|other| {
                let is_same = |(index, (one, other)): (usize, (&Holds, &Holds))| {
                    index == own || one == other || *one == Holds::Nothing || *other == Holds::Nothing
                };
                other.len() == wanted.len() && wanted.iter().zip(&other).enumerate().all(is_same)
            })
        };
        let above = std::iter::successors(Some(row.clone()), |line| {
            line.start.checked_sub(1).and_then(|end| line_at(text, end))
        });
        let below = std::iter::successors(Some(row.clone()), |line| line_at(text, line.end + 1));
        let beside = above.skip(1).take(BESIDE_MAX).take_while(|line| is_like(line.clone())).count()
            + below.skip(1).take(BESIDE_MAX).take_while(|line| is_like(line.clone())).count();
        let least = if wanted.len() >= NAMELESS_WIDE { 1 } else { 2 };
        (beside >= least).then_some((separator, record))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_names_are_told_by_the_rows_beside_them() {
        for (text, wanted) in [
            ("1,ann,pw=A,ok\n2,bob,x,ok\n3,eve,y,\n", Some(b',')),
            ("2,bob,x,ok\n1,ann,pw=A,ok\n3,eve,y,\n", Some(b',')),
            ("1;ann;pw=A;ok\r\n2;bob;x;ok\r\n3;eve;y;no\r\n", Some(b';')),
            ("1,ann,pw=A,10.0.0.1,ok\n2,bob,x,10.0.0.2,ok\n", Some(b',')),
            // One row beside it is not enough for four cells.
            ("1,ann,pw=A,ok\n2,bob,x,ok\n", None),
            // Other things in a column: what follows the comma may be of the password.
            ("1,ann,pw=A,Kq7x\n2,bob,x,ok\n3,eve,y,no\n", None),
            ("1,ann,pw=A,cd9\n2,bob,x,ef77\n3,eve,y,g5\n", None),
            // A log with commas in its times and in its sentences.
            ("10:11,123 INFO pw=ab,cd\n10:11,124 INFO ann, late\n10:11,125 INFO bob, late\n", None),
            ("pw=ab,cd\nx,y\nu,v\n", None),
            // In quotes.
            ("1,ann,\"pw=A,ok\",x\n2,bob,x,ok\n3,eve,y,\n", None),
        ] {
            let at = text.find("pw").expect("it is there");
            assert_eq!(separator_around(text.as_bytes(), at), wanted, "{text:?}");
        }
    }

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
