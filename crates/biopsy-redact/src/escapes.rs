//! Escapes undone with a way back (percent, `\u0070`, `\160`, `&#112;`, quoted-printable), so that the value alone is masked.

use std::ops::Range;

/// Fewest escapes of a stretch that is looked into.
const ESCAPES_MIN: usize = 3;
/// Longest stretch whose escapes are undone at once.
const ESCAPED_MAX: usize = 8 << 10;
/// Fewest pairs of letters of UTF-16 in a stretch that is one.
const WIDE_MIN: usize = 3;

/// A stretch whose escapes are undone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unescaped {
    /// The text.
    pub(crate) text: Vec<u8>,
    /// Where each of its bytes, and its end, stands in what it was made of.
    pub(crate) at: Vec<usize>,
}

impl Unescaped {
    /// Undone once more, for what was escaped twice.
    pub(crate) fn again(&self) -> Option<Self> {
        memchr::memchr3(b'%', b'&', b'\\', &self.text)?;
        let mut again = undo(&self.text, 0, is_quoted_printable(&self.text), 0)
            .filter(|again| again.text != self.text)?;
        again.at.iter_mut().for_each(|at| *at = self.at[*at]);
        Some(again)
    }

    /// With the blanks that a form writes as `+`: `a: b` as `a%3A+b`. A sign that was one is written as `%2B` there.
    pub(crate) fn with_blanks(&self, source: &[u8]) -> Option<Self> {
        let written = source.get(*self.at.first()?..*self.at.last()?)?;
        let is_form = [&b"%3A+"[..], b"%3a+", b"%0A+", b"%0a+", b"%3D+", b"%3d+"]
            .iter()
            .any(|sign| memchr::memmem::find(written, sign).is_some());
        let blank = |(byte, at): (&u8, &usize)| if source.get(*at) == Some(&b'+') { b' ' } else { *byte };
        is_form
            .then(|| Self { text: self.text.iter().zip(&self.at).map(blank).collect(), at: self.at.clone() })
    }

    /// Of a text that was made of this one.
    pub(crate) fn behind(&self, mut inner: Self) -> Self {
        inner.at.iter_mut().for_each(|at| *at = self.at[*at]);
        inner
    }

    /// UTF-16 that was escaped byte by byte, without the zero of each letter: `b'p\x00w\x00'`.
    fn without_zeros(mut self) -> Self {
        let is_wide = |four: &[u8]| four[0] == 0 && four[2] == 0 && four[1] != 0 && four[3] != 0;
        if memchr::memchr(0, &self.text).is_none()
            || self.text.windows(4).filter(|four| is_wide(four)).count() < WIDE_MIN
        {
            return self;
        }
        let end = self.at.pop();
        let (text, at) = self.text.iter().zip(&self.at).filter(|(byte, _)| **byte != 0).unzip();
        self = Self { text, at };
        self.at.extend(end);
        self
    }

    /// The place of a range.
    pub(crate) fn source(&self, range: &Range<usize>) -> Option<Range<usize>> {
        Some(*self.at.get(range.start)?..*self.at.get(range.end)?)
    }
}

/// Stretches with at least three escapes, each from the start of its line or from 8 KiB before.
pub(crate) fn unescaped(text: &[u8]) -> Vec<Unescaped> {
    let mut found = Vec::new();
    let mut start = 0;
    let has = |sign: &[u8]| memchr::memmem::find(text, sign).is_some();
    // Lines that go on behind a `=` are told by the header alone: base64 ends so, too.
    let is_mail = has(b"quoted-printable");
    let may_be_quoted = is_mail || has(b"=3D") || has(b"=0A");
    while start < text.len() {
        if !may_be_quoted {
            // Lines without an escape are not looked at one by one.
            let Some(next) = memchr::memchr3(b'%', b'&', b'\\', &text[start..]) else { break };
            let line = memchr::memrchr(b'\n', &text[start..start + next]).map_or(start, |at| start + at + 1);
            start = line + (start + next - line) / ESCAPED_MAX * ESCAPED_MAX;
        }
        let limit = text.len().min(start + ESCAPED_MAX);
        let line_end = |from: usize| {
            memchr::memchr(b'\n', &text[from..limit]).map_or(limit, |newline| from + newline + 1)
        };
        let mut end = line_end(start);
        // Quoted-printable goes on behind a line that ends so.
        while may_be_quoted
            && (is_mail || is_quoted_printable(&text[start..end]))
            && end < limit
            && (text[..end].ends_with(b"=\n") || text[..end].ends_with(b"=\r\n"))
        {
            end = line_end(end);
        }
        let line = &text[start..end];
        let is_quoted = may_be_quoted && is_quoted_printable(line);
        if is_quoted || has_escapes(line) {
            found.extend(undo(line, start, is_quoted, ESCAPES_MIN));
        }
        start = end;
    }
    found
}

