//! The forms that a text may take on its way: base64 and its kin, escapes, wide characters, compressed.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    /// As it is.
    Plain,
    Base64,
    Base64Url,
    Base64NoPadding,
    Base64OfUtf16,
    Base64Twice,
    HexLower,
    HexUpper,
    HexSpaced,
    BytesDecimal,
    BytesHex,
    PercentSpecials,
    PercentAll,
    PercentTwice,
    UnicodeEscapesAll,
    UnicodeEscapesSpecials,
    HtmlEntities,
    QuotedPrintable,
    GzipBase64,
    JsonString,
    JsonStringTwice,
    Utf16Le,
    Utf16Be,
    Utf16LeMarked,
    Base64Lines,
    Base64Percent,
    ZlibBase64,
    HexDashes,
    HexColons,
    PercentLower,
    FormPlus,
    HtmlHex,
    HtmlDecimalAll,
    BackslashX,
    BackslashOctal,
    JsonStringThrice,
    Utf16BeMarked,
    Base64UrlNoPadding,
    Base64LinesInJson,
    EncodedWord,
    HexPrefixed,
    HexOfPostgres,
    HexDump,
    BytesOfBuffer,
    BytesOfGo,
    HtmlEntitiesTwice,
    JsonPercent,
    RustDebug,
    PythonBytesOfUtf16,
    Base64LinesOf64,
    HexOfSql,
    HexOfUtf16,
    HexDumpInPairs,
    HexDumpOfPackets,
    UnicodeEscapesUpper,
    BytesHexUpper,
    BackslashXAll,
    PercentThrice,
    JsonOfPhp,
    Base64FoldedInYaml,
    Base64CrlfInJson,
    GzipBase64Twice,
    BytesOfJava,
    BytesOfGdb,
    HexInFours,
    HexDumpOfOd,
    EscapeOfJavaScript,
    LettersAndDots,
    PythonBytes,
}

