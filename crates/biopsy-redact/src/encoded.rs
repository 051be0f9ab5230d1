//! Texts inside of text: base64, hex and lists of bytes are unpacked and gone over; what holds a secret is masked as a whole.
//! Escapes (percent, `\u0070`, `&#112;`, quoted-printable) are undone with a way back, so that the value alone is masked.
//!
//! Only what unpacks to text is looked into: hashes, ids, keys and pictures do not.

use std::io::Read;
use std::ops::Range;

use crate::wide;

/// Shortest run of base64 or hex that is unpacked: shorter ones hold no key with a value.
const RUN_MIN: usize = 16;
/// Longest run that is unpacked, in bytes.
const RUN_MAX: usize = 32 << 10;
/// Fewest numbers of a list of bytes.
const LIST_MIN: usize = 8;
/// Fewest pairs of digits alone that are taken for hex.
const PAIRS_MIN: usize = 10;
/// Fewest bytes that such a list is written with: a digit for each number, and what is between them.
const LIST_BYTES_MIN: usize = 2 * LIST_MIN - 1;
/// Bytes of what is unpacked that are looked at before the rest is.
const FIRST: usize = 12;
/// Most bytes that a compressed text may unpack to.
const INFLATED_MAX: u64 = 256 << 10;
/// Fewest escapes of a stretch that is looked into.
const ESCAPES_MIN: usize = 3;
/// Longest stretch whose escapes are undone at once.
const ESCAPED_MAX: usize = 8 << 10;

/// A stretch that is a text in another form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Where it stands.
    pub(crate) range: Range<usize>,
    /// The text.
    pub(crate) text: Vec<u8>,
}

/// Texts in base64, in hex, and as lists of bytes.
pub(crate) fn runs(text: &[u8]) -> Vec<Run> {
    let mut found = Vec::new();
    for_each_stretch(text, RUN_MIN, is_base64, |stretch| {
        let mut at = stretch.start;
        while at + RUN_MIN <= stretch.end {
            let mut end = stretch.end.min(at + RUN_MAX);
            end += text[end..].iter().take(2).take_while(|b| **b == b'=').count();
            found.extend(unpack(&text[at..end]).map(|text| Run { range: at..end, text }));
            at = end;
        }
    });
    for_each_stretch(text, LIST_BYTES_MIN, is_of_list, |stretch| lists(text, stretch, &mut found));
    found
}

/// Lists of bytes in a stretch that holds nothing but what they are written with.
fn lists(text: &[u8], stretch: Range<usize>, found: &mut Vec<Run>) {
    let word_end = |from: usize| from + text[from..stretch.end].iter().take_while(|b| is_base64(**b)).count();
    // What begins in front of the stretch is no number.
    let begins_inside = stretch.start == 0 || !is_base64(text[stretch.start - 1]);
    let mut at = if begins_inside { stretch.start } else { word_end(stretch.start) };
    while at + LIST_BYTES_MIN <= stretch.end {
        if !is_base64(text[at]) {
            at += 1;
            continue;
        }
        let end = word_end(at);
        // Pairs of digits may be of hex or of ten: what is a text is right.
        let of_hex = if end - at == 2 { pairs(text, at) } else { None };
        let of_ten = text[at].is_ascii_digit().then(|| list(text, at)).flatten();
        let list_end = of_hex.as_ref().or(of_ten.as_ref()).map_or(end, |(list_end, _)| *list_end);
        let text =
            [of_hex, of_ten].into_iter().flatten().find_map(|(end, bytes)| Some((end, as_text(bytes)?)));
        at = match text {
            Some((list_end, text)) => {
                found.push(Run { range: at..list_end, text });
                list_end
            }
            None => list_end,
        };
    }
}

/// Calls `each` with every stretch of at least `least` bytes that all belong. Every stretch covers one of each `least` bytes, so that
/// hardly any other is looked at.
fn for_each_stretch(
    text: &[u8],
    least: usize,
    belongs: impl Fn(u8) -> bool,
    mut each: impl FnMut(Range<usize>),
) {
    let (mut floor, mut at) = (0, least - 1);
    while at < text.len() {
        // From behind, what ends a stretch is met first.
        if let Some(ends) = text[floor..=at].iter().rposition(|b| !belongs(*b)) {
            floor += ends + 1;
        } else {
            let end = at + 1 + text[at + 1..].iter().take_while(|b| belongs(**b)).count();
            each(floor..end);
            floor = end;
        }
        at = floor + least - 1;
    }
}

