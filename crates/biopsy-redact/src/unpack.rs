//! Bytes that are written in letters (base64, base32, hex, digits of two) as the texts that they are.

use std::io::Read;

use crate::wide;

/// Bytes of what is unpacked that are looked at before the rest is.
const FIRST: usize = 12;
/// Most bytes that a compressed text may unpack to.
const INFLATED_MAX: u64 = 256 << 10;
/// Shortest run of base32 that is unpacked, and of digits of two.
const BASE32_MIN: usize = 24;
const BINARY_MIN: usize = 80;

/// The text of a run of base64, base32, hex or digits of two, if it is one. Most are not, and their first bytes say so.
pub(crate) fn unpack(run: &[u8]) -> Option<Vec<u8>> {
    of_hex(run).or_else(|| of_base64(run)).or_else(|| of_base32(run)).or_else(|| of_binary(run))
}

/// May the run be unpacked, by its first bytes as base64?
pub(crate) fn may_be_base64(run: &[u8]) -> bool {
    let Some(head) = run.get(..FIRST * 4 / 3) else { return false };
    let mut first = [0; FIRST];
    let length = into_base64(head, |at, byte| first[at] = byte);
    may_begin_text(&first[..length])
}

fn of_hex(run: &[u8]) -> Option<Vec<u8>> {
    let run = run.strip_prefix(b"0x").or_else(|| run.strip_prefix(b"0X")).unwrap_or(run);
    let digits = run.len() - usize::from(run.len() % 2 == 1);
    let bytes = |run: &[u8]| -> Option<Vec<u8>> {
        run.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
    };
    let head = run.get(..16).filter(|head| head.iter().all(u8::is_ascii_hexdigit))?;
    if !may_begin_text(&bytes(head)?) {
        return None;
    }
    bytes(&run[..digits]).and_then(as_text)
}

fn of_base64(run: &[u8]) -> Option<Vec<u8>> {
    if !may_be_base64(run) {
        return None;
    }
    let mut bytes = Vec::with_capacity(run.len() * 3 / 4);
    into_base64(run, |_, byte| bytes.push(byte));
    as_text(bytes)
}

/// Of RFC 4648, in capital or in small letters.
fn of_base32(run: &[u8]) -> Option<Vec<u8>> {
    let run = &run[..run.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1)];
    let is_of = |small: bool| {
        run.iter().all(|b| {
            matches!(b, b'2'..=b'7') || if small { b.is_ascii_lowercase() } else { b.is_ascii_uppercase() }
        })
    };
    if run.len() < BASE32_MIN || !(is_of(false) || is_of(true)) {
        return None;
    }
    let bytes = |run: &[u8]| {
        let (mut bits, mut count) = (0_u32, 0);
        let mut bytes = Vec::with_capacity(run.len() * 5 / 8);
        for byte in run {
            let five =
                if byte.is_ascii_digit() { byte - b'2' + 26 } else { byte.to_ascii_uppercase() - b'A' };
            bits = bits << 5 | u32::from(five);
            count += 5;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count & 0xff) as u8);
            }
        }
        bytes
    };
    may_begin_text(&bytes(&run[..16])).then(|| bytes(run)).and_then(as_text)
}

/// `0111000001100001`: eight digits of two for each byte.
fn of_binary(run: &[u8]) -> Option<Vec<u8>> {
    let is_binary = run.len() >= BINARY_MIN
        && run.len().is_multiple_of(8)
        && run.iter().all(|b| matches!(b, b'0' | b'1'));
    is_binary.then(|| as_text(run.chunks_exact(8).map(bits).collect())).flatten()
}

/// Eight digits of two as a byte.
pub(crate) fn bits(digits: &[u8]) -> u8 {
    digits.iter().fold(0, |byte, digit| byte << 1 | (digit & 1))
}

