//! Values on a line below their name: continued lines, forms in parts, dialogues; also where a logger puts something in front of
//! each line.

use std::ops::Range;

/// Longest text of a logger in front of a line, in bytes.
const PREFIX_MAX: usize = 160;
/// Longest line below, in bytes.
const LINE_MAX: usize = 4096;

/// Where the line below begins, behind what stands in front of the line of `at` too. `head`: up to where that can reach.
pub(crate) fn next_line(text: &[u8], head: usize, newline: usize) -> Option<usize> {
    let from = head.saturating_sub(PREFIX_MAX);
    let line = memchr::memrchr(b'\n', &text[from..head])
        .map(|newline| from + newline + 1)
        .or((from == 0).then_some(0))?;
    let next = newline + 1;
    let prefix = in_front(text, line, head);
    let length = same_shape(prefix, &text[next.min(text.len())..]);
    Some(next + length)
}

/// What a logger put in front of the line that begins at `line`, up to `head`.
pub(crate) fn in_front(text: &[u8], line: usize, head: usize) -> &[u8] {
    let prefix = text[line..head].trim_ascii_end();
    prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix)
}

/// Length of what a logger put in front of `line` too, given what stands in front of the head: all of it but for its digits, or
/// its first words, or the one sign of a diff.
fn same_shape(front: &[u8], line: &[u8]) -> usize {
    let shape = |b: u8| if b.is_ascii_digit() { b'0' } else { b };
    let end = memchr::memchr2(b'\n', b'\r', line).unwrap_or(line.len());
    let line = &line[..end];
    let same = front.iter().zip(line).take_while(|(one, other)| shape(**one) == shape(**other)).count();
    if same == front.len() || same == line.len() && front.get(same).is_some_and(u8::is_ascii_whitespace) {
        return same;
    }
    let words = front[..same].iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    let words = front[..words].trim_ascii_end().len();
    // Words alone are no logger's: something that counts is.
    if front[..words].iter().any(u8::is_ascii_digit) {
        return words;
    }
    usize::from(same > 0 && matches!(front[0], b'+' | b'-' | b'>' | b'|'))
}

/// The newline at `at`, behind an optional carriage return.
pub(crate) fn newline(text: &[u8], at: usize) -> Option<usize> {
    let at = at + usize::from(text.get(at) == Some(&b'\r'));
    (text.get(at) == Some(&b'\n')).then_some(at)
}

/// The value of a form in parts: behind `name="key"`, an empty line, and then it.
pub(crate) fn of_part(text: &[u8], head: usize, at: usize) -> Option<Range<usize>> {
    let first = newline(text, at)?;
    let empty = next_line(text, head, first)?;
    let blank = text[empty.min(text.len())..].iter().take(4).take_while(|b| **b == b' ').count();
    let second = newline(text, empty + blank)?;
    let start = next_line(text, head, second)?;
    let start = start + text[start.min(text.len())..].iter().take(4).take_while(|b| **b == b' ').count();
    line_from(text, start)
}

/// One word on the line below, that is no sentence.
pub(crate) fn word_below(text: &[u8], head: usize, at: usize) -> Option<Range<usize>> {
    let start = next_line(text, head, newline(text, at)?)?;
    let start = start
        + text[start.min(text.len())..].iter().take(64).take_while(|b| matches!(b, b' ' | b'\t')).count();
    let line = line_from(text, start)?;
    let word = text[line.clone()]
        .iter()
        .position(u8::is_ascii_whitespace)
        .map_or(line.end, |blank| line.start + blank);
    Some(line.start..word)
}

fn line_from(text: &[u8], start: usize) -> Option<Range<usize>> {
    let reach = &text[start.min(text.len())..text.len().min(start + LINE_MAX)];
    let end = memchr::memchr2(b'\n', b'\r', reach).unwrap_or(reach.len());
    let end = start + reach[..end].trim_ascii_end().len();
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_below_is_read_behind_the_logger() {
        let text = "10:11:12 D - a: |\n10:11:13 D -   x y\n";
        let head = text.find("a:").expect("a");
        let newline = text.find('\n').expect("a line");
        assert_eq!(next_line(text.as_bytes(), head, newline).map(|at| &text[at..at + 6]), Some("   x y"));
        let word = word_below(text.as_bytes(), head, newline).map(|range| &text[range]);
        assert_eq!(word, Some("x"));
        let form = "x; name=\"a\"\r\n\r\nv 1\r\n--";
        let at = form.find('\r').expect("a line");
        assert_eq!(of_part(form.as_bytes(), 3, at).map(|range| &form[range]), Some("v 1"));
        assert_eq!(of_part(form.as_bytes(), 3, 2), None);
    }
}
