//! Lines of strings inside of strings (JSON in a log of JSON, a command in a cell of CSV, SQL in YAML, HTML): their quotes as they stand in
//! the inner text, with a way back, so that rules need not know in what a text was wrapped.

use std::ops::Range;

use crate::escapes::Unescaped;

/// Longest line that is looked at at once, in bytes.
const LINE_MAX: usize = 8 << 10;
/// What says that a line has a string in a string.
const SIGNS: [&[u8]; 12] = [
    b"\\\"", b"\\n", b"\\/", b"\"\"", b"''", b"&quot;", b"&#x27;", b"&#39;", b"&apos;", b"&#34;", b"&lt;",
    b"&gt;",
];
/// Quotes as entities.
const ENTITIES: [(&[u8], u8); 9] = [
    (b"&quot;", b'"'),
    (b"&#34;", b'"'),
    (b"&#x22;", b'"'),
    (b"&apos;", b'\''),
    (b"&#39;", b'\''),
    (b"&#x27;", b'\''),
    (b"&amp;", b'&'),
    (b"&lt;", b'<'),
    (b"&gt;", b'>'),
];

/// The lines of `text` that have such quotes, once undone, and twice where that is needed.
pub(crate) fn unquoted(text: &[u8]) -> Vec<Unescaped> {
    let mut lines: Vec<usize> = Vec::new();
    for sign in SIGNS {
        let mut behind = 0;
        for at in memchr::memmem::find_iter(text, sign) {
            if at < behind {
                continue;
            }
            let line = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
            let start = line + (at - line) / LINE_MAX * LINE_MAX;
            behind = line_end(text, start);
            lines.push(start);
        }
    }
    lines.sort_unstable();
    lines.dedup();
    let mut found = Vec::new();
    for start in lines {
        let Some(once) = undo(&text[start..line_end(text, start)], start) else { continue };
        if let Some(mut twice) = undo(&once.text, 0) {
            twice.at.iter_mut().for_each(|at| *at = once.at[*at]);
            // JSON in JSON in JSON.
            let goes_on = [&b"\\n"[..], b"\\\""];
            if goes_on.iter().any(|sign| memchr::memmem::find(&twice.text, sign).is_some())
                && let Some(mut thrice) = undo(&twice.text, 0)
            {
                thrice.at.iter_mut().for_each(|at| *at = twice.at[*at]);
                found.push(thrice);
            }
            found.push(twice);
        }
        found.push(once);
    }
    found
}

fn line_end(text: &[u8], start: usize) -> usize {
    let limit = text.len().min(start + LINE_MAX);
    memchr::memchr(b'\n', &text[start..limit]).map_or(limit, |newline| start + newline)
}

/// `None`: nothing of it is in a string in a string.
fn undo(line: &[u8], start: usize) -> Option<Unescaped> {
    let mut undone =
        Unescaped { text: Vec::with_capacity(line.len()), at: Vec::with_capacity(line.len() + 1) };
    let mut at = 0;
    while at < line.len() {
        let (length, byte) = quote(line, at).unwrap_or((1, line[at]));
        undone.text.push(byte);
        undone.at.push(start + at);
        at += length;
    }
    undone.at.push(start + line.len());
    (undone.text.len() < line.len()).then_some(undone)
}

/// What stands at `at` in another way, with its length.
fn quote(line: &[u8], at: usize) -> Option<(usize, u8)> {
    match line[at..] {
        [b'\\', b'n', ..] => Some((2, b'\n')),
        [b'\\', b't', ..] => Some((2, b'\t')),
        [b'\\', byte @ (b'"' | b'\\' | b'\'' | b'/'), ..] => Some((2, byte)),
        // An empty string stands between signs, a doubled quote beside a word.
        [byte @ (b'"' | b'\''), again, ..] if again == byte => {
            let is_of_word = |b: Option<&u8>| {
                b.is_some_and(|b| !b.is_ascii_whitespace() && !b":=,;()[]{}<>\"'\\".contains(b))
            };
            let before = at.checked_sub(1).and_then(|before| line.get(before));
            let opens = matches!(line[at + 2..], [b'{', ..] | [b'[', b'{' | b'"', ..]);
            let closes = before == Some(&b'}');
            (is_of_word(before) || is_of_word(line.get(at + 2)) || opens || closes).then_some((2, byte))
        }
        [b'&', ..] => ENTITIES
            .iter()
            .find(|(name, _)| line[at..].starts_with(name))
            .map(|(name, byte)| (name.len(), *byte)),
        _ => None,
    }
}