impl Encoding {
    /// All but the plain one, with names that decide their half.
    pub(super) const ALL: [(&'static str, Self); 23] = [
        ("base64", Self::Base64),
        ("base64-url", Self::Base64Url),
        ("base64-no-padding", Self::Base64NoPadding),
        ("base64-of-utf16", Self::Base64OfUtf16),
        ("base64-twice", Self::Base64Twice),
        ("hex", Self::HexLower),
        ("hex-upper", Self::HexUpper),
        ("hex-spaced", Self::HexSpaced),
        ("bytes-decimal", Self::BytesDecimal),
        ("bytes-hex", Self::BytesHex),
        ("percent", Self::PercentSpecials),
        ("percent-all", Self::PercentAll),
        ("percent-twice", Self::PercentTwice),
        ("unicode-escapes-all", Self::UnicodeEscapesAll),
        ("unicode-escapes", Self::UnicodeEscapesSpecials),
        ("html-entities", Self::HtmlEntities),
        ("quoted-printable", Self::QuotedPrintable),
        ("gzip-base64", Self::GzipBase64),
        ("json-string", Self::JsonString),
        ("json-string-twice", Self::JsonStringTwice),
        ("utf16-le", Self::Utf16Le),
        ("utf16-be", Self::Utf16Be),
        ("utf16-le-marked", Self::Utf16LeMarked),
    ];

    /// Those that only half C has.
    pub(super) const OF_C: [(&'static str, Self); 13] = [
        ("base64 in lines", Self::Base64Lines),
        ("base64 in a query", Self::Base64Percent),
        ("zlib and base64", Self::ZlibBase64),
        ("hex with dashes", Self::HexDashes),
        ("hex with colons", Self::HexColons),
        ("percent, small letters", Self::PercentLower),
        ("form", Self::FormPlus),
        ("entities in hex", Self::HtmlHex),
        ("entities for all", Self::HtmlDecimalAll),
        ("backslash x", Self::BackslashX),
        ("backslash octal", Self::BackslashOctal),
        ("JSON string, three times", Self::JsonStringThrice),
        ("UTF-16 BE, marked", Self::Utf16BeMarked),
    ];

    /// Those that only half D has.
    pub(super) const OF_D: [(&'static str, Self); 12] = [
        ("base64 of URLs without padding", Self::Base64UrlNoPadding),
        ("base64 in lines in JSON", Self::Base64LinesInJson),
        ("encoded word of a mail", Self::EncodedWord),
        ("hex behind 0x", Self::HexPrefixed),
        ("hex of PostgreSQL", Self::HexOfPostgres),
        ("hex dump", Self::HexDump),
        ("bytes of a buffer", Self::BytesOfBuffer),
        ("bytes of Go", Self::BytesOfGo),
        ("entities, twice", Self::HtmlEntitiesTwice),
        ("JSON string in percent", Self::JsonPercent),
        ("Rust debug", Self::RustDebug),
        ("Python bytes of UTF-16", Self::PythonBytesOfUtf16),
    ];

    /// Those that only half E has.
    pub(super) const OF_E: [(&'static str, Self); 10] = [
        ("base64 in lines of 64", Self::Base64LinesOf64),
        ("hex of SQL", Self::HexOfSql),
        ("hex of UTF-16", Self::HexOfUtf16),
        ("hex dump in pairs", Self::HexDumpInPairs),
        ("hex dump of packets", Self::HexDumpOfPackets),
        ("Unicode escapes in capitals", Self::UnicodeEscapesUpper),
        ("bytes in hex, capitals", Self::BytesHexUpper),
        ("backslash x for all", Self::BackslashXAll),
        ("percent, three times", Self::PercentThrice),
        ("JSON of PHP", Self::JsonOfPhp),
    ];

    /// Those that only half F has.
    pub(super) const OF_F: [(&'static str, Self); 10] = [
        ("base64 folded in YAML", Self::Base64FoldedInYaml),
        ("base64 in lines of CRLF in JSON", Self::Base64CrlfInJson),
        ("gzip, and base64 twice", Self::GzipBase64Twice),
        ("bytes of Java", Self::BytesOfJava),
        ("bytes of gdb", Self::BytesOfGdb),
        ("hex in groups of four bytes", Self::HexInFours),
        ("hex dump of od", Self::HexDumpOfOd),
        ("escape of JavaScript", Self::EscapeOfJavaScript),
        ("UTF-16 as tcpdump shows it", Self::LettersAndDots),
        ("Python bytes", Self::PythonBytes),
    ];

    /// Whether it is of whole documents.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be | Self::Utf16LeMarked | Self::Utf16BeMarked)
    }

    /// The text in this form.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let bytes = text.as_bytes();
        match self {
            Self::Plain => bytes.to_vec(),
            Self::Base64 => base64(bytes, STANDARD, true).into_bytes(),
            Self::Base64Url => base64(bytes, URL, true).into_bytes(),
            Self::Base64NoPadding => base64(bytes, STANDARD, false).into_bytes(),
            Self::Base64OfUtf16 => base64(&wide(text, false), STANDARD, true).into_bytes(),
            Self::Base64Twice => {
                base64(base64(bytes, STANDARD, true).as_bytes(), STANDARD, true).into_bytes()
            }
            Self::HexLower => each(bytes, "", |byte| format!("{byte:02x}")),
            Self::HexUpper => each(bytes, "", |byte| format!("{byte:02X}")),
            Self::HexSpaced => each(bytes, " ", |byte| format!("{byte:02x}")),
            Self::BytesDecimal => each(bytes, ", ", |byte| byte.to_string()),
            Self::BytesHex => each(bytes, ", ", |byte| format!("0x{byte:02x}")),
            Self::PercentSpecials => percent(text).into_bytes(),
            Self::PercentAll => each(bytes, "", |byte| format!("%{byte:02X}")),
            Self::PercentTwice => percent(&percent(text)).into_bytes(),
            Self::UnicodeEscapesAll => escapes(text, |_| true),
            Self::UnicodeEscapesSpecials => {
                escapes(text, |letter| !letter.is_ascii() || "\"'&<>+=;".contains(letter))
            }
            Self::HtmlEntities => entities(text, |letter| format!("&#{};", letter as u32)),
            Self::QuotedPrintable => quoted_printable(bytes),
            Self::GzipBase64 => base64(&gzip(bytes), STANDARD, true).into_bytes(),
            Self::JsonString => json(text).into_bytes(),
            Self::JsonStringTwice => json(&json(text)).into_bytes(),
            Self::Utf16Le => wide(text, false),
            Self::Utf16Be => wide(text, true),
            Self::Utf16LeMarked => [vec![0xff, 0xfe], wide(text, false)].concat(),
            Self::Base64Lines => {
                let all = base64(bytes, STANDARD, true).into_bytes();
                all.chunks(LINE).collect::<Vec<_>>().join(&b'\n')
            }
            Self::Base64Percent => percent(&base64(bytes, STANDARD, true)).into_bytes(),
            Self::ZlibBase64 => base64(&zlib(bytes), STANDARD, true).into_bytes(),
            Self::HexDashes => each(bytes, "-", |byte| format!("{byte:02X}")),
            Self::HexColons => each(bytes, ":", |byte| format!("{byte:02x}")),
            Self::PercentLower => percent_with(text, |byte| format!("%{byte:02x}")).into_bytes(),
            Self::FormPlus => percent(text).replace("%20", "+").into_bytes(),
            Self::HtmlHex => entities(text, |letter| format!("&#x{:x};", letter as u32)),
            Self::HtmlDecimalAll => {
                text.chars().map(|letter| format!("&#{};", letter as u32)).collect::<String>().into_bytes()
            }
            Self::BackslashX => each(bytes, "", |byte| match byte {
                b'"' | b'\\' | ..32 | 127.. => format!("\\x{byte:02X}"),
                byte => char::from(byte).to_string(),
            }),
            Self::BackslashOctal => each(bytes, "", |byte| match byte {
                b'"' | b'\\' | b'=' | ..=32 | 127.. => format!("\\{byte:03o}"),
                byte => char::from(byte).to_string(),
            }),
            Self::JsonStringThrice => json(&json(&json(text))).into_bytes(),
            Self::Utf16BeMarked => [vec![0xfe, 0xff], wide(text, true)].concat(),
            Self::Base64UrlNoPadding => base64(bytes, URL, false).into_bytes(),
            Self::Base64LinesInJson => {
                let all = base64(bytes, STANDARD, true).into_bytes();
                all.chunks(LINE_OF_CONTENT).collect::<Vec<_>>().join(&b"\\n"[..])
            }
            Self::EncodedWord => {
                let word = |part: &[u8]| format!("=?UTF-8?B?{}?=", base64(part, STANDARD, true));
                bytes.chunks(BYTES_OF_WORD).map(word).collect::<Vec<_>>().join("\n ").into_bytes()
            }
            Self::HexPrefixed => [b"0x".to_vec(), Self::HexUpper.encode(text)].concat(),
            Self::HexOfPostgres => [b"\\x".to_vec(), Self::HexLower.encode(text)].concat(),
            Self::HexDump => hex_dump(bytes).into_bytes(),
            Self::BytesOfBuffer => each(bytes, ",", |byte| byte.to_string()),
            Self::BytesOfGo => each(bytes, " ", |byte| byte.to_string()),
            Self::HtmlEntitiesTwice => {
                let once = Self::HtmlEntities.encode(text);
                String::from_utf8_lossy(&once).replace('&', "&amp;").into_bytes()
            }
            Self::JsonPercent => percent(&json(text)).into_bytes(),
            Self::RustDebug => {
                let quoted = format!("{text:?}");
                quoted.as_bytes()[1..quoted.len() - 1].to_vec()
            }
            Self::PythonBytesOfUtf16 => each(&wide(text, false), "", |byte| match byte {
                b'\n' => "\\n".to_owned(),
                b'\'' | b'\\' | ..32 | 127.. => format!("\\x{byte:02x}"),
                byte => char::from(byte).to_string(),
            }),
            Self::Base64LinesOf64 => {
                let all = base64(bytes, STANDARD, true).into_bytes();
                all.chunks(LINE_OF_PEM).collect::<Vec<_>>().join(&b'\n')
            }
            Self::HexOfSql => [b"X'".to_vec(), Self::HexUpper.encode(text), b"'".to_vec()].concat(),
            Self::HexOfUtf16 => each(&wide(text, false), "", |byte| format!("{byte:02X}")),
            Self::HexDumpInPairs => hex_dump_in_pairs(bytes, "", ": ").into_bytes(),
            Self::HexDumpOfPackets => hex_dump_in_pairs(bytes, "\t0x", ":  ").into_bytes(),
            Self::UnicodeEscapesUpper => {
                let escaped = |letter: char| !letter.is_ascii() || "\"'&<>+=;:".contains(letter);
                let mut buffer = [0; 2];
                let mut written = String::new();
                for letter in text.chars() {
                    match escaped(letter) {
                        true => letter
                            .encode_utf16(&mut buffer)
                            .iter()
                            .for_each(|unit| _ = write!(written, "\\u{unit:04X}")),
                        false => written.push(letter),
                    }
                }
                written.into_bytes()
            }
            Self::BytesHexUpper => each(bytes, ",", |byte| format!("0x{byte:02X}")),
            Self::BackslashXAll => each(bytes, "", |byte| format!("\\x{byte:02x}")),
            Self::PercentThrice => percent(&percent(&percent(text))).into_bytes(),
            Self::JsonOfPhp => {
                let escaped = escapes(&json(text), |letter| !letter.is_ascii());
                String::from_utf8_lossy(&escaped).replace('/', "\\/").into_bytes()
            }
            Self::Base64FoldedInYaml => {
                let all = base64(bytes, STANDARD, true).into_bytes();
                all.chunks(LINE_OF_PEM).collect::<Vec<_>>().join(&b"\n    "[..])
            }
            Self::Base64CrlfInJson => {
                let all = base64(bytes, STANDARD, true).into_bytes();
                all.chunks(LINE).collect::<Vec<_>>().join(&b"\\r\\n"[..])
            }
            Self::GzipBase64Twice => {
                let once = base64(&gzip(bytes), STANDARD, true);
                base64(once.as_bytes(), STANDARD, true).into_bytes()
            }
            Self::BytesOfJava => each(bytes, ", ", |byte| byte.cast_signed().to_string()),
            Self::BytesOfGdb => each(bytes, ", ", |byte| match byte {
                b'\'' | b'\\' => format!("{byte} '\\{}'", char::from(byte)),
                b'\n' => format!("{byte} '\\n'"),
                ..32 | 127.. => format!("{byte} '\\{byte:03o}'"),
                byte => format!("{byte} '{}'", char::from(byte)),
            }),
            Self::HexInFours => {
                let group = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                bytes.chunks(BYTES_OF_GROUP).map(group).collect::<Vec<_>>().join(" ").into_bytes()
            }
            Self::HexDumpOfOd => {
                let row = |(index, row): (usize, &[u8])| {
                    let hex: String = row.iter().map(|byte| format!(" {byte:02x}")).collect();
                    format!("{:07o}{hex}", index * BYTES_OF_ROW)
                };
                let rows = bytes.chunks(BYTES_OF_ROW).enumerate().map(row);
                rows.collect::<Vec<_>>().join("\n").into_bytes()
            }
            Self::EscapeOfJavaScript => {
                let is_kept = |letter: char| letter.is_ascii_alphanumeric() || "@*_+-./".contains(letter);
                let mut written = String::new();
                for letter in text.chars() {
                    match letter {
                        letter if is_kept(letter) => written.push(letter),
                        '\0'..='\u{ff}' => _ = write!(written, "%{:02X}", letter as u32),
                        letter => letter
                            .encode_utf16(&mut [0; 2])
                            .iter()
                            .for_each(|unit| _ = write!(written, "%u{unit:04X}")),
                    }
                }
                written.into_bytes()
            }
            Self::LettersAndDots => each(&wide(text, false), "", |byte| match byte {
                b'\n' => "\n".to_owned(),
                ..32 | 127.. => ".".to_owned(),
                byte => char::from(byte).to_string(),
            }),
            Self::PythonBytes => each(bytes, "", |byte| match byte {
                b'\n' => "\\n".to_owned(),
                b'\r' => "\\r".to_owned(),
                b'\t' => "\\t".to_owned(),
                b'\'' | b'\\' => format!("\\{}", char::from(byte)),
                ..32 | 127.. => format!("\\x{byte:02x}"),
                byte => char::from(byte).to_string(),
            }),
        }
    }
}

/// Letters of base64 in one line of a mail, and of what GitHub answers with.
const LINE: usize = 76;
const LINE_OF_CONTENT: usize = 60;
/// The same of what `openssl base64` writes.
const LINE_OF_PEM: usize = 64;
/// Bytes in one encoded word of a mail.
const BYTES_OF_WORD: usize = 45;
/// Bytes in one row of a dump, and in one half of it.
const BYTES_OF_ROW: usize = 16;
/// Bytes in one group, as debuggers write words.
pub(super) const BYTES_OF_GROUP: usize = 4;

pub(super) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(super) fn base64(bytes: &[u8], alphabet: &[u8; 64], padded: bool) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut sum = [0; 3];
        sum[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, sum[0], sum[1], sum[2]]);
        let letters = [18, 12, 6, 0].map(|shift| alphabet[(bits >> shift & 63) as usize] as char);
        text.extend(letters.iter().take(group.len() + 1));
        if padded {
            text.extend(std::iter::repeat_n('=', 3 - group.len()));
        }
    }
    text
}

