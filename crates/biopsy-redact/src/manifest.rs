//! Secrets of Kubernetes as files: under `kind: Secret` each value below `data:` and `stringData:`.

use std::ops::Range;

use crate::{below, value};

/// How far the data may be from the kind, in bytes, in both directions.
const REACH: usize = 4096;
/// Most values of one object.
const MEMBERS_MAX: usize = 64;

/// The values of the manifest whose `kind: Secret` is at `at`.
pub(crate) fn find(text: &[u8], at: usize) -> Vec<Range<usize>> {
    let from = at.saturating_sub(REACH);
    let start = memchr::memmem::rfind(&text[from..at], b"---").map_or(from, |mark| from + mark);
    let reach = &text[at..text.len().min(at + REACH)];
    let end = at + memchr::memmem::find(reach, b"\n---").unwrap_or(reach.len());
    let mut values = Vec::new();
    for name in [&b"data:"[..], b"stringData:"] {
        for found in memchr::memmem::find_iter(&text[start..end], name) {
            let key = start + found;
            let is_key = key == 0 || matches!(text[key - 1], b' ' | b'\n' | b'\t' | b'+');
            if let Some(newline) = below::newline(text, key + name.len()).filter(|_| is_key) {
                entries(text, key, newline, end, &mut values);
            }
        }
    }
    values
}

/// The same as JSON, whose `"kind": "Secret"` is at `at`: each text in the objects `data` and `stringData`.
pub(crate) fn find_in_json(text: &[u8], at: usize) -> Vec<Range<usize>> {
    let (from, to) = (at.saturating_sub(REACH), text.len().min(at + REACH));
    let mut values = Vec::new();
    for name in [&b"\"data\""[..], b"\"stringData\""] {
        for found in memchr::memmem::find_iter(&text[from..to], name) {
            let mut at = from + found + name.len();
            let mut next = |wanted: u8| {
                at = value::skip_space(text, at);
                let is_there = text.get(at) == Some(&wanted);
                at += usize::from(is_there);
                is_there
            };
            if next(b':') && next(b'{') {
                members(text, at, &mut values);
            }
        }
    }
    values
}

/// `"name": "value", ...`
fn members(text: &[u8], mut at: usize, values: &mut Vec<Range<usize>>) {
    for _ in 0..MEMBERS_MAX {
        let Some(name) = value::quoted(text, value::skip_space(text, at)) else { break };
        let colon = value::skip_space(text, name.range.end + 1);
        let start = value::skip_space(text, colon + 1);
        let value = value::quoted(text, start).filter(|value| text.get(colon) == Some(&b':') && !value.open);
        let Some(value) = value else { break };
        at = value::skip_space(text, value.range.end + 1);
        if !value.range.is_empty() {
            values.push(value.range);
        }
        if text.get(at) != Some(&b',') {
            break;
        }
        at += 1;
    }
}

/// `name: value` on each deeper line.
fn entries(text: &[u8], key: usize, mut newline: usize, end: usize, values: &mut Vec<Range<usize>>) {
    let line = memchr::memrchr(b'\n', &text[..key]).map_or(0, |newline| newline + 1);
    let depth = text[line..key].iter().rev().take_while(|b| **b == b' ').count();
    let front = below::in_front(text, line, key).len();
    let depth = if front == 0 { depth } else { depth.saturating_sub(1) };
    while let Some(at) = below::next_line(text, key, newline).filter(|at| *at < end) {
        let line_end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
        let line = &text[at..line_end];
        let blank = line.iter().take_while(|b| **b == b' ').count();
        if blank <= depth + usize::from(front > 0) {
            break;
        }
        if let Some(colon) = memchr::memmem::find(line, b": ") {
            let value = line[colon + 2..].trim_ascii();
            let value =
                value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
            let start = at + value.as_ptr().addr() - line.as_ptr().addr();
            if !value.is_empty() && !matches!(value[0], b'|' | b'>' | b'{') {
                values.push(start..start + value.len());
            }
        }
        if line_end == text.len() {
            break;
        }
        newline = line_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_of_a_secret_are_found() {
        let text = "kind: Secret\nmetadata:\n  name: db\nstringData:\n  a: x1\n  b: \"y 2\"\ntype: Opaque\n---\nkind: ConfigMap\ndata:\n  c: z\n";
        let found: Vec<&str> = find(text.as_bytes(), 0).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["x1", "y 2"]);
        let logged = "10:1 app: kind: Secret\n10:1 app: data:\n10:2 app:   a: eDE=\n10:2 app: type: x\n";
        let found: Vec<&str> = find(logged.as_bytes(), 10).into_iter().map(|range| &logged[range]).collect();
        assert_eq!(found, ["eDE="]);
    }
}