/// As much of a value as belongs to the inner string: up to a quote of the string around it, and without the quote that closes what a
/// quote in front of the value opened.
pub(crate) fn inside(text: &[u8], range: Range<usize>) -> Range<usize> {
    let mut at = range.start;
    let mut end = range.end;
    while at < range.end {
        match text[at] {
            b'\\' => at += 2,
            b'"' if text.get(at + 1) == Some(&b'"') => at += 2,
            b'"' => {
                end = at;
                break;
            }
            _ => at += 1,
        }
    }
    if text[..range.start].ends_with(b"\"\"") && text[range.start..end].ends_with(b"\"\"") {
        return range.start..end - 2;
    }
    // In a string in a string in a string, too: the first quote that has no more backslashes than the one in front.
    let backslashes =
        |quote: usize, from: usize| text[from..quote].iter().rev().take_while(|b| **b == b'\\').count();
    let opened = range.start.checked_sub(1).filter(|quote| text[*quote] == b'"');
    let opened = opened.map_or(0, |quote| backslashes(quote, quote.saturating_sub(16)));
    let quotes = memchr::memchr_iter(b'"', &text[range.start..end]).map(|quote| range.start + quote);
    let closing = quotes
        .map(|quote| (quote, backslashes(quote, range.start)))
        .find(|(_, run)| (1..=opened).contains(run));
    range.start..closing.map_or(end, |(quote, run)| quote - run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_those_of_the_inner_text() {
        for (line, wanted) in [
            (r#"{"msg":"echo \"x\" | y","e":""}"#, r#"{"msg":"echo "x" | y","e":""}"#),
            (r#"1;"login(""a"", ""b"")";"""#, r#"1;"login("a", "b")";"""#),
            ("m: 'auth ''a:b'' x'", "m: 'auth 'a:b' x'"),
            ("<p>f(&quot;a&quot;, &#x27;b&#x27;)</p>", "<p>f(\"a\", 'b')</p>"),
            (r#"{"m":"a\nb"}"#, "{\"m\":\"a\nb\"}"),
        ] {
            let found = unquoted(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found.last().expect("one").text), wanted);
        }
        let twice = unquoted(br#"{"log":"{\"m\":\"f(\\\"a\\\")\"}"}"#);
        assert_eq!(String::from_utf8_lossy(&twice[0].text), r#"{"log":"{"m":"f("a")"}"}"#);
        assert_eq!(unquoted(b"a=\"\" b='' c\\d\n"), []);
    }

    #[test]
    fn a_value_ends_with_the_string_around_it() {
        let text = br#"x \"a"b"#;
        assert_eq!(inside(text, 4..7), 4..5);
        assert_eq!(inside(b"a\"\"b", 0..4), 0..4);
        // The last quote of the inner string, at the end of the outer one.
        assert_eq!(inside(br#"{"m":"k: \"hunter22\""}"#, 11..23), 11..19);
        assert_eq!(inside(br#"1;"k: ""hunter22""""#, 8..19), 8..16);
        let twice = br#"{"l":"{\"m\":\"k: \\\"hunter22\\\"\"}"}"#;
        let at = memchr::memmem::find(twice, b"hunter22").expect("it is there");
        assert_eq!(inside(twice, at..twice.len() - 2), at..at + 8);
        // A quote that is the value's own has more.
        let own = br#"{"m":"k: \"a\\\"b\""}"#;
        assert_eq!(inside(own, 11..20), 11..17);
        assert_eq!(inside(br#"{"m":"k: hunter\""}"#, 9..19), 9..17);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(text in "[a\"'\\\\n&quot;#x27 \n:]{0,80}") {
            for one in unquoted(text.as_bytes()) {
                proptest::prop_assert_eq!(one.at.len(), one.text.len() + 1);
                proptest::prop_assert!(one.at.is_sorted() && one.at.iter().all(|at| *at <= text.len()));
                inside(text.as_bytes(), 0..text.len());
            }
        }
    }
}