/// What lists of bytes are written with.
fn is_of_list(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let of = byte as u8;
            table[byte] = of.is_ascii_hexdigit() || matches!(of, b'x' | b'X' | b',' | b' ' | b':');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

fn is_base64(byte: u8) -> bool {
    /// Looked up: every byte of every text is asked.
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let of = byte as u8;
            table[byte] = of.is_ascii_alphanumeric() || matches!(of, b'+' | b'/' | b'-' | b'_');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// The text of a run, if it is one. Most are not, and their first bytes say so.
fn unpack(run: &[u8]) -> Option<Vec<u8>> {
    let digits = run.len() - usize::from(run.len() % 2 == 1);
    let from_hex = |run: &[u8]| -> Option<Vec<u8>> {
        run.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
    };
    if run[..RUN_MIN].iter().all(u8::is_ascii_hexdigit)
        && from_hex(&run[..RUN_MIN]).is_some_and(|first| may_begin_text(&first))
        && let Some(text) = from_hex(&run[..digits]).and_then(as_text)
    {
        return Some(text);
    }
    let mut first = [0; FIRST];
    let length = into_base64(&run[..FIRST * 4 / 3], |at, byte| first[at] = byte);
    if !may_begin_text(&first[..length]) {
        return None;
    }
    as_text(from_base64(run))
}

/// May a text begin so: in UTF-8, in UTF-16, or compressed?
fn may_begin_text(first: &[u8]) -> bool {
    let is_low = |at: usize| first.iter().skip(at).step_by(2).filter(|b| **b < 8).count();
    let is_wide = |low: usize, high: usize| low * 4 >= first.len() && high * 4 < first.len();
    match first {
        [0x1f, 0x8b, 8, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return true,
        _ if is_wide(is_low(0), is_low(1)) || is_wide(is_low(1), is_low(0)) => return true,
        _ => {}
    }
    let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
    first.iter().all(|b| is_of_text(*b)) && std::str::from_utf8(first).map_or_else(is_cut, |_| true)
}

/// Bytes as the text that they are: UTF-8, UTF-16, or one of them compressed.
fn as_text(bytes: Vec<u8>) -> Option<Vec<u8>> {
    if bytes.starts_with(&[0x1f, 0x8b, 8]) {
        let mut text = Vec::new();
        // A stream that is cut off gives what there is of it.
        let _ = flate2::read::GzDecoder::new(bytes.as_slice()).take(INFLATED_MAX).read_to_end(&mut text);
        return is_printable(&text).then_some(text);
    }
    if let Some(order) = wide::detect(&bytes).or_else(|| wide::detect_mixed(&bytes)) {
        let text = wide::fold(&bytes, order).text;
        return is_printable(&text).then_some(text);
    }
    is_printable(&bytes).then_some(bytes)
}

/// At least eight characters, of which none is a control character that no text has. The last one may be cut in two.
fn is_printable(bytes: &[u8]) -> bool {
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => bytes,
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Err(_) => return false,
    };
    whole.len() >= 8 && whole.iter().all(|b| is_of_text(*b))
}

/// No control character that no text has.
fn is_of_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b)
}

fn from_base64(run: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(run.len() * 3 / 4);
    into_base64(run, |_, byte| bytes.push(byte));
    bytes
}

/// Gives each byte of a run, with its place, and says how many there are.
fn into_base64(run: &[u8], mut each: impl FnMut(usize, u8)) -> usize {
    let (mut bits, mut count, mut length) = (0_u32, 0, 0);
    for byte in run {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            each(length, (bits >> count & 0xff) as u8);
            length += 1;
        }
    }
    length
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// `112, 97, 115`, `0x70,0x61`, `70 61 73`: where it ends, and its bytes.
fn list(text: &[u8], start: usize) -> Option<(usize, Vec<u8>)> {
    let reach = &text[start..text.len().min(start + RUN_MAX)];
    let mut bytes = Vec::new();
    let (mut at, mut end) = (0, 0);
    loop {
        let (length, value) = number(&reach[at..])?;
        bytes.push(value);
        end = at.saturating_add(length).max(end);
        at = end + reach[end..].iter().take(2).take_while(|b| matches!(b, b',' | b' ')).count();
        let goes_on = at > end && number(&reach[at..]).is_some();
        if !goes_on {
            return (bytes.len() >= LIST_MIN).then_some((start + end, bytes));
        }
    }
}

/// `70 61 73 73`, `70:61:73:73`: pairs of hex digits with one separator, of which one has a letter, or which are many.
fn pairs(text: &[u8], start: usize) -> Option<(usize, Vec<u8>)> {
    let reach = &text[start..text.len().min(start + RUN_MAX)];
    let separator = *reach.get(2).filter(|b| matches!(b, b' ' | b':' | b','))?;
    let mut bytes = Vec::new();
    let mut at = 0;
    while let (Some(high), Some(low)) =
        (reach.get(at).and_then(|b| digit(*b)), reach.get(at + 1).and_then(|b| digit(*b)))
    {
        bytes.push(high << 4 | low);
        at += 2;
        if reach.get(at) != Some(&separator) {
            break;
        }
        at += 1;
    }
    let end = if reach[..at].ends_with(&[separator]) { at - 1 } else { at };
    let has_letter = reach[..end].iter().any(u8::is_ascii_alphabetic);
    let least = if has_letter { LIST_MIN } else { PAIRS_MIN };
    (bytes.len() >= least).then_some((start + end, bytes))
}

