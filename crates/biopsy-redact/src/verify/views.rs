//! A window decoded in the ways that its bytes suggest, each byte with the place it came from.

/// A decoded window.
pub(super) struct View {
    /// Name of the encoding.
    pub(super) name: &'static str,
    /// The decoded bytes.
    pub(super) bytes: Vec<u8>,
    /// It is text again, so shapes and pairs may be looked for too.
    pub(super) text_like: bool,
    /// Place in the window of each decoded byte, in steps of `STEP`.
    places: Vec<usize>,
}

/// Decoded bytes per remembered place: exact enough to find it by eye.
const STEP: usize = 16;
/// Shortest run that is tried as base64 or hex, in characters.
const RUN_MIN: usize = 8;

/// Byte orders and parities of UTF-16.
const WIDE: [(&str, bool, usize); 4] =
    [("UTF-16LE", false, 0), ("UTF-16LE", false, 1), ("UTF-16BE", true, 0), ("UTF-16BE", true, 1)];

impl View {
    fn new(name: &'static str, text_like: bool) -> Self {
        Self { name, bytes: Vec::new(), text_like, places: Vec::new() }
    }

    fn push(&mut self, byte: u8, place: usize) {
        if self.bytes.len().is_multiple_of(STEP) {
            self.places.push(place);
        }
        self.bytes.push(byte);
    }

    fn push_char(&mut self, character: char, place: usize) {
        let mut utf8 = [0u8; 4];
        for byte in character.encode_utf8(&mut utf8).bytes() {
            self.push(byte, place);
        }
    }

    /// Where a decoded byte came from.
    pub(super) fn source(&self, at: usize) -> usize {
        self.places.get(at / STEP).copied().unwrap_or_default()
    }
}

/// Calls `look` with every view that differs from the window.
pub(super) fn each(window: &[u8], look: &mut impl FnMut(&View)) {
    let zeros = memchr::memchr_iter(0, window).count();
    if zeros > 0 {
        look(&without_zeros(window));
        if zeros * 8 >= window.len() {
            for (name, big, from) in WIDE {
                look(&utf16(window, name, big, from));
            }
        }
    }
    if memchr::memchr(b'%', window).is_some() || memchr::memchr(b'+', window).is_some() {
        look(&percent(window, false));
        look(&percent(window, true));
    }
    if memchr::memchr(b'\\', window).is_some() {
        let once = backslashes(window);
        look(&once);
        if memchr::memchr(b'\\', &once.bytes).is_some() {
            let mut twice = backslashes(&once.bytes);
            for place in &mut twice.places {
                *place = once.source(*place);
            }
            look(&twice);
        }
    }
    if memchr::memchr(b'&', window).is_some() {
        look(&entities(window));
    }
}

/// Calls `look` with every run of base64 and hex, decoded at every phase, its name, and where it starts. These are bytes
/// rather than text, and there are so many of them that they share one buffer.
pub(super) fn each_run(window: &[u8], look: &mut impl FnMut(&[u8], &'static str, usize)) {
    let mut bytes = Vec::new();
    let base64_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_');
    runs(window, base64_byte, &mut |at, run| {
        for phase in 0..4 {
            bytes.clear();
            base64(&run[phase..], &mut bytes);
            look(&bytes, "base64", at);
            if memchr::memchr(0, &bytes).is_some() {
                for (name, big, from) in WIDE {
                    look(&utf16(&bytes, name, big, from).bytes, "UTF-16 in base64", at);
                }
            }
        }
        if run.len() >= 2 * RUN_MIN && run.iter().all(u8::is_ascii_hexdigit) {
            for phase in 0..2 {
                bytes.clear();
                hex(&run[phase..], &mut bytes);
                look(&bytes, "hex", at);
            }
        }
    });
}

/// UTF-16 of either order and parity, as far as it is Latin: bytes with a zero beside them, and a byte and a zero behind
/// that. Single zeros are separators, as in environment blocks, and join nothing.
fn without_zeros(window: &[u8]) -> View {
    let mut view = View::new("UTF-16", true);
    let zero = |at: Option<usize>| at.and_then(|at| window.get(at)) == Some(&0);
    let other = |at: Option<usize>| at.and_then(|at| window.get(at)).is_some_and(|b| *b != 0);
    for (at, byte) in window.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        let goes_on = zero(Some(at + 1)) && other(Some(at + 2)) && zero(Some(at + 3));
        let went_on = zero(at.checked_sub(1)) && other(at.checked_sub(2)) && zero(at.checked_sub(3));
        if goes_on || went_on {
            view.push(*byte, at);
        } else if view.bytes.last().is_some_and(|last| *last != b'\n') {
            view.push(b'\n', at);
        }
    }
    view
}