/// UTF-16 in either order.
pub(super) fn wide(text: &str, big_endian: bool) -> Vec<u8> {
    text.encode_utf16()
        .flat_map(|unit| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() })
        .collect()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes what is written")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes what is written")
}

pub(super) fn percent(text: &str) -> String {
    percent_with(text, |byte| format!("%{byte:02X}"))
}

fn percent_with(text: &str, form: impl Fn(u8) -> String) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut escaped = String::new();
    for byte in text.bytes() {
        match is_kept(byte) {
            true => escaped.push(byte as char),
            false => escaped.push_str(&form(byte)),
        }
    }
    escaped
}

/// What stands between the quotes of a JSON string.
pub(super) fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn each(bytes: &[u8], between: &str, form: impl Fn(u8) -> String) -> Vec<u8> {
    bytes.iter().map(|byte| form(*byte)).collect::<Vec<_>>().join(between).into_bytes()
}

fn escapes(text: &str, is_escaped: impl Fn(char) -> bool) -> Vec<u8> {
    let mut escaped = String::new();
    for letter in text.chars() {
        match is_escaped(letter) {
            true => {
                letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(escaped, "\\u{unit:04x}"))
            }
            false => escaped.push(letter),
        }
    }
    escaped.into_bytes()
}

fn entities(text: &str, form: impl Fn(char) -> String) -> Vec<u8> {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_alphanumeric() && letter.is_ascii() || " .-_".contains(letter) => {
                escaped.push(letter)
            }
            letter => escaped.push_str(&form(letter)),
        }
    }
    escaped.into_bytes()
}