/// A byte in decimal, or in hex behind `0x`.
fn number(text: &[u8]) -> Option<(usize, u8)> {
    let is_hex = text.len() > 2 && text[0] == b'0' && matches!(text[1], b'x' | b'X');
    let (skip, radix) = if is_hex { (2, 16) } else { (0, 10) };
    let digits = text[skip..].iter().take(4).take_while(|b| char::from(**b).is_digit(radix)).count();
    let word = std::str::from_utf8(&text[skip..skip + digits]).ok()?;
    Some((skip + digits, u8::from_str_radix(word, radix).ok()?))
}

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
        let mut again = undo(&self.text, 0, is_quoted_printable(&self.text), 1)?;
        again.at.iter_mut().for_each(|at| *at = self.at[*at]);
        Some(again)
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
        _ if text[0] == b'&' && text[1] != b'#' => 0,
        // What separates a name from its value is worth the look alone.
        0x3d | 0x22 | 0x3a => ESCAPES_MIN,
        // `%25` in front of two digits was escaped twice; and who writes letters and signs as numbers has others, too.
        0x25 if text.get(3..5).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => ESCAPES_MIN,
        0x21..=0x7e if text[0] == b'&' && character != 0x27 => ESCAPES_MIN,
        // So does the end of a line that quoted-printable has written out or put in.
        NOTHING | 0x0a if is_quoted => ESCAPES_MIN,
        NOTHING => 0,
        _ => 1,
    }
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
    (escapes >= least).then_some(undone)
}

/// The escape that a text begins with: its length and character.
fn escape(text: &[u8]) -> Option<(usize, u32)> {
    let hex = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    match text {
        [b'=', b'\r', b'\n', ..] => Some((3, NOTHING)),
        [b'=', b'\n', ..] => Some((2, NOTHING)),
        [b'%' | b'=', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            Some((3, hex(&text[1..3])?))
        }
        [b'\\', b'u', ..] => Some((6, hex(text.get(2..6)?)?)),
        [b'\\', b'x', ..] => Some((4, hex(text.get(2..4)?)?)),
        [b'&', b'#', ..] => {
            let end = memchr::memchr(b';', &text[..text.len().min(10)])?;
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

/// Entities by name.
const NAMED: [(&[u8], u32); 5] =
    [(b"&amp;", 0x26), (b"&quot;", 0x22), (b"&lt;", 0x3c), (b"&gt;", 0x3e), (b"&apos;", 0x27)];
/// No character: the end of a line that goes on.
const NOTHING: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        runs(text.as_bytes()).into_iter().map(|run| String::from_utf8(run.text).expect("UTF-8")).collect()
    }

    #[test]
    fn texts_are_unpacked_whatever_their_form_is() {
        assert_eq!(texts("body cGFzc3dvcmQ9aHVudGVyMg== end"), ["password=hunter2"]);
        assert_eq!(texts("x=cGFzc3dvcmQ9aHVudGVyMg;"), ["password=hunter2"]);
        assert_eq!(texts("70617373776f72643d68756e74657232"), ["password=hunter2"]);
        assert_eq!(texts("[112, 97, 115, 115, 61, 97, 98, 99, 100]"), ["pass=abcd"]);
        assert_eq!(texts("{0x70,0x61,0x73,0x73,0x3d,0x61,0x62,0x63,0x64}"), ["pass=abcd"]);
        assert_eq!(texts("b 70 61 73 73 3d 61 62 63 64 e"), ["pass=abcd"]);
        assert_eq!(texts("70:61:73:73:3d:61:62:63:64"), ["pass=abcd"]);
        assert_eq!(texts("cAB3AGQAPQBhAGIAYwBkAGUAZgA="), ["pwd=abcdef"]);
    }

    #[test]
    fn what_is_no_text_is_left_alone() {
        for none in [
            "d41d8cd98f00b204e9800998ecf8427e",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
            "/usr/share/dotnet/shared/Microsoft",
            "1, 2, 3, 4, 5, 6, 7, 8, 9",
            "300, 97, 115, 115, 61, 97, 98, 99",
            "",
        ] {
            assert_eq!(texts(none), Vec::<String>::new(), "{none}");
        }
    }

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
        let twice = unescaped(b"x%2525y%253D%253Dz")[0].again().expect("escapes");
        assert_eq!(String::from_utf8_lossy(&twice.text), "x%y==z");
        assert_eq!(twice.source(&(4..6)), Some(12..18));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(text in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            for run in runs(&text) {
                proptest::prop_assert!(run.range.end <= text.len());
            }
            for one in unescaped(&text) {
                proptest::prop_assert_eq!(one.at.len(), one.text.len() + 1);
                proptest::prop_assert!(one.at.is_sorted() && one.at.iter().all(|at| *at <= text.len()));
            }
        }

        #[test]
        fn what_was_packed_is_found(text in "[ -~]{12,200}") {
            let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
            let list: Vec<String> = text.bytes().map(|b| b.to_string()).collect();
            for packed in [hex, list.join(", ")] {
                proptest::prop_assert_eq!(texts(&packed), [text.clone()]);
            }
        }
    }
}