/// Whether a line that is not quoted-printable has enough of them.
fn has_escapes(line: &[u8]) -> bool {
    let (mut escapes, mut behind) = (0, 0);
    for at in memchr::memchr3_iter(b'%', b'&', b'\\', line) {
        if at >= behind
            && let Some((length, character)) = escape(&line[at..])
        {
            behind = at + length;
            escapes += weight(&line[at..], character, false);
            if escapes >= ESCAPES_MIN {
                return true;
            }
        }
    }
    false
}

/// How much an escape says for the line being written in escapes.
fn weight(text: &[u8], character: u32, is_quoted: bool) -> usize {
    match character {
        // What was escaped twice: `&amp;#61;`, `&amp;quot;`.
        0x26 if text.starts_with(b"&amp;") && is_entity_behind(&text[5..]) => ESCAPES_MIN,
        // `&lt;` and the like are in every page.
        0x26 | 0x22 | 0x3c | 0x3e | 0x27 | 0x20 if text[0] == b'&' && text[1] != b'#' => 0,
        // What separates a name from its value is worth the look alone.
        0x3d | 0x22 | 0x3a => ESCAPES_MIN,
        // `%25` in front of two digits was escaped twice; and who writes letters and signs as numbers has others, too.
        0x25 if text.get(3..5).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => ESCAPES_MIN,
        0x21..=0x7e if text[0] == b'&' && character != 0x27 => ESCAPES_MIN,
        // `lykilor\u00f0=x`: a letter of the name in front of a value.
        0xa0..=0xffff if text.starts_with(b"\\u") && ends_name(text.get(6..).unwrap_or_default()) => {
            ESCAPES_MIN
        }
        // `user%5Bname%5D=x`
        0x5b | 0x5d => 2,
        // So does the end of a line that quoted-printable has written out or put in.
        NOTHING | 0x0a if is_quoted => ESCAPES_MIN,
        NOTHING => 0,
        _ => 1,
    }
}

/// Do only letters, and the sign behind a name, follow?
fn ends_name(rest: &[u8]) -> bool {
    let letters = rest.iter().take(24).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    matches!(rest.get(letters), Some(b'=' | b':')) || rest[letters..].starts_with(b"\":")
}

/// What is left of an entity whose `&` was one itself: `#61;`, `quot;`.
fn is_entity_behind(rest: &[u8]) -> bool {
    matches!(rest, [b'#', b'0'..=b'9' | b'x' | b'X', ..])
        || [&b"quot;"[..], b"lt;", b"gt;", b"apos;", b"amp;"].iter().any(|name| rest.starts_with(name))
}

/// Is it of a mail: with its `=` or an end of a line written out, or going on in the next line?
fn is_quoted_printable(line: &[u8]) -> bool {
    let goes_on = memchr::memchr(b'\n', line).is_some_and(|newline| newline + 1 < line.len());
    goes_on
        || memchr::memchr_iter(b'=', line).any(|at| matches!(line.get(at + 1..at + 3), Some(b"3D" | b"0A")))
}