/// May a text begin so: in UTF-8, in UTF-16, or compressed?
fn may_begin_text(first: &[u8]) -> bool {
    let is_low = |at: usize| first.iter().skip(at).step_by(2).filter(|b| **b < 8).count();
    let is_wide = |low: usize, high: usize| low * 4 >= first.len() && high * 4 < first.len();
    match first {
        [0x1f, 0x8b, 8, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return true,
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => return true,
        _ if is_wide(is_low(0), is_low(1)) || is_wide(is_low(1), is_low(0)) => return true,
        _ => {}
    }
    let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
    first.iter().all(|b| is_of_text(*b)) && std::str::from_utf8(first).map_or_else(is_cut, |_| true)
}

/// Bytes as the text that they are: UTF-8, UTF-16, or one of them compressed.
pub(crate) fn as_text(bytes: Vec<u8>) -> Option<Vec<u8>> {
    // A stream that is cut off gives what there is of it.
    let inflated = match bytes.as_slice() {
        [0x1f, 0x8b, 8, ..] => inflate(flate2::read::GzDecoder::new(bytes.as_slice())),
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => inflate(flate2::read::ZlibDecoder::new(bytes.as_slice())),
        _ => Vec::new(),
    };
    if !inflated.is_empty() {
        return is_printable(&inflated).then_some(inflated);
    }
    if let Some(order) = wide::detect(&bytes).or_else(|| wide::detect_mixed(&bytes)) {
        let text = wide::fold(&bytes, order).text;
        return is_printable(&text).then_some(text);
    }
    is_printable(&bytes).then_some(bytes)
}

fn inflate(stream: impl Read) -> Vec<u8> {
    let mut text = Vec::new();
    let _ = stream.take(INFLATED_MAX).read_to_end(&mut text);
    text
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

/// A digit of hex.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn unpacked(run: &str) -> Option<String> {
        unpack(run.as_bytes()).map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn runs_that_are_texts_are_unpacked() {
        let text = "password=hunter22";
        for run in [
            "cGFzc3dvcmQ9aHVudGVyMjI=",
            "cGFzc3dvcmQ9aHVudGVyMjI",
            "70617373776f72643d68756e7465723232",
            "70617373776F72643D68756E7465723232",
            "0x70617373776F72643D68756E7465723232",
            "OBQXG43XN5ZGIPLIOVXHIZLSGIZA====",
            "obqxg43xn5zgipliovxhizlsgiza",
        ] {
            assert_eq!(unpacked(run).as_deref(), Some(text), "{run}");
        }
        let of_two: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
        assert_eq!(unpacked(&of_two).as_deref(), Some(text));
        // UTF-16 of both orders, with its mark and without.
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(unpacked(&hex(&wide)).as_deref(), Some(text));
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(unpacked(&hex(&wide)).as_deref(), Some(text));
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(text.as_bytes()).expect("a vector takes it");
        let mut zlib = zlib.finish().expect("a vector takes it");
        assert_eq!(unpacked(&hex(&zlib)).as_deref(), Some(text));
        // What is cut off gives what there is, and what is no stream of that kind gives nothing.
        zlib.truncate(zlib.len() - 4);
        assert_eq!(unpacked(&hex(&zlib)).as_deref(), Some(text));
        zlib[4] ^= 0xff;
        assert_ne!(unpacked(&hex(&zlib)).as_deref(), Some(text));
    }

    #[test]
    fn hashes_ids_pictures_and_words_do_not_unpack() {
        for run in [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB",
            "VerifyRequestTokenAndAudience",
            "0000000000000000000000000000",
            "0b10101010",
            "",
            "=",
        ] {
            assert_eq!(unpacked(run), None, "{run}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_was_written_in_hex_comes_back(text in "[ -~]{8,60}") {
            proptest::prop_assert_eq!(unpacked(&hex(text.as_bytes())), Some(text));
        }

        #[test]
        fn any_run_is_taken(run in "[A-Za-z0-9+/=_-]{0,120}") {
            let _ = (unpacked(&run), may_be_base64(run.as_bytes()));
        }
    }
}
