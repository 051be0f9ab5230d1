//! What must not be left of a secret: six characters in a row, half of a short one, in any of its forms.

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::{GzDecoder, ZlibDecoder};
use regex::bytes::Regex;

use super::encode::{BYTES_OF_GROUP, Encoding, STANDARD, URL, base64, percent, wide};

/// Characters in a row that give a secret away.
const CHARACTERS: usize = 6;
/// Most bytes that are unpacked.
const UNPACKED_MAX: u64 = 1 << 20;

/// Traces of one secret.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    /// By length in bytes.
    traces: BTreeMap<usize, HashSet<Vec<u8>>>,
    /// Whether what is packed in the output is looked into.
    packed: bool,
}

impl Needle {
    /// Of a secret as it is, as it is written, and in another form.
    pub(super) fn new(secret: &str, written: &str, encoding: Encoding) -> Self {
        let characters = window(secret.chars().count());
        let mut needle = Self {
            traces: BTreeMap::new(),
            packed: matches!(
                encoding,
                Encoding::GzipBase64 | Encoding::ZlibBase64 | Encoding::GzipBase64Twice
            ),
        };
        for text in [secret, written] {
            let windows = windows(text, characters);
            needle.add(windows.iter().map(|window| window.as_bytes().to_vec()));
            needle.add(traces(text, &windows, characters, encoding));
        }
        needle
    }

    fn add(&mut self, traces: impl IntoIterator<Item = Vec<u8>>) {
        for trace in traces.into_iter().filter(|trace| !trace.is_empty()) {
            self.traces.entry(trace.len()).or_default().insert(trace);
        }
    }

    /// Whether something of the secret is left in `output` that is not in `background`, the same without it.
    pub(super) fn survives(&self, output: &[u8], background: &[u8]) -> bool {
        static MASK: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\[redacted:[^\]\s]{1,80}\]").expect("a fixed expression"));
        let output = MASK.replace_all(output, &b"\x01"[..]);
        let is_left = |output: &[u8]| {
            self.traces.iter().any(|(length, traces)| {
                let known: HashSet<&[u8]> =
                    background.windows(*length).filter(|part| traces.contains(*part)).collect();
                output.windows(*length).any(|part| traces.contains(part) && !known.contains(part))
            })
        };
        is_left(&output) || self.packed && unpacked(&output).iter().any(|inner| is_left(inner))
    }
}

/// How many characters in a row give a secret of this length away.
fn window(length: usize) -> usize {
    if length >= 2 * CHARACTERS { CHARACTERS } else { length.div_ceil(2) }
}

/// All parts of that many characters.
fn windows(text: &str, characters: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.windows(characters.max(1)).map(|window| window.iter().collect()).collect()
}