/// Undoes the escapes of a line; `None`: it has hardly any.
fn undo(line: &[u8], start: usize, is_quoted: bool, least: usize) -> Option<Unescaped> {
    let mut undone =
        Unescaped { text: Vec::with_capacity(line.len()), at: Vec::with_capacity(line.len() + 1) };
    let (mut at, mut escapes) = (0, 0);
    while at < line.len() {
        // Quoted-printable writes each `=` so; elsewhere `=10` is a value.
        let (length, character) = match escape(&line[at..]).filter(|_| is_quoted || line[at] != b'=') {
            Some((length, character)) => {
                escapes += weight(&line[at..], character, is_quoted);
                (length, character)
            }
            None => (1, u32::from(line[at])),
        };
        if length == 1 {
            undone.text.push(line[at]);
            undone.at.push(start + at);
        } else if character != NOTHING {
            let mut utf8 = [0; 4];
            let one = [character as u8];
            // Percent and quoted-printable give bytes, the others give characters.
            let bytes: &[u8] = match char::from_u32(character) {
                Some(character) if length > 3 => character.encode_utf8(&mut utf8).as_bytes(),
                _ => &one,
            };
            undone.text.extend_from_slice(bytes);
            undone.at.extend(std::iter::repeat_n(start + at, bytes.len()));
        }
        at += length;
    }
    undone.at.push(start + line.len());
    (escapes >= least).then(|| undone.without_zeros())
}

/// The escape that a text begins with: its length and character.
fn escape(text: &[u8]) -> Option<(usize, u32)> {
    let hex = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    match text {
        [b'=', b'\r', b'\n', ..] => Some((3, NOTHING)),
        [b'=', b'\n', ..] => Some((2, NOTHING)),
        [b'%', b'u' | b'U', ..] => Some((6, hex(text.get(2..6)?)?)),
        [b'%' | b'=', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            Some((3, hex(&text[1..3])?))
        }
        [b'\\', b'u' | b'x', b'{', ..] => {
            let end = memchr::memchr(b'}', &text[..text.len().min(12)])?;
            Some((end + 1, hex(&text[3..end])?))
        }
        [b'\\', b'u', ..] => Some((6, hex(text.get(2..6)?)?)),
        [b'\\', b'U', ..] => Some((10, hex(text.get(2..10)?)?)),
        [b'\\', b'x', ..] => Some((4, hex(text.get(2..4)?)?)),
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            let digit = |byte: &u8| u32::from(byte - b'0');
            Some((4, digit(a) << 6 | digit(b) << 3 | digit(c)))
        }
        [b'&', b'#', ..] => {
            let end = memchr::memchr(b';', &text[..text.len().min(12)])?;
            let digits = &text[2..end];
            let character = match digits.strip_prefix(b"x").or_else(|| digits.strip_prefix(b"X")) {
                Some(digits) => hex(digits)?,
                None => std::str::from_utf8(digits).ok()?.parse().ok()?,
            };
            Some((end + 1, character))
        }
        [b'&', ..] => NAMED
            .iter()
            .find(|(name, _)| text.starts_with(name))
            .map(|(name, character)| (name.len(), *character)),
        _ => None,
    }
}