/// As `hexdump -C` writes it.
fn hex_dump(bytes: &[u8]) -> String {
    let row = |(index, row): (usize, &[u8])| {
        let half = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let halves: Vec<String> = row.chunks(BYTES_OF_ROW / 2).map(half).collect();
        let letters: String =
            row.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        format!("{:08x}  {:<48}  |{letters}|", index * BYTES_OF_ROW, halves.join("  "))
    };
    bytes.chunks(BYTES_OF_ROW).enumerate().map(row).collect::<Vec<_>>().join("\n")
}

/// As `xxd` and `tcpdump -X` write it.
fn hex_dump_in_pairs(bytes: &[u8], before: &str, behind: &str) -> String {
    let row = |(index, row): (usize, &[u8])| {
        let pair = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let pairs: Vec<String> = row.chunks(2).map(pair).collect();
        let letters: String =
            row.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        let address = match before {
            "" => format!("{:08x}", index * BYTES_OF_ROW),
            before => format!("{before}{:04x}", index * BYTES_OF_ROW),
        };
        format!("{address}{behind}{:<39}  {letters}", pairs.join(" "))
    };
    bytes.chunks(BYTES_OF_ROW).enumerate().map(row).collect::<Vec<_>>().join("\n")
}

fn quoted_printable(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = String::new();
    let mut column = 0;
    for byte in bytes {
        let form = match byte {
            b'=' | 127.. | ..32 => format!("={byte:02X}"),
            byte => (*byte as char).to_string(),
        };
        if column + form.len() > 75 {
            encoded.push_str("=\r\n");
            column = 0;
        }
        column += form.len();
        encoded.push_str(&form);
    }
    encoded.into_bytes()
}
