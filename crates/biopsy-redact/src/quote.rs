//! Quotes as logs write them: plain, escaped any number of times, as HTML entity, percent-encoded, as `\u0022`.

/// The opening quote of a value; its closing quote is written the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quote<'t> {
    /// The quote character behind this many backslashes (`\"` in JSON inside JSON has one).
    Escaped {
        /// `"`, `'` or a backtick.
        quote: u8,
        /// Backslashes in front.
        backslashes: usize,
    },
    /// `&quot;`, `%22`, `\u0022`, as it stands in the text.
    Coded(&'t [u8]),
}

/// Coded quotes, in lower case.
const CODED: [&[u8]; 12] = [
    b"&quot;",
    b"&#34;",
    b"&#x22;",
    b"&apos;",
    b"&#39;",
    b"&#x27;",
    b"%22",
    b"%27",
    b"%5c%22",
    b"\\u0022",
    b"\\u0027",
    b"\\\\u0022",
];

impl<'t> Quote<'t> {
    /// The quote that starts at `at`, with its length.
    pub(crate) fn at(text: &'t [u8], at: usize) -> Option<(Self, usize)> {
        let rest = text.get(at..)?;
        let backslashes = rest.iter().take(16).take_while(|b| **b == b'\\').count();
        match rest.get(backslashes)? {
            quote @ (b'"' | b'\'' | b'`') => {
                return Some((Self::Escaped { quote: *quote, backslashes }, backslashes + 1));
            }
            _ if !matches!(rest[0], b'&' | b'%' | b'\\') => return None,
            _ => {}
        }
        let coded = CODED
            .iter()
            .find(|coded| rest.len() >= coded.len() && rest[..coded.len()].eq_ignore_ascii_case(coded))?;
        Some((Self::Coded(&rest[..coded.len()]), coded.len()))
    }

    /// Where the value that starts at `at` ends: at its closing quote, else at the end of the line. The flag says
    /// that neither came before the text ended.
    pub(crate) fn close(self, text: &[u8], at: usize) -> (usize, bool) {
        let rest = &text[at.min(text.len())..];
        let mut from = 0;
        // Quotes and line ends are looked for together: a line may be very long and its end far away.
        loop {
            let found = match self {
                Self::Escaped { quote, .. } => memchr::memchr3(quote, b'\n', b'\r', &rest[from..]),
                Self::Coded(quote) => memchr::memchr3(quote[0], b'\n', b'\r', &rest[from..]),
            };
            // Environment blocks and command lines of processes separate with NUL.
            let stretch = from..found.map_or(rest.len(), |found| from + found);
            if let Some(nul) = memchr::memchr(0, &rest[stretch.clone()]) {
                return (at + stretch.start + nul, false);
            }
            let found = stretch.end;
            match (rest.get(found), self) {
                (None, _) => return (at + found, true),
                (Some(b'\n' | b'\r'), _) => return (at + found, false),
                (Some(_), Self::Coded(quote)) => {
                    if rest[found..].starts_with(quote) {
                        return (at + found, false);
                    }
                }
                (Some(_), Self::Escaped { quote, backslashes }) => {
                    let run = rest[..found].iter().rev().take_while(|b| **b == b'\\').count();
                    // `""` inside a value in quotes is one quote, as in connection strings and CSV.
                    if backslashes == 0 && found > 0 && rest.get(found + 1) == Some(&quote) {
                        from = found + 2;
                        continue;
                    }
                    if backslashes == 0 && run % 2 == 0 {
                        return (at + found, false);
                    }
                    if backslashes > 0 && run <= backslashes {
                        return (at + found - run, false);
                    }
                }
            }
            from = found + 1;
        }
    }
}

/// A quote that is open: the text in front of a place began with it, and it has not been closed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    /// `"`, `'` or a backtick.
    pub(crate) quote: u8,
    /// Backslashes in front: 1 in JSON inside of a string of JSON, 3 one level deeper.
    pub(crate) backslashes: usize,
}

impl Open {
    /// Does the quote at `at`, or behind the backslashes at `at`, close this one or one around it?
    pub(crate) fn is_closed_at(self, text: &[u8], at: usize) -> bool {
        let run = backslashes_at(text, at);
        text.get(at + run) == Some(&self.quote) && run <= self.backslashes
    }
}

/// How many backslashes stand at `at`: 16 at most.
pub(crate) fn backslashes_at(text: &[u8], at: usize) -> usize {
    text[at.min(text.len())..].iter().take(16).take_while(|b| **b == b'\\').count()
}

/// Most quotes in quotes that are told apart; deeper ones belong to the last.
const DEPTH_MAX: usize = 4;