/// Entities by name: what separates names from values, and signs that passwords have.
const NAMED: [(&[u8], u32); 40] = [
    (b"&amp;", 0x26),
    (b"&quot;", 0x22),
    (b"&lt;", 0x3c),
    (b"&gt;", 0x3e),
    (b"&apos;", 0x27),
    (b"&equals;", 0x3d),
    (b"&colon;", 0x3a),
    (b"&semi;", 0x3b),
    (b"&comma;", 0x2c),
    (b"&period;", 0x2e),
    (b"&lowbar;", 0x5f),
    (b"&UnderBar;", 0x5f),
    (b"&hyphen;", 0x2d),
    (b"&num;", 0x23),
    (b"&excl;", 0x21),
    (b"&dollar;", 0x24),
    (b"&percnt;", 0x25),
    (b"&ast;", 0x2a),
    (b"&plus;", 0x2b),
    (b"&sol;", 0x2f),
    (b"&bsol;", 0x5c),
    (b"&quest;", 0x3f),
    (b"&commat;", 0x40),
    (b"&lpar;", 0x28),
    (b"&rpar;", 0x29),
    (b"&lsqb;", 0x5b),
    (b"&lbrack;", 0x5b),
    (b"&rsqb;", 0x5d),
    (b"&rbrack;", 0x5d),
    (b"&lcub;", 0x7b),
    (b"&lbrace;", 0x7b),
    (b"&rcub;", 0x7d),
    (b"&rbrace;", 0x7d),
    (b"&Hat;", 0x5e),
    (b"&grave;", 0x60),
    (b"&verbar;", 0x7c),
    (b"&vert;", 0x7c),
    (b"&nbsp;", 0x20),
    (b"&Tab;", 0x09),
    (b"&NewLine;", 0x0a),
];
/// No character: the end of a line that goes on.
const NOTHING: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_with_a_way_back() {
        let line = "a \\u0070wd%3d&#120;&#x79;z end";
        let found = unescaped(line.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found[0].text), "a pwd=xyz end");
        let value = found[0].source(&(6..9)).unwrap();
        assert_eq!(&line[value], "&#120;&#x79;z");
        assert_eq!(unescaped(b"100 % of it, 5% more\n"), []);
        assert_eq!(unescaped(b"a=10 b=20 c=30 d=%2f\n"), [], "values, and one escape");
        let mail = unescaped(b"pwd=3Dx=79z=0A");
        assert_eq!(mail[0].text, b"pwd=xyz\n");
        assert_eq!(unescaped(b"key: YWJj\nx=\ny: 1\n"), [], "base64 ends so");
        assert_eq!(unescaped(b"pwd=3Dab=\r\ncd e\nf")[0].text, b"pwd=abcd e\n");
        let written = b"body=a%3A+b%2Bc%0Ad";
        let form = unescaped(written)[0].with_blanks(written).expect("a form");
        assert_eq!((&form.text[..], &written[form.at[8]..][..1]), (&b"body=a: b+c\nd"[..], &b"b"[..]));
        assert_eq!(unescaped(b"a%3Db+c%3Dd")[0].with_blanks(b"a%3Db+c%3Dd"), None);
        let twice = unescaped(b"x%2525y%253D%253Dz")[0].again().expect("escapes");
        assert_eq!(String::from_utf8_lossy(&twice.text), "x%y==z");
        assert_eq!(twice.source(&(4..6)), Some(12..18));
    }

    #[test]
    fn escaped_utf16_is_read_without_its_zeros() {
        for (line, text) in [
            (r"b'p\x00w\x00d\x00=\x00x\x00y\x00\n\x00'", r"b'pwd=xy\n'"),
            (r"b'\x00p\x00w\x00d\x00=\x00x\x00y'", "b'pwd=xy'"),
            ("p%00w%00d%00%3D%00x%00y%00", "pwd=xy"),
            (r"p\000w\000d\000=\000x\000y\000", "pwd=xy"),
            (r"a\x00\x00\x00b\x00\x00\x00c\x00\x00\x00d", "a\0\0\0b\0\0\0c\0\0\0d"),
        ] {
            let found = unescaped(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found[0].text), text, "{line}");
            let value = found[0].text.len() - 1..found[0].text.len();
            assert!(found[0].source(&value).is_some_and(|range| range.end <= line.len()), "{line}");
        }
    }

    #[test]
    fn entities_of_entities_are_undone_twice() {
        for (line, text) in [
            ("<x>pwd&amp;#61;x&amp;#36;y</x>", "<x>pwd=x$y</x>"),
            ("<x>&amp;lt;pwd&amp;gt;xy</x>", "<x><pwd>xy</x>"),
            ("a &amp;quot;pwd&amp;quot; b", "a \"pwd\" b"),
        ] {
            let once = unescaped(line.as_bytes());
            let twice = once.first().and_then(Unescaped::again).expect("escaped twice");
            assert_eq!(String::from_utf8_lossy(&twice.text), text, "{line}");
        }
        assert_eq!(unescaped(b"/x?a=1&amp;b=2&amp;c=3&amp;d=4\n"), [], "an address in a page");
    }

    #[test]
    fn characters_are_escaped_in_many_ways() {
        for line in [
            r"\160\167\144\075xy",
            r"\u{70}\u{77}\u{64}\x{3d}xy",
            r"\U00000070\U00000077\U00000064\U0000003dxy",
            "%u0070%u0077%u0064%u003dxy",
            "pwd&equals;&#x78;&#121;",
        ] {
            let found = unescaped(line.as_bytes());
            assert_eq!(
                found.first().map(|one| String::from_utf8_lossy(&one.text)).as_deref(),
                Some("pwd=xy"),
                "{line}"
            );
        }
        assert_eq!(unescaped(br"C:\12\345\678 D:\9"), [], "folders");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(text in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            for one in unescaped(&text) {
                proptest::prop_assert_eq!(one.at.len(), one.text.len() + 1);
                proptest::prop_assert!(one.at.is_sorted() && one.at.iter().all(|at| *at <= text.len()));
            }
        }
    }
}