fn traces(text: &str, windows: &[String], characters: usize, encoding: Encoding) -> Vec<Vec<u8>> {
    let of_bytes = |bytes: &[u8], alphabet| -> Vec<Vec<u8>> {
        let length = bytes.len() * characters / text.chars().count().max(1);
        shifted(bytes, alphabet).iter().flat_map(|inner| parts(inner, (length * 8).div_ceil(6))).collect()
    };
    match encoding {
        Encoding::Base64 | Encoding::Base64NoPadding | Encoding::EncodedWord => {
            of_bytes(text.as_bytes(), STANDARD)
        }
        // A short one may stand on both sides of the end of a line.
        Encoding::Base64Lines | Encoding::Base64LinesOf64 => {
            broken(of_bytes(text.as_bytes(), STANDARD), b"\n")
        }
        Encoding::Base64LinesInJson => broken(of_bytes(text.as_bytes(), STANDARD), b"\\n"),
        Encoding::Base64FoldedInYaml => broken(of_bytes(text.as_bytes(), STANDARD), b"\n    "),
        Encoding::Base64CrlfInJson => broken(of_bytes(text.as_bytes(), STANDARD), b"\\r\\n"),
        Encoding::Base64Url | Encoding::Base64UrlNoPadding => of_bytes(text.as_bytes(), URL),
        // What stands in front of the first byte is none of it.
        Encoding::HexPrefixed => windows.iter().map(|window| Encoding::HexUpper.encode(window)).collect(),
        Encoding::HexOfSql => windows.iter().map(|window| Encoding::HexUpper.encode(window)).collect(),
        // Pairs begin at every other byte, and the secret at either.
        Encoding::HexDumpInPairs | Encoding::HexDumpOfPackets => {
            let hex = |part: &[u8], first: usize| {
                let byte = |(index, byte): (usize, &u8)| match (index + first).is_multiple_of(2) && index > 0
                {
                    true => format!(" {byte:02x}"),
                    false => format!("{byte:02x}"),
                };
                part.iter().enumerate().map(byte).collect::<String>().into_bytes()
            };
            let all = text.as_bytes().windows(characters.max(1));
            all.flat_map(|part| [hex(part, 0), hex(part, 1)]).collect()
        }
        Encoding::HexOfPostgres => windows.iter().map(|window| Encoding::HexLower.encode(window)).collect(),
        // Groups begin at every fourth byte, and the secret at any of them.
        Encoding::HexInFours => {
            let hex = |part: &[u8], first: usize| {
                let byte = |(index, byte): (usize, &u8)| match (index + first).is_multiple_of(BYTES_OF_GROUP)
                    && index > 0
                {
                    true => format!(" {byte:02x}"),
                    false => format!("{byte:02x}"),
                };
                part.iter().enumerate().map(byte).collect::<String>().into_bytes()
            };
            let all = text.as_bytes().windows(characters.max(1));
            all.flat_map(|part| (0..BYTES_OF_GROUP).map(move |first| hex(part, first))).collect()
        }
        // Rows cut characters of several bytes.
        Encoding::HexDump | Encoding::HexDumpOfOd => {
            let hex =
                |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            text.as_bytes().windows(characters.max(1)).map(|part| hex(part).into_bytes()).collect()
        }
        Encoding::Base64OfUtf16 => of_bytes(&wide(text, false), STANDARD),
        Encoding::Base64Twice => {
            let once = shifted(text.as_bytes(), STANDARD);
            let twice = once.iter().flat_map(|inner| shifted(inner, STANDARD));
            twice.flat_map(|inner| parts(&inner, (characters * 64).div_ceil(36))).collect()
        }
        Encoding::Base64Percent => of_bytes(text.as_bytes(), STANDARD)
            .iter()
            .map(|part| percent(&String::from_utf8_lossy(part)).into_bytes())
            .collect(),
        Encoding::GzipBase64 | Encoding::ZlibBase64 | Encoding::GzipBase64Twice | Encoding::Plain => {
            Vec::new()
        }
        Encoding::Utf16LeMarked => windows.iter().map(|window| wide(window, false)).collect(),
        Encoding::Utf16BeMarked => windows.iter().map(|window| wide(window, true)).collect(),
        Encoding::HexLower
        | Encoding::HexUpper
        | Encoding::HexSpaced
        | Encoding::BytesDecimal
        | Encoding::BytesHex
        | Encoding::PercentSpecials
        | Encoding::PercentAll
        | Encoding::PercentTwice
        | Encoding::UnicodeEscapesAll
        | Encoding::UnicodeEscapesSpecials
        | Encoding::HtmlEntities
        | Encoding::QuotedPrintable
        | Encoding::JsonString
        | Encoding::JsonStringTwice
        | Encoding::HexDashes
        | Encoding::HexColons
        | Encoding::PercentLower
        | Encoding::FormPlus
        | Encoding::HtmlHex
        | Encoding::HtmlDecimalAll
        | Encoding::BackslashX
        | Encoding::BackslashOctal
        | Encoding::JsonStringThrice
        | Encoding::BytesOfBuffer
        | Encoding::BytesOfGo
        | Encoding::HtmlEntitiesTwice
        | Encoding::JsonPercent
        | Encoding::RustDebug
        | Encoding::PythonBytesOfUtf16
        | Encoding::HexOfUtf16
        | Encoding::UnicodeEscapesUpper
        | Encoding::BytesHexUpper
        | Encoding::BackslashXAll
        | Encoding::PercentThrice
        | Encoding::JsonOfPhp
        | Encoding::BytesOfJava
        | Encoding::BytesOfGdb
        | Encoding::EscapeOfJavaScript
        | Encoding::LettersAndDots
        | Encoding::PythonBytes
        | Encoding::Utf16Le
        | Encoding::Utf16Be => windows.iter().map(|window| encoding.encode(window)).collect(),
    }
}