/// The innermost quote that is open at `at` on its line, if one is: what the text around a key is wrapped in.
pub(crate) fn open_quote_before(text: &[u8], at: usize) -> Option<Open> {
    let from = at.saturating_sub(512);
    let line = memchr::memrchr2(b'\n', 0, &text[from..at]).map_or(from, |newline| from + newline + 1);
    let mut open: [Option<Open>; DEPTH_MAX] = [None; DEPTH_MAX];
    let mut depth: usize = 0;
    for index in memchr::memchr3_iter(b'"', b'`', b'\'', &text[line..at]) {
        let (before, byte) = (&text[line..line + index], text[line + index]);
        let backslashes = before.iter().rev().take_while(|b| **b == b'\\').count();
        let is_same = |open: &Option<Open>| *open == Some(Open { quote: byte, backslashes });
        let inner = depth.checked_sub(1).and_then(|last| open[last]);
        // An apostrophe inside of a word opens nothing, and a quote without more backslashes is text in the other kind.
        let may_open = (byte != b'\'' || !before.last().is_some_and(u8::is_ascii_alphanumeric))
            && inner.is_none_or(|inner| backslashes > inner.backslashes);
        if let Some(closed) = open[..depth].iter().rposition(is_same) {
            depth = closed;
        } else if may_open && depth < DEPTH_MAX {
            open[depth] = Some(Open { quote: byte, backslashes });
            depth += 1;
        }
    }
    depth.checked_sub(1).and_then(|last| open[last])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, at: usize) -> &str {
        let (quote, length) = Quote::at(text.as_bytes(), at).expect("a quote");
        let (end, _) = quote.close(text.as_bytes(), at + length);
        &text[at + length..end]
    }

    #[test]
    fn values_end_at_the_quote_they_began_with() {
        assert_eq!(value(r#""abc" d"#, 0), "abc");
        assert_eq!(value(r#""a\"b" d"#, 0), r#"a\"b"#);
        assert_eq!(value(r#""a\\" d"#, 0), r#"a\\"#);
        assert_eq!(value(r#""a""b" d"#, 0), r#"a""b"#);
        assert_eq!(value(r#"\"abc\", \"d\""#, 0), "abc");
        assert_eq!(value(r#"\"a\\\"bc\", \"d\""#, 0), r#"a\\\"bc"#);
        assert_eq!(value("&quot;abc&quot;,", 0), "abc");
        assert_eq!(value("%22abc%22%2C", 0), "abc");
        assert_eq!(value("\"abc\nnext", 0), "abc");
    }

    #[test]
    fn an_unclosed_value_is_open() {
        let (quote, length) = Quote::at(b"\"abc", 0).expect("a quote");
        assert_eq!(quote.close(b"\"abc", length), (4, true));
        assert_eq!(quote.close(b"\"abc\n", length), (4, false));
        assert_eq!(quote.close(b"\"abc\0\"", length), (4, false));
    }

    #[test]
    fn the_wrapping_quote_is_found() {
        let open = |text: &str| {
            open_quote_before(text.as_bytes(), text.len()).map(|open| (open.quote, open.backslashes))
        };
        assert_eq!(open("say \"x="), Some((b'"', 0)));
        assert_eq!(open(r#"{"log":"{\"x\":\"y="#), Some((b'"', 1)));
        assert_eq!(open(r#"{"log":"{\"x\":\"z\",\"y"#), Some((b'"', 1)));
        assert_eq!(open(r#"{"log":"{\"x\":\"z\"} y="#), Some((b'"', 0)));
        assert_eq!(open(r#"{"log":"{\"x\":\"z\"}", y="#), None);
        assert_eq!(open(r#"{\"x\":\"{\\\"y="#), Some((b'"', 3)));
        assert_eq!(open(r#"path "C:\dir\" y="#), Some((b'"', 1)));
        assert_eq!(open_quote_before(b"say \"x\" y=", 10), None);
        assert_eq!(open_quote_before(b"it's y=", 7), None);
        assert_eq!(open_quote_before(b"\"\ny=", 4), None);
    }
    /// As it stands inside of a string of JSON.
    fn escaped(text: &str) -> String {
        text.replace('\\', "\\\\").replace('"', "\\\"")
    }

    #[test]
    fn every_coded_quote_closes_its_own_kind_alone() {
        for coded in CODED {
            let coded = std::str::from_utf8(coded).expect("ASCII");
            for opening in [coded.to_owned(), coded.to_ascii_uppercase().replace("\\U", "\\u")] {
                let other = if coded == "%22" { "&quot;" } else { "%22" };
                let text = format!("{opening}a{other}b{opening} c");
                assert_eq!(value(&text, 0), format!("a{other}b"), "{text}");
            }
        }
        for none in ["", "x", "&", "&quo", "%2", "%23", "\\", "\\x", "\\u002", "\\\\u0023"] {
            assert_eq!(Quote::at(none.as_bytes(), 0), None, "{none}");
        }
    }

    proptest::proptest! {
        /// A string of JSON, in a string of JSON, and so on: it ends where its writer ended it, and never before.
        #[test]
        fn a_string_in_strings_ends_where_it_was_ended(
            inside in "[ -~ä]{0,20}",
            depth in 0u32..4,
            behind in "[ ,}][ -~]{0,10}",
        ) {
            let mut text = format!("\"{}\"", escaped(&inside));
            let mut wanted = escaped(&inside);
            for _ in 0..depth {
                (text, wanted) = (escaped(&text), escaped(&wanted));
            }
            let whole = text.len();
            text.push_str(&behind);
            let (quote, length) = Quote::at(text.as_bytes(), 0).expect("a quote");
            let (end, open) = quote.close(text.as_bytes(), length);
            let is_empty = inside.is_empty() && depth == 0;
            // What a quote in front of the last one means differs between JSON and connection strings, and which backslashes
            // belong to the last one is not known where the value ends with some: more is masked then, and never less.
            let is_unclear = if depth == 0 { inside.ends_with('"') } else { inside.ends_with('\\') };
            if is_unclear {
                proptest::prop_assert!(end >= length + wanted.len() && end <= text.len());
            } else {
                proptest::prop_assert_eq!(&text[length..end], wanted.as_str());
                proptest::prop_assert!(!open && (is_empty || end + length == whole));
            }
        }

        #[test]
        fn no_quote_ends_outside_of_its_line(text in "[a\"'`\\\\&;%2u0\n\0]{1,40}", at in 0usize..40) {
            let Some((quote, length)) = Quote::at(text.as_bytes(), at) else { return Ok(()) };
            let (end, open) = quote.close(text.as_bytes(), at + length);
            proptest::prop_assert!(at + length <= end && end <= text.len());
            proptest::prop_assert!(!text[at + length..end].contains(['\n', '\0']));
            proptest::prop_assert_eq!(open, end == text.len());
        }
    }
}
