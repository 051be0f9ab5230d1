//! Documents of several lines in a log: their lines without what a logger put around each, with a way back, so that rules need not know
//! in which log a document stands.
//!
//! Most lines of logs are no part of a document. Only those whose end says that something goes on below are looked at again.

use crate::escapes::Unescaped;

/// Most lines of one document, and most bytes.
const LINES_MAX: usize = 128;
const BYTES_MAX: usize = 16 << 10;
/// Longest text of a logger in front of a line, in bytes.
const PREFIX_MAX: usize = 160;
/// Lines below an element among which another one begins: a value stands between the two.
const ELEMENT_WITHIN: usize = 3;
/// What Docker writes in front of each line, and behind it.
const DOCKER: &[u8] = b"{\"log\":\"";
const DOCKER_ENDS: [&[u8]; 2] = [b"\\n\",\"", b"\",\"stream\""];

/// What stands around the lines of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrap {
    /// So many bytes in front of each, alike but for their digits.
    Prefix(usize),
    Docker,
}

/// The documents in `text` whose lines have something in front of them.
pub(crate) fn peeled(text: &[u8]) -> Vec<Unescaped> {
    let mut found = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        if end < start {
            continue;
        }
        let line = &text[start..end];
        let inner = content(line);
        if goes_on(inner)
            && let Some(wrap) = wrap_of(line, &text[end + 1..])
            && (!ends_element(inner) || has_element(&text[end + 1..], wrap))
        {
            let (document, behind) = document(text, start, wrap);
            found.push(document);
            start = behind;
        } else {
            start = end + 1;
        }
    }
    found
}

/// A line without the end that Docker gives it.
fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !line.starts_with(DOCKER) {
        return line;
    }
    let tail = &line[line.len().saturating_sub(PREFIX_MAX).max(DOCKER.len())..];
    let end = DOCKER_ENDS.iter().filter_map(|end| memchr::memmem::find(tail, end)).min();
    &line[..line.len() - tail.len() + end.unwrap_or(tail.len())]
}

/// Does the line say that it goes on below: an element, a block, a list, a statement, a manifest?
fn goes_on(line: &[u8]) -> bool {
    match line {
        [.., b'|' | b'>' | b'\\' | b':'] => true,
        [.., b'|' | b'>', b'-' | b'+'] => true,
        _ => line.ends_with(b"kind: Secret"),
    }
}

/// Is the end of the line that of an element, `<a>`? Loggers write some of their words so, `<none>`.
fn ends_element(line: &[u8]) -> bool {
    line.strip_suffix(b">").and_then(|line| line.iter().rfind(|b| matches!(b, b'<' | b'>'))) == Some(&b'<')
}

/// Does one of the next lines begin with an element, as far as there are any?
fn has_element(below: &[u8], wrap: Wrap) -> bool {
    let Wrap::Prefix(length) = wrap else { return true };
    let begins =
        |line: &[u8]| line.get(length..).is_some_and(|line| line.trim_ascii_start().first() == Some(&b'<'));
    let is_whole = memchr::memchr_iter(b'\n', below).nth(ELEMENT_WITHIN - 1).is_some();
    !is_whole || below.split(|b| *b == b'\n').take(ELEMENT_WITHIN).any(begins)
}

/// What a line and the one below it have in front of them.
fn wrap_of(line: &[u8], below: &[u8]) -> Option<Wrap> {
    if line.starts_with(DOCKER) {
        return below.starts_with(DOCKER).then_some(Wrap::Docker);
    }
    let below = &below[..memchr::memchr(b'\n', below).unwrap_or(below.len())];
    let same =
        line.iter().zip(below).take(PREFIX_MAX).take_while(|(one, other)| shape(**one) == shape(**other));
    let same = &line[..same.count()];
    let words = same.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    // The blanks at the end are the document's own, but for one.
    let words = same[..words].trim_ascii_end().len();
    let words = words + usize::from(words > 0 && same.get(words) == Some(&b' '));
    let is_sign = |b: Option<&u8>| matches!(b, Some(b'+' | b'-' | b'>' | b'|' | b'#'));
    let front = &same[..words];
    let is_of_logger = front.iter().any(u8::is_ascii_digit)
        || is_sign(front.trim_ascii().first()) && front.trim_ascii().len() <= 2
        || front.ends_with(b"| ");
    match (words > 0 && is_of_logger, is_sign(same.first())) {
        (true, _) => Some(Wrap::Prefix(words)),
        (false, true) => Some(Wrap::Prefix(1)),
        (false, false) => None,
    }
}

