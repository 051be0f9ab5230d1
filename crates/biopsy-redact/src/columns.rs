//! `INSERT INTO t (name, password) VALUES ('bob', 's3cret')`: values that are told by the column at their place.

use std::ops::Range;

use crate::below;

/// How far a statement is read: below what streams look ahead.
const REACH: usize = 32 << 10;
/// Most columns of one statement.
const COLUMNS: usize = 256;
/// Longest text of a logger in front of a row, in bytes.
const PREFIX_MAX: usize = 160;

/// A value in a row, with the name of its column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    /// Without quotes.
    pub(crate) column: Range<usize>,
    /// Inside of the quotes.
    pub(crate) value: Range<usize>,
    /// The text ended before the value did.
    pub(crate) open: bool,
}

/// What tables of people and of their secrets are called, in part.
const TABLES: [&[u8]; 8] =
    [b"user", b"account", b"credential", b"secret", b"token", b"password", b"login", b"api_key"];

/// Values without names, of a table that is called after secrets: `INSERT INTO users VALUES (1, 'bob', 'x')`. Which of them is one, its
/// looks must say.
pub(crate) fn nameless(text: &[u8], at: usize) -> Vec<Range<usize>> {
    let text = &text[..text.len().min(at.saturating_add(REACH))];
    let Some(open) =
        text[at..].iter().take(256).position(|b| matches!(b, b'(' | b';' | b'\n')).map(|open| at + open)
    else {
        return Vec::new();
    };
    let head = text[at..open].to_ascii_lowercase();
    let head = head.trim_ascii_end();
    let is_of_secrets = TABLES.iter().any(|table| memchr::memmem::find(head, table).is_some());
    if text[open] != b'(' || !head.ends_with(b"values") || !is_of_secrets {
        return Vec::new();
    }
    let columns: Vec<Range<usize>> = (0..COLUMNS).map(|_| at..at).collect();
    let mut fields = Vec::new();
    let mut start = open;
    while text.get(start) == Some(&b'(') {
        start = skip_space(text, row(text, start + 1, &columns, &mut fields));
        if text.get(start) != Some(&b',') {
            break;
        }
        start = next_row(text, start + 1);
    }
    fields.into_iter().filter(|field| !field.open).map(|field| field.value).collect()
}

/// The quoted values of the statement that begins at `at`; empty: it is none, or has no list of columns.
pub(crate) fn find(text: &[u8], at: usize) -> Vec<Field> {
    let text = &text[..text.len().min(at.saturating_add(REACH))];
    read(text, at).unwrap_or_default()
}

fn read(text: &[u8], at: usize) -> Option<Vec<Field>> {
    // `INSERT INTO`, and the table with its schema, in any quotes.
    let open = at + text.get(at..)?.iter().take(256).position(|b| matches!(b, b'(' | b';' | b'\n'))?;
    if text[open] != b'(' {
        return None;
    }
    let close = open + memchr::memchr(b')', &text[open..])?;
    let mut columns = Vec::new();
    let mut start = open + 1;
    for end in memchr::memchr_iter(b',', &text[open..close]).map(|comma| open + comma).chain([close]) {
        if columns.len() >= COLUMNS {
            return None;
        }
        columns.push(bare(text, start..end));
        start = end + 1;
    }
    let mut at = skip_space(text, close + 1);
    if !text.get(at..at + 6)?.eq_ignore_ascii_case(b"values") {
        return None;
    }
    at = next_row(text, at + 6);
    let mut fields = Vec::new();
    while text.get(at) == Some(&b'(') {
        at = row(text, at + 1, &columns, &mut fields);
        at = skip_space(text, at);
        if text.get(at) != Some(&b',') {
            break;
        }
        at = next_row(text, at + 1);
    }
    Some(fields)
}

/// `COPY t (id, password) FROM stdin;` and the rows below it, with tabulators between their values.
pub(crate) fn copied(text: &[u8], at: usize) -> Vec<Field> {
    let text = &text[..text.len().min(at.saturating_add(REACH))];
    read_copied(text, at).unwrap_or_default()
}