fn utf16(window: &[u8], name: &'static str, big: bool, from: usize) -> View {
    let mut view = View::new(name, false);
    let units = window[from.min(window.len())..].chunks_exact(2).map(|pair| {
        if big { u16::from_be_bytes([pair[0], pair[1]]) } else { u16::from_le_bytes([pair[0], pair[1]]) }
    });
    let mut at = from;
    for decoded in char::decode_utf16(units) {
        let character = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
        view.push_char(character, at);
        at += 2 * character.len_utf16();
    }
    view
}

fn nibble(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn percent(window: &[u8], plus_is_blank: bool) -> View {
    let mut view = View::new("percent-encoded", true);
    let mut at = 0;
    while at < window.len() {
        let code = match window[at..] {
            [b'%', a, b, ..] => nibble(a).zip(nibble(b)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                view.push(high << 4 | low, at);
                at += 3;
            }
            None => {
                view.push(if plus_is_blank && window[at] == b'+' { b' ' } else { window[at] }, at);
                at += 1;
            }
        }
    }
    view
}

fn backslashes(window: &[u8]) -> View {
    let mut view = View::new("escaped", true);
    let mut at = 0;
    while at < window.len() {
        if window[at] != b'\\' {
            view.push(window[at], at);
            at += 1;
            continue;
        }
        match window.get(at + 1) {
            Some(b'u') => {
                let (character, length) = unicode_escape(&window[at..]);
                match character {
                    Some(character) => view.push_char(character, at),
                    None => view.push(b'\\', at),
                }
                at += length;
            }
            Some(b'n' | b'r' | b't') => {
                view.push(b'\n', at);
                at += 2;
            }
            Some(other) => {
                view.push(*other, at);
                at += 2;
            }
            None => at += 1,
        }
    }
    view
}

/// `\u00e4`, or a surrogate pair of two.
fn unicode_escape(text: &[u8]) -> (Option<char>, usize) {
    let unit = |at: usize| -> Option<u32> {
        let code = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        code.iter().try_fold(0u32, |value, byte| Some(value << 4 | u32::from(nibble(*byte)?)))
    };
    match (unit(0), unit(6)) {
        (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) => {
            (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)
        }
        (Some(value), _) => (char::from_u32(value), 6),
        (None, _) => (None, 1),
    }
}

fn entities(window: &[u8]) -> View {
    const NAMED: [(&[u8], u8); 9] = [
        (b"&amp;", b'&'),
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&quot;", b'"'),
        (b"&apos;", b'\''),
        (b"&#39;", b'\''),
        (b"&#x27;", b'\''),
        (b"&#34;", b'"'),
        (b"&#43;", b'+'),
    ];
    let mut view = View::new("with entities", true);
    let mut at = 0;
    while at < window.len() {
        let named = if window[at] == b'&' {
            NAMED.iter().find(|(name, _)| window[at..].starts_with(name))
        } else {
            None
        };
        match named {
            Some((name, byte)) => {
                view.push(*byte, at);
                at += name.len();
            }
            None => {
                view.push(window[at], at);
                at += 1;
            }
        }
    }
    view
}

/// Calls `found` with every run of at least `RUN_MIN` bytes of a kind.
fn runs(window: &[u8], belongs: impl Fn(u8) -> bool, found: &mut impl FnMut(usize, &[u8])) {
    let mut start = 0;
    for at in 0..=window.len() {
        if !window.get(at).is_some_and(|byte| belongs(*byte)) {
            if at - start >= RUN_MIN {
                found(start, &window[start..at]);
            }
            start = at + 1;
        }
    }
}

/// Both alphabets.
fn base64(run: &[u8], out: &mut Vec<u8>) {
    let mut bits = 0u32;
    let mut held = 0;
    for byte in run {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
}

fn hex(run: &[u8], out: &mut Vec<u8>) {
    for pair in run.chunks_exact(2) {
        if let Some((high, low)) = nibble(pair[0]).zip(nibble(pair[1])) {
            out.push(high << 4 | low);
        }
    }
}

#[cfg(test)]
mod tests;
