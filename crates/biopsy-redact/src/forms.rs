//! The forms a value may take on its way into a log: escaped, percent-encoded, in base64, as hex.

/// One form of a value.
pub(crate) struct Form {
    /// As it stands in text.
    pub(crate) bytes: Vec<u8>,
    /// How it was made.
    pub(crate) kind: FormKind,
}

/// What a form is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FormKind {
    /// The value, as it is or escaped.
    Text,
    /// Part of a base64 run that goes on at both sides.
    Base64,
    /// Two digits a byte.
    Hex,
}

/// Shortest base64 form, in characters: shorter ones turn up by chance.
const BASE64_MIN: usize = 7;

/// All forms, each once, the value itself first.
pub(crate) fn of(value: &[u8]) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut add = |bytes: Vec<u8>, kind: FormKind| {
        if !forms.iter().any(|form| form.bytes == bytes) {
            forms.push(Form { bytes, kind });
        }
    };
    add(value.to_vec(), FormKind::Text);
    for upper in [true, false] {
        add(percent(value, upper, |b| b.is_ascii_alphanumeric() || b"-._~".contains(&b)), FormKind::Text);
        // encodeURIComponent leaves more, and forms write a blank as `+`.
        add(
            percent(value, upper, |b| b.is_ascii_alphanumeric() || b"-._~!*'()".contains(&b)),
            FormKind::Text,
        );
        add(
            plus(percent(value, upper, |b| b.is_ascii_alphanumeric() || b"-._* ".contains(&b))),
            FormKind::Text,
        );
        // Only what breaks a URL, as people do by hand.
        add(percent(value, upper, |b| b.is_ascii_graphic() && !b"%/?#@:&=+".contains(&b)), FormKind::Text);
    }
    for style in [
        Json::Minimal,
        Json::Slash,
        Json::Ascii { upper: false },
        Json::Ascii { upper: true },
        Json::Html { upper: true },
        Json::Html { upper: false },
    ] {
        let once = json(value, style);
        add(json(&once, Json::Minimal), FormKind::Text);
        add(once, FormKind::Text);
    }
    add(xml(value, b"&apos;"), FormKind::Text);
    add(xml(value, b"&#39;"), FormKind::Text);
    for (alphabet, offset) in
        [(STANDARD, 0), (STANDARD, 1), (STANDARD, 2), (URL_SAFE, 0), (URL_SAFE, 1), (URL_SAFE, 2)]
    {
        let bytes = base64_core(value, offset, alphabet);
        if bytes.len() >= BASE64_MIN {
            add(bytes, FormKind::Base64);
        }
    }
    // Base64 of UTF-16LE, as PowerShell's -EncodedCommand.
    if let Some(wide) = std::str::from_utf8(value)
        .ok()
        .map(|v| v.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
    {
        for offset in 0..3 {
            add(base64_core(&wide, offset, STANDARD), FormKind::Base64);
        }
    }
    for upper in [true, false] {
        add(hex(value, upper), FormKind::Hex);
    }
    forms
}

fn push_hex(out: &mut Vec<u8>, byte: u8, upper: bool) {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    out.push(digits[usize::from(byte >> 4)]);
    out.push(digits[usize::from(byte & 15)]);
}

fn percent(value: &[u8], upper: bool, stays: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        if stays(*byte) {
            out.push(*byte);
        } else {
            out.push(b'%');
            push_hex(&mut out, *byte, upper);
        }
    }
    out
}

fn plus(mut encoded: Vec<u8>) -> Vec<u8> {
    for byte in &mut encoded {
        if *byte == b' ' {
            *byte = b'+';
        }
    }
    encoded
}

fn hex(value: &[u8], upper: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() * 2);
    for byte in value {
        push_hex(&mut out, *byte, upper);
    }
    out
}

/// How a JSON writer escapes.
#[derive(Clone, Copy)]
enum Json {
    /// What JSON demands.
    Minimal,
    /// And `/`.
    Slash,
    /// And all beyond ASCII.
    Ascii {
        /// Case of the hex digits.
        upper: bool,
    },
    /// And what HTML minds, as System.Text.Json does.
    Html {
        /// Case of the hex digits.
        upper: bool,
    },
}

fn json(value: &[u8], style: Json) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(value) else { return value.to_vec() };
    let mut out = Vec::with_capacity(value.len());
    let code = |out: &mut Vec<u8>, unit: u16, upper: bool| {
        out.extend_from_slice(b"\\u");
        for byte in unit.to_be_bytes() {
            push_hex(out, byte, upper);
        }
    };
    let mut units = [0u16; 2];
    for character in text.chars() {
        match (character, style) {
            ('"' | '&' | '<' | '>' | '\'' | '+' | '`', Json::Html { upper }) => {
                code(&mut out, character as u16, upper)
            }
            ('"', _) => out.extend_from_slice(b"\\\""),
            ('\\', _) => out.extend_from_slice(b"\\\\"),
            ('/', Json::Slash) => out.extend_from_slice(b"\\/"),
            ('\n', _) => out.extend_from_slice(b"\\n"),
            ('\t', _) => out.extend_from_slice(b"\\t"),
            (c, Json::Ascii { upper } | Json::Html { upper }) if !c.is_ascii() => {
                for unit in c.encode_utf16(&mut units) {
                    code(&mut out, *unit, upper);
                }
            }
            (c, _) => {
                let mut utf8 = [0u8; 4];
                out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
    out
}

fn xml(value: &[u8], apostrophe: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(apostrophe),
            other => out.push(*other),
        }
    }
    out
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The characters of a base64 stream that `value` alone decides, when it starts `offset` bytes (0 to 2) into a group
/// of three.
fn base64_core(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |index: usize| (value[index / 8] >> (7 - index % 8)) & 1;
    let bits = value.len() * 8;
    // The first whole character begins where a multiple of six bits does.
    let mut at = (6 - (offset * 8) % 6) % 6;
    let mut out = Vec::with_capacity(bits / 6 + 1);
    while at + 6 <= bits {
        let index = (at..at + 6).fold(0u8, |index, i| (index << 1) | bit(i));
        out.push(alphabet[usize::from(index)]);
        at += 6;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(value: &str, form: &str) -> bool {
        of(value.as_bytes()).iter().any(|f| f.bytes == form.as_bytes())
    }

    #[test]
    fn forms_that_logs_show() {
        assert!(has("p@ss w/rd+", "p%40ss%20w%2Frd%2B"));
        assert!(has("p@ss w/rd+", "p%40ss+w%2frd%2b"));
        assert!(has("a\"b\\c", r#"a\"b\\c"#));
        assert!(has("a\"b\\c", r#"a\\\"b\\\\c"#));
        assert!(has("a&b'c", r"a\u0026b\u0027c"));
        assert!(has("pässwörd", r"p\u00e4ssw\u00f6rd"));
        assert!(has("a&b<c", "a&amp;b&lt;c"));
        assert!(has("hunter2!", "68756e7465723221"));
    }

    #[test]
    fn base64_is_found_at_every_offset() {
        // printf 'user:hunter2x!' | base64, with 0, 1 and 2 bytes more in front.
        for (encoded, _) in
            [("dXNlcjpodW50ZXIyeCE=", 0), ("eHVzZXI6aHVudGVyMngh", 1), ("eHh1c2VyOmh1bnRlcjJ4IQ==", 2)]
        {
            assert!(
                of(b"hunter2x!").iter().any(|f| f.kind == FormKind::Base64
                    && encoded.contains(std::str::from_utf8(&f.bytes).expect("ASCII"))),
                "{encoded}"
            );
        }
    }
}