fn read_copied(text: &[u8], at: usize) -> Option<Vec<Field>> {
    let line = at + memchr::memchr(b'\n', &text[at..])?;
    let open = at + memchr::memchr(b'(', &text[at..line])?;
    let close = open + memchr::memchr(b')', &text[open..line])?;
    let tail = text[close + 1..line].to_ascii_lowercase();
    memchr::memmem::find(&tail, b"from stdin")?;
    let mut columns = Vec::new();
    let mut start = open + 1;
    for end in memchr::memchr_iter(b',', &text[open..close]).map(|comma| open + comma).chain([close]) {
        columns.push(bare(text, start..end));
        start = end + 1;
    }
    let mut fields = Vec::new();
    let mut newline = line;
    while let Some(row) = below::next_line(text, at, newline).filter(|row| *row < text.len()) {
        let end = memchr::memchr(b'\n', &text[row..]).map_or(text.len(), |end| row + end);
        let cells = memchr::memchr_iter(b'\t', &text[row..end]).map(|tab| row + tab).chain([end]);
        let mut start = row;
        let mut found = Vec::new();
        for cell in cells {
            found.push(start..cell);
            start = cell + 1;
        }
        if found.len() != columns.len() {
            break;
        }
        for (column, value) in columns.iter().zip(found) {
            let open = value.end == text.len();
            fields.push(Field { column: column.clone(), value, open });
        }
        if end == text.len() {
            break;
        }
        newline = end;
    }
    Some(fields)
}

/// The bracket of the next row: at once, or on the next line behind what a logger put there.
fn next_row(text: &[u8], at: usize) -> usize {
    let start = skip_space(text, at);
    let line = &text[start.min(text.len())..text.len().min(start + PREFIX_MAX)];
    let is_below = text[at.min(start)..start].contains(&b'\n');
    let open =
        line.iter().position(|b| matches!(b, b'(' | b'\n' | b'\'' | b';')).filter(|open| line[*open] == b'(');
    open.filter(|_| is_below).map_or(start, |open| start + open)
}

/// One row, behind its bracket; gives back what follows it.
fn row(text: &[u8], mut at: usize, columns: &[Range<usize>], fields: &mut Vec<Field>) -> usize {
    let (mut column, mut depth) = (0, 0_usize);
    while at < text.len() {
        match text[at] {
            b'\'' => {
                let (end, open) = string_end(text, at + 1);
                if depth == 0
                    && let Some(column) = columns.get(column)
                {
                    fields.push(Field { column: column.clone(), value: at + 1..end, open });
                }
                at = end;
            }
            b'(' => depth += 1,
            b')' if depth == 0 => return at + 1,
            b')' => depth -= 1,
            b',' if depth == 0 => column += 1,
            b'\n' | b';' if depth == 0 && column == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Where a string of SQL ends: `''` and a backslash before a quote are part of it.
fn string_end(text: &[u8], mut at: usize) -> (usize, bool) {
    while at < text.len() {
        match text[at] {
            b'\'' if text.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return (at, false),
            b'\\' if text.get(at + 1) == Some(&b'\'') => at += 2,
            _ => at += 1,
        }
    }
    (text.len(), true)
}

/// A name without blanks, quotes and brackets around it.
fn bare(text: &[u8], range: Range<usize>) -> Range<usize> {
    let is_around =
        |b: &u8| b.is_ascii_whitespace() || matches!(b, b'`' | b'"' | b'[' | b']' | b'\\' | b'\'');
    let name = &text[range.clone()];
    let start = name.iter().position(|b| !is_around(b)).unwrap_or(name.len());
    let end = name.iter().rposition(|b| !is_around(b)).map_or(start, |last| last + 1);
    range.start + start..range.start + end
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(&str, &str)> {
        find(text.as_bytes(), 0).into_iter().map(|field| (&text[field.column], &text[field.value])).collect()
    }

    #[test]
    fn values_stand_at_the_place_of_their_column() {
        assert_eq!(
            fields("INSERT INTO t (a, `b`, \"c\") VALUES (1, 'x', lower('y')), ('z', NULL, 'it''s')"),
            [("b", "x"), ("a", "z"), ("c", "it''s")]
        );
        assert_eq!(fields("INSERT INTO t (a) VALUES ('x\\'y')"), [("a", "x\\'y")]);
        for none in [
            "INSERT INTO t VALUES ('x')",
            "INSERT INTO t (a) SELECT 'x'",
            "INSERT INTO",
            "INSERT INTO t (a",
            "",
        ] {
            assert_eq!(fields(none), [], "{none}");
        }
    }

    #[test]
    fn a_statement_that_is_cut_off_ends_open() {
        let found = find(b"INSERT INTO t (a) VALUES ('x", 0);
        assert!(found.len() == 1 && found[0].open, "{found:?}");
        let endless = format!("INSERT INTO t ({}) VALUES ('x')", "a,".repeat(300));
        assert_eq!(fields(&endless), []);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "(?i)insert into t[ (a,b)'`\\\\;values\n]{0,80}") {
            for field in find(text.as_bytes(), 0) {
                proptest::prop_assert!(field.value.end <= text.len() && field.column.end <= text.len());
            }
        }
    }
}