/// Parts, and each with the end of a line at each place in it.
fn broken(parts: Vec<Vec<u8>>, end: &[u8]) -> Vec<Vec<u8>> {
    let at = |part: &[u8], place: usize| [&part[..place], end, &part[place..]].concat();
    let mut all: Vec<Vec<u8>> =
        parts.iter().flat_map(|part| (1..part.len()).map(|place| at(part, place))).collect();
    all.extend(parts);
    all
}

/// What base64 makes of bytes at each of the three places in a group, without letters that others decide with.
fn shifted(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<Vec<u8>> {
    let at = |shift: usize| {
        let text = base64(&[vec![0; shift], bytes.to_vec()].concat(), alphabet, false).into_bytes();
        let end = (shift + bytes.len()) * 8 / 6;
        text[(shift * 8).div_ceil(6).min(end)..end].to_vec()
    };
    (0..3).map(at).collect()
}

fn parts(text: &[u8], length: usize) -> Vec<Vec<u8>> {
    text.windows(length.max(1)).map(<[u8]>::to_vec).collect()
}

/// What is packed with gzip or zlib and written as base64, or as that once more.
fn unpacked(output: &[u8]) -> Vec<Vec<u8>> {
    static PACKED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(?:H4sI|eJ)[A-Za-z0-9+/]{8,}").expect("a fixed expression"));
    static PACKED_TWICE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("SDRzS[A-Za-z0-9+/]{8,}").expect("a fixed expression"));
    let unpack = |text: &[u8]| {
        let bytes = decoded(text);
        let mut text = Vec::new();
        // What was cut or changed ends in an error; what came before it counts.
        let _ = match bytes.first() {
            Some(0x1f) => GzDecoder::new(&bytes[..]).take(UNPACKED_MAX).read_to_end(&mut text),
            _ => ZlibDecoder::new(&bytes[..]).take(UNPACKED_MAX).read_to_end(&mut text),
        };
        text
    };
    let once = PACKED.find_iter(output).map(|found| unpack(found.as_bytes()));
    let twice = PACKED_TWICE.find_iter(output).map(|found| unpack(&decoded(found.as_bytes())));
    once.chain(twice).collect()
}

/// What stands in base64.
fn decoded(text: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = text
        .iter()
        .filter_map(|letter| STANDARD.iter().position(|one| one == letter))
        .map(|six| six as u8)
        .collect();
    bits.chunks(4)
        .flat_map(|group| {
            let sum = group.iter().chain([&0; 4]).take(4).fold(0_u32, |sum, six| sum << 6 | u32::from(*six));
            sum.to_be_bytes()[1..group.len().max(1)].to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_secret_is_found_again_and_its_absence_is_seen() {
        for secret in [
            "correcthorse",
            "Gr\u{fc}\u{df}e99!ab\"c",
            "s3cr3t",
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH",
        ] {
            let others = Encoding::OF_C.into_iter().chain(Encoding::OF_D);
            let others = others.chain(Encoding::OF_E).chain(Encoding::OF_F);
            for (name, encoding) in Encoding::ALL.into_iter().chain(others) {
                for before in ["", "x", "xy"] {
                    let text = |secret: &str| encoding.encode(&format!("{before}user=a&value={secret}&z=1"));
                    let needle = Needle::new(secret, secret, encoding);
                    assert!(
                        needle.survives(&text(secret), &text("?")),
                        "{secret} as {name} behind {before:?}"
                    );
                    assert!(!needle.survives(&text("[masked]"), &text("?")), "{secret} as {name}");
                }
            }
        }
    }

    #[test]
    fn a_part_that_stands_there_anyway_does_not_count() {
        let needle = Needle::new("password2024", "password2024", Encoding::Plain);
        assert!(!needle.survives(b"password=****", b"password="));
        assert!(needle.survives(b"password=word2024", b"password="));
        assert!(!needle.survives(b"password=d2024", b"password="), "five characters are too few");
        assert!(
            Needle::new("s3cr3t", "s3cr3t", Encoding::Plain).survives(b"x=s3c", b"x="),
            "half of a short one"
        );
    }
}