fn shape(byte: u8) -> u8 {
    if byte.is_ascii_digit() { b'0' } else { byte }
}

/// The document that begins with the line at `start`, and where the line behind it begins.
fn document(text: &[u8], start: usize, wrap: Wrap) -> (Unescaped, usize) {
    let mut undone = Unescaped { text: Vec::new(), at: Vec::new() };
    let mut at = start;
    let mut last = start;
    for _ in 0..LINES_MAX {
        let Some(line) = text.get(at..).filter(|rest| !rest.is_empty() && at - start < BYTES_MAX) else {
            break;
        };
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        let line = &line[..end];
        let is_of_it = match wrap {
            Wrap::Docker => line.starts_with(DOCKER),
            Wrap::Prefix(length) => {
                // A line without a text ends earlier.
                let front = &text[start..start + length];
                let length = length.min(line.len());
                front[..length].iter().zip(line).all(|(one, other)| shape(*one) == shape(*other))
                    && (length == front.len() || front[length..].trim_ascii().is_empty())
            }
        };
        if !is_of_it {
            break;
        }
        let inner = content(line);
        let from = match wrap {
            Wrap::Docker => DOCKER.len(),
            Wrap::Prefix(length) => length.min(inner.len()),
        };
        push_line(inner, from, at, wrap == Wrap::Docker, &mut undone);
        last = at + inner.len();
        at += end + 1;
    }
    undone.at.push(last);
    (undone, at)
}

fn push_line(line: &[u8], from: usize, start: usize, is_json: bool, undone: &mut Unescaped) {
    let mut at = from;
    while at < line.len() {
        let (length, byte) = match line[at..] {
            [b'\\', byte @ (b'"' | b'\\' | b'/'), ..] if is_json => (2, byte),
            [b'\\', b't', ..] if is_json => (2, b'\t'),
            _ => (1, line[at]),
        };
        undone.text.push(byte);
        undone.at.push(start + at);
        at += length;
    }
    undone.text.push(b'\n');
    undone.at.push(start + line.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        peeled(text.as_bytes()).iter().map(|one| String::from_utf8_lossy(&one.text).into_owned()).collect()
    }

    #[test]
    fn documents_are_read_without_their_logger() {
        for (text, wanted) in [
            (
                "10:11:12 app: <a>\n10:11:13 app:   <b>x</b>\n10:11:13 app: </a>\nother\n",
                "<a>\n  <b>x</b>\n</a>\n",
            ),
            ("> <a>\n>   x\n", "<a>\n  x\n"),
            ("10:11:12 sends <a>\n10:11:12   x\n10:11:12 </a>\n10:11:12 y\nz\n", "sends <a>\n  x\n</a>\ny\n"),
            ("10:11:12 a: >\n10:11:12   x\n10:11:12   y\n10:11:12   z\n", "a: >\n  x\n  y\n  z\n"),
            ("web-1  | a: |\nweb-1  |   x\n", "a: |\n  x\n"),
            (
                "{\"log\":\"a: >-\\n\",\"stream\":\"stdout\"}\n{\"log\":\"  \\\"x\\\"\\n\",\"stream\":\"stdout\"}\n",
                "a: >-\n  \"x\"\n",
            ),
        ] {
            assert_eq!(texts(text), [wanted], "{text}");
        }
        for text in [
            "a: |\n  x\n",
            "key one:\nkey two\n",
            "10:11:12 app: done\n10:11:13 app: bye\n",
            "x:",
            "10:11:12 configure shop <none>\n10:11:13 status half\n10:11:13 status whole\n10:11:14 done\n",
        ] {
            assert!(texts(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn each_byte_knows_its_place() {
        let text = "1 | a:\n1 |   x\n";
        let one = &peeled(text.as_bytes())[0];
        let at = one.text.iter().position(|b| *b == b'x').expect("the value");
        let place = one.source(&(at..at + 1)).expect("its place");
        assert_eq!(&text[place], "x");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[0a>|+: \\n\"{log}\\\\,]{0,80}") {
            for one in peeled(text.as_bytes()) {
                proptest::prop_assert_eq!(one.at.len(), one.text.len() + 1);
                proptest::prop_assert!(one.at.iter().all(|at| *at <= text.len()));
            }
        }
    }
}
