//! How far text goes on as a value: as it is, or escaped in the ways in which programs escape.

/// Backslashes in front of a character: JSON in JSON in a string.
const BACKSLASHES_MAX: usize = 7;

/// How many bytes of `text` spell `value` from its start on, and whether they spell all of it.
///
/// A long value is found by its first bytes alone; this says where it ends, without holding it in every form. One pass,
/// no memory: each byte is the value's next one, or begins an escape of it (`%2F`, `+`, `\"`, `\u00e4`, `&quot;`).
pub(super) fn spelled(text: &[u8], value: &[u8]) -> (usize, bool) {
    let (mut at, mut done) = (0, 0);
    while done < value.len() {
        let (rest, wanted) = (&text[at..], &value[done..]);
        let Some(first) = rest.first() else { break };
        // What begins an escape may be escaped itself.
        let escape: &[u8] = match first {
            b'%' => b"%25",
            b'&' => b"&amp;",
            _ => &[],
        };
        let escaped = !escape.is_empty() && rest.starts_with(escape) && !wanted.starts_with(escape);
        let (taken, spelt) = if first == &wanted[0] {
            if escaped { (escape.len(), 1) } else { (1, 1) }
        } else {
            match first {
                b'%' => percent(rest, wanted),
                b'+' if wanted[0] == b' ' => (1, 1),
                b'\\' => backslash(rest, wanted),
                b'&' => entity(rest, wanted),
                _ => (0, 0),
            }
        };
        if spelt == 0 {
            break;
        }
        at += taken;
        done += spelt;
    }
    (at, done == value.len())
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

fn percent(text: &[u8], value: &[u8]) -> (usize, usize) {
    let code = text.get(1..3).and_then(hex);
    if code == Some(u32::from(value[0])) { (3, 1) } else { (0, 0) }
}

fn backslash(text: &[u8], value: &[u8]) -> (usize, usize) {
    let slashes = text.iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    let Some(next) = text.get(slashes) else { return (0, 0) };
    let short = match next {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => *other,
    };
    // Behind a backslash of the value's own, `\n` is a letter.
    if short == value[0] || *next == value[0] {
        return (slashes + 1, 1);
    }
    let unit = |at: usize| hex(text.get(at + 1..at + 5)?).filter(|_| text.get(at) == Some(&b'u'));
    let Some(high) = unit(slashes) else { return (0, 0) };
    let (code, taken) = if (0xd800..0xdc00).contains(&high) {
        // The other half has as many backslashes.
        match unit(2 * slashes + 5) {
            Some(low @ 0xdc00..0xe000) => {
                (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 2 * slashes + 10)
            }
            _ => return (0, 0),
        }
    } else {
        (high, slashes + 5)
    };
    character(char::from_u32(code), taken, value)
}

fn entity(text: &[u8], value: &[u8]) -> (usize, usize) {
    const NAMED: [(&[u8], char); 5] =
        [(b"&amp;", '&'), (b"&lt;", '<'), (b"&gt;", '>'), (b"&quot;", '"'), (b"&apos;", '\'')];
    if let Some((name, of)) = NAMED.iter().find(|(name, _)| text.starts_with(name)) {
        return character(Some(*of), name.len(), value);
    }
    // `&#39;`, `&#x27;`
    let Some(end) = text.iter().take(12).position(|byte| *byte == b';') else { return (0, 0) };
    let code = match text[..end] {
        [b'&', b'#', b'x' | b'X', ref digits @ ..] => hex(digits),
        [b'&', b'#', ref digits @ ..] => {
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())
        }
        _ => None,
    };
    character(code.and_then(char::from_u32), end + 1, value)
}

/// `taken` bytes, if the value goes on with this character.
fn character(found: Option<char>, taken: usize, value: &[u8]) -> (usize, usize) {
    let mut utf8 = [0; 4];
    match found.map(|found| found.encode_utf8(&mut utf8).len()) {
        Some(length) if value.starts_with(&utf8[..length]) => (taken, length),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn a_value_is_followed_through_every_way_of_escaping() {
        let value = "p@s \"w\\ä&'\u{1f600}/%z".as_bytes();
        for text in [
            "p@s \"w\\ä&'\u{1f600}/%z",
            "p%40s+%22w%5C%c3%a4%26%27%F0%9F%98%80%2F%25z",
            "p@s \\\"w\\\\ä&'\u{1f600}\\/%z",
            "p@s \\\\\\\"w\\\\\\\\ä&'\u{1f600}/%z",
            "p@s \\u0022w\\\\\\u00e4\\u0026\\u0027\\uD83D\\uDE00/%z",
            "p@s &quot;w\\ä&amp;&#39;&#x1f600;/%z",
        ] {
            assert_eq!(spelled(text.as_bytes(), value), (text.len(), true), "{text}");
            let longer = format!("{text} and more");
            assert_eq!(spelled(longer.as_bytes(), value), (text.len(), true), "{longer}");
        }
    }

    #[test]
    fn a_value_that_breaks_off_is_followed_to_there() {
        assert_eq!(spelled(b"correct horse", b"correct house"), (10, false));
        assert_eq!(spelled(b"correct", b"correct house"), (7, false));
        assert_eq!(spelled(b"corr\\u00", b"corr\xc3\xa4"), (4, false));
        assert_eq!(spelled(b"", b"x"), (0, false));
        assert_eq!(spelled(b"\\\\n\\n", b"\\n\n"), (5, true));
    }
}
