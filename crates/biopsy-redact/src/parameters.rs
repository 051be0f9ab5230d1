//! Values that a log lists apart from their statement: `parameters: $1 = 'x'`, `Parameters: x(String)`, by the column that each
//! place belongs to.

use std::ops::Range;

/// How far a statement may be in front of its parameters, in bytes.
const REACH: usize = 4096;
/// Most places of one statement.
const PLACES_MAX: usize = 256;

/// The column of each place and its value, of the list that begins at `at`.
pub(crate) fn find(text: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let columns = places(text, at.saturating_sub(REACH)..at);
    if columns.is_empty() {
        return Vec::new();
    }
    let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
    let Some(colon) = memchr::memchr(b':', &text[at..end]) else { return Vec::new() };
    values(text, at + colon + 1..end)
        .into_iter()
        .filter_map(|(number, value)| {
            let column = columns.iter().rev().find(|(known, _)| *known == number)?;
            Some((column.1.clone(), value))
        })
        .collect()
}

/// The column of each named place and its value: `[@p0='17', @p1='x']`, and `column = @p1` in the statement in front of it or behind.
pub(crate) fn named(text: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
    let is_of_name = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let name_at = |at: usize| at + 1..at + 1 + text[at + 1..].iter().take(64).take_while(is_of_name).count();
    let columns: Vec<(Range<usize>, Range<usize>)> = {
        let within = at.saturating_sub(REACH)..text.len().min(end + REACH);
        let places = memchr::memchr_iter(b'@', &text[within.clone()]).map(|place| within.start + place);
        let column = |place: usize| Some((name_at(place), assigned(text, place)?));
        places.filter_map(column).take(PLACES_MAX).collect()
    };
    let mut found = Vec::new();
    let mut next = at;
    while let Some(place) = text.get(next..end).and_then(|rest| memchr::memchr(b'@', rest))
        && found.len() < PLACES_MAX
    {
        let name = name_at(next + place);
        next = name.end;
        if !text[name.end..end].starts_with(b"='") {
            continue;
        }
        let start = name.end + 2;
        let Some(length) = end_of_text(&text[start..end]) else { break };
        if let Some((_, column)) = columns.iter().find(|(known, _)| text[known.clone()] == text[name.clone()])
        {
            found.push((column.clone(), start..start + length));
        }
        next = start + length;
    }
    found
}

/// The quote that ends a text of SQL, in which each is written twice.
fn end_of_text(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b'\'', rest.get(at..)?)?;
        if rest.get(at + 1) != Some(&b'\'') {
            return Some(at);
        }
        at += 2;
    }
}

/// The columns of places (`$2`, or the second `?`), counted from one.
fn places(text: &[u8], within: Range<usize>) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let mut marks = 0;
    for at in within.clone() {
        let number = match text[at] {
            b'?' => {
                marks += 1;
                marks
            }
            b'$' => {
                let digits =
                    text[at + 1..within.end].iter().take(3).take_while(|b| b.is_ascii_digit()).count();
                match std::str::from_utf8(&text[at + 1..at + 1 + digits])
                    .ok()
                    .and_then(|digits| digits.parse().ok())
                {
                    Some(number) => number,
                    None => continue,
                }
            }
            // A new statement counts anew.
            b'\n' => {
                marks = 0;
                continue;
            }
            _ => continue,
        };
        if let Some(column) = assigned(text, at).or_else(|| listed(text, within.start, at))
            && found.len() < PLACES_MAX
        {
            found.push((number, column));
        }
    }
    found
}

/// `column = ?`
fn assigned(text: &[u8], at: usize) -> Option<Range<usize>> {
    let before = text[..at].trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end();
    name_before(before)
}

fn name_before(before: &[u8]) -> Option<Range<usize>> {
    let end = before.len()
        - before.iter().rev().take(2).take_while(|b| matches!(b, b'"' | b'`' | b']' | b'\\')).count();
    let length =
        before[..end].iter().rev().take(64).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    (length > 0).then_some(end - length..end)
}

/// `(a, b) values (?, ?)`: the column at the same place of the list in front.
fn listed(text: &[u8], from: usize, at: usize) -> Option<Range<usize>> {
    let open = from + memchr::memrchr(b'(', &text[from..at])?;
    let index = memchr::memchr_iter(b',', &text[open..at]).count();
    let before = text[..open].trim_ascii_end();
    let values = before.len().checked_sub(6)?;
    if !before[values..].eq_ignore_ascii_case(b"values") {
        return None;
    }
    let close = before[..values].trim_ascii_end().strip_suffix(b")")?;
    let start = from + memchr::memrchr(b'(', close.get(from..)?)? + 1;
    let mut names = start;
    for (place, name) in close[start..].split(|b| *b == b',').enumerate() {
        if place == index {
            return name_before(&text[..names + name.trim_ascii_end().len()]);
        }
        names += name.len() + 1;
    }
    None
}

