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

/// Is the line at `at` a row of CSV: is there a line of names above, with as many cells as it has?
pub(crate) fn is_in_row(text: &[u8], at: usize) -> bool {
    let Some(row) = line_at(text, at) else { return false };
    let commas = |line: &[u8]| memchr::memchr_iter(b',', line).count();
    let is_name = |cell: &[u8]| {
        cell.first().is_some_and(u8::is_ascii_alphabetic)
            && cell.iter().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b))
    };
    let cells = commas(&text[row.clone()]);
    if cells == 0 {
        return false;
    }
    let above = &text[row.start.saturating_sub(LINE_MAX)..row.start];
    let mut from = 0;
    memchr::memchr_iter(b'\n', above).any(|newline| {
        let line = above[from..newline].trim_ascii();
        from = newline + 1;
        // Most lines begin with a time, or have a blank in what would be their first name.
        let name = line.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b)).count();
        line.get(name) == Some(&b',') && line.split(|b| *b == b',').all(is_name) && commas(line) == cells
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_line_of_names_above() {
        for (text, at, wanted) in [
            ("user,note,count\na,pw=A,0\n", 18, true),
            ("user,note,count\r\nx,y,1\r\na,pw=A,0\r\n", 24, true),
            // Another number of cells, no names, nothing above.
            ("user,note\na,pw=A,0\n", 12, false),
            ("1,2,3\na,pw=A,0\n", 8, false),
            ("one, two, three\na,pw=A,0\n", 18, false),
            ("a,pw=A,0\n", 2, false),
            // A password with a comma is one value.
            ("A=b\npassword=ab,cd\n", 4, false),
        ] {
            assert_eq!(is_in_row(text.as_bytes(), at), wanted, "{text:?}");
        }
    }
}