/// `$2 = 'x'` and `x(String), y(Integer)`, with their numbers.
fn values(text: &[u8], line: Range<usize>) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let bytes = &text[line.clone()];
    if bytes.trim_ascii_start().starts_with(b"[") {
        return listed_values(text, line);
    }
    if memchr::memchr(b'$', bytes).is_some() {
        for mark in memchr::memchr_iter(b'$', bytes) {
            let rest = &bytes[mark + 1..];
            let digits = rest.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
            let Some(number) =
                std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse().ok())
            else {
                continue;
            };
            let Some(value) = rest[digits..].strip_prefix(b" = '") else { continue };
            let start = mark + 1 + digits + 4;
            let length =
                memchr::memmem::find(value, b"', $").or(memchr::memrchr(b'\'', value)).unwrap_or(value.len());
            found.push((number, line.start + start..line.start + start + length));
        }
        return found;
    }
    let mut at = 0;
    for number in 1..PLACES_MAX {
        let rest = &bytes[at..];
        at += rest.len() - rest.trim_ascii_start().len();
        let rest = &bytes[at..];
        // The type stands behind each value.
        let Some(length) = rest.windows(2).position(|pair| pair[0] == b'(' && pair[1].is_ascii_uppercase())
        else {
            break;
        };
        found.push((number, line.start + at..line.start + at + length));
        let Some(next) = memchr::memmem::find(&rest[length..], b"), ") else { break };
        at += length + next + 3;
    }
    found
}

/// `['ann', 7, "x"]`: in the order of their places.
fn listed_values(text: &[u8], line: Range<usize>) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let mut number = 1;
    let Some(open) = memchr::memchr(b'[', &text[line.clone()]) else { return found };
    let mut at = line.start + open + 1;
    while at < line.end && number < PLACES_MAX {
        match text[at] {
            b']' => break,
            b',' => number += 1,
            quote @ (b'\'' | b'"') => {
                let start = at + 1;
                let mut end = start;
                while end < line.end && text[end] != quote {
                    end += 1 + usize::from(text[end] == b'\\');
                }
                let end = end.min(line.end);
                found.push((number, start..end));
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_the_column_of_its_place() {
        for (text, expected) in [
            (
                "UPDATE u SET pw = $2 WHERE id = $1 DETAIL: parameters: $1 = '7', $2 = 'x''y'",
                vec![("id", "7"), ("pw", "x''y")],
            ),
            (
                "insert into u (name, pw) values (?, ?)\n==> Parameters: bob(String), x y(String)",
                vec![("name", "bob"), ("pw", "x y")],
            ),
            (
                "INSERT INTO u(a,b) VALUES ($1,$2)\nparameters: $1 = 'p', $2 = 'q'",
                vec![("a", "p"), ("b", "q")],
            ),
            (
                "SELECT 1 WHERE u=$1 AND pw=$2 -- PARAMETERS: ['ann', 'x,y']",
                vec![("u", "ann"), ("pw", "x,y")],
            ),
            ("no statement\nparameters: $1 = 'p'", vec![]),
            ("parameters: ?", vec![]),
        ] {
            let at = text.to_lowercase().rfind("parameters:").expect("a list");
            let found: Vec<_> = find(text.as_bytes(), at)
                .into_iter()
                .map(|(name, value)| (&text[name], &text[value]))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn named_places_have_the_column_that_is_compared_with_them() {
        for (text, expected) in [
            (
                "SELECT * FROM u WHERE a = @p0 AND pw = @p1 [@p0='17', @p1='x''y']",
                vec![("a", "17"), ("pw", "x''y")],
            ),
            (
                "Executed DbCommand (1ms) [Parameters=[@__pw_0='x y' (Size = 9)], CommandType='Text']\nWHERE u.pw = @__pw_0\n",
                vec![("pw", "x y")],
            ),
            ("UPDATE u SET pw=@pw [@pw='x', @other='y']", vec![("pw", "x")]),
            ("pw = @p10 [@p1='x']", vec![]),
            ("[@p0='x", vec![]),
        ] {
            let at = text.find("[").expect("a list");
            let found: Vec<_> = named(text.as_bytes(), at)
                .into_iter()
                .map(|(name, value)| (&text[name], &text[value]))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[a,@$?1()= '\nvalues:]{0,80}") {
            for at in 0..text.len() {
                for (_, value) in named(text.as_bytes(), at) {
                    proptest::prop_assert!(value.end <= text.len() && value.start <= value.end);
                }
                for (_, value) in find(text.as_bytes(), at) {
                    proptest::prop_assert!(value.end <= text.len() && value.start <= value.end);
                }
            }
        }
    }
}
