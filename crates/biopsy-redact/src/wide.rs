//! UTF-16 in and out, without losing a bit: redaction works on folded text and the result goes back to UTF-16.
//!
//! Folded text is UTF-8, with lone surrogates written as three bytes each (as in WTF-8), so that folding can always be
//! undone exactly.

use std::ops::Range;

/// Byte order of UTF-16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Low byte first (Windows).
    Little,
    /// High byte first.
    Big,
}

/// Folded text, and the odd byte at the end if there was one.
pub(crate) struct Folded {
    pub(crate) text: Vec<u8>,
    pub(crate) rest: Option<u8>,
}

/// A byte order mark in folded text.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes looked at to tell the encoding.
pub(crate) const DETECT_REACH: usize = 4096;
/// Shortest stretch of UTF-16 that is looked for in other text, in characters.
const ISLAND_MIN: usize = 6;

/// The byte order mark of UTF-16 in this order, or of UTF-8.
pub(crate) fn mark(order: Option<Order>) -> Vec<u8> {
    order.map_or_else(|| MARK.to_vec(), |order| unfold(MARK, order, None))
}

/// Is all of this UTF-16? By byte order mark, else because every other byte is nearly zero.
pub(crate) fn detect(bytes: &[u8]) -> Option<Order> {
    let head = &bytes[..bytes.len().min(DETECT_REACH)];
    let pairs = head.len() / 2;
    // A mark may be two letters of Latin-1: text whose pairs are nearly all two letters of ASCII is no UTF-16. (Of Chinese,
    // a quarter may look like that.)
    let letters = head
        .chunks_exact(2)
        .filter(|pair| pair.iter().all(|b| (b' '..0x7f).contains(b) || *b == b'\n'))
        .count();
    match bytes {
        [0xff, 0xfe, ..] if letters * 5 <= pairs * 3 => return Some(Order::Little),
        [0xfe, 0xff, ..] if letters * 5 <= pairs * 3 => return Some(Order::Big),
        _ => {}
    }
    if pairs < 4 {
        return None;
    }
    let (mut low, mut high) = (0usize, 0usize);
    for pair in head.chunks_exact(2) {
        low += usize::from(pair[0] < 8);
        high += usize::from(pair[1] < 8);
    }
    // The high byte is below 8 in Latin, Greek, Cyrillic, Hebrew and Arabic, and no text has such bytes of its own. Nearly
    // all pairs must agree: a file that is UTF-16 in parts only is left to `islands`. Without a mark, Chinese and the like
    // are not told, but their ASCII stretches are islands too.
    if high * 10 > pairs * 9 && low * 10 < pairs {
        Some(Order::Little)
    } else if low * 10 > pairs * 9 && high * 10 < pairs {
        Some(Order::Big)
    } else {
        None
    }
}

/// The same for a short text that is known to be whole: half of it ASCII, and the rest letters of any script.
pub(crate) fn detect_mixed(bytes: &[u8]) -> Option<Order> {
    let is_text = |order: &Order| {
        let units = bytes.chunks_exact(2).map(|pair| unit(pair, *order));
        let is_letter = |decoded: &Result<char, _>| {
            matches!(
                decoded,
                Ok('\t' | '\r' | '\n' | ' '..='~' | '\u{a1}'..='\u{d7ff}' | '\u{f900}'..='\u{ffdc}')
            )
        };
        let ascii = units.clone().filter(|unit| *unit < 0x80).count();
        ascii * 4 >= bytes.len() && char::decode_utf16(units).all(|decoded| is_letter(&decoded))
    };
    let is_whole = bytes.len() >= 16 && bytes.len().is_multiple_of(2);
    [Order::Little, Order::Big].into_iter().find(|order| is_whole && is_text(order))
}

/// Whether a file that begins so is text: no control bytes that no text has, or UTF-16.
#[must_use]
pub fn is_text(head: &[u8]) -> bool {
    // ANSI escapes, form feeds and the like are in logs; NUL is not, and many of the others are not.
    let strange = head.iter().filter(|b| matches!(b, 1..=6 | 14..=26 | 28..=31 | 0x7f)).count();
    (!head.contains(&0) && strange * 50 <= head.len()) || detect(head).is_some()
}

fn unit(pair: &[u8], order: Order) -> u16 {
    let pair = [pair[0], pair[1]];
    match order {
        Order::Little => u16::from_le_bytes(pair),
        Order::Big => u16::from_be_bytes(pair),
    }
}

/// UTF-16 to folded text.
pub(crate) fn fold(bytes: &[u8], order: Order) -> Folded {
    let mut text = Vec::with_capacity(bytes.len() / 2 + 8);
    let units = bytes.chunks_exact(2);
    let rest = units.remainder().first().copied();
    for decoded in char::decode_utf16(units.map(|pair| unit(pair, order))) {
        match decoded {
            Ok(character) => {
                let mut utf8 = [0u8; 4];
                text.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            }
            Err(error) => {
                let [high, low] = error.unpaired_surrogate().to_be_bytes();
                text.extend_from_slice(&[
                    0xe0 | (high >> 4),
                    0x80 | ((high & 15) << 2) | (low >> 6),
                    0x80 | (low & 0x3f),
                ]);
            }
        }
    }
    Folded { text, rest }
}

/// Folded text back to UTF-16. Bytes that are no folded text (there are none unless a mask cut a character) become
/// replacement characters.
pub(crate) fn unfold(text: &[u8], order: Order, rest: Option<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2 + 1);
    let mut push = |unit: u16| {
        out.extend_from_slice(&match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        });
    };
    let mut at = 0;
    while at < text.len() {
        let first = text[at];
        let length = match first {
            0..=0x7f => 1,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        };
        let piece = &text[at..text.len().min(at + length)];
        if let Some(character) = std::str::from_utf8(piece).ok().and_then(|piece| piece.chars().next()) {
            let mut units = [0u16; 2];
            for unit in character.encode_utf16(&mut units) {
                push(*unit);
            }
            at += piece.len();
        } else if let [a @ 0xe0..=0xef, b @ 0x80..=0xbf, c @ 0x80..=0xbf] = *piece {
            push((u16::from(a & 15) << 12) | (u16::from(b & 0x3f) << 6) | u16::from(c & 0x3f));
            at += 3;
        } else {
            push(0xfffd);
            at += 1;
        }
    }
    out.extend(rest);
    out
}

/// Stretches of ASCII in UTF-16 inside other text (a console that appended to a file in its own encoding).
pub(crate) fn islands(bytes: &[u8]) -> Vec<(Range<usize>, Order)> {
    let mut found: Vec<(Range<usize>, Order)> = Vec::new();
    let printable = |b: u8| (b' '..0x7f).contains(&b) || matches!(b, b'\t' | b'\n' | b'\r');
    let mut from = 0;
    while let Some(zero) = memchr::memchr(0, &bytes[from..]).map(|at| from + at) {
        from = zero + 1;
        // Little: the zero follows its character. Big: it precedes it.
        let little = zero.checked_sub(1).filter(|at| printable(bytes[*at]));
        let start = little.unwrap_or(zero);
        if found.last().is_some_and(|(range, _)| start < range.end) {
            continue;
        }
        let order = if little.is_some() { Order::Little } else { Order::Big };
        let pairs = bytes[start..]
            .chunks_exact(2)
            .take_while(|pair| match order {
                Order::Little => printable(pair[0]) && pair[1] == 0,
                Order::Big => pair[0] == 0 && printable(pair[1]),
            })
            .count();
        if pairs >= ISLAND_MIN {
            found.push((start..start + pairs * 2, order));
            from = start + pairs * 2;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, order: Order) -> Vec<u8> {
        text.encode_utf16()
            .flat_map(|unit| match order {
                Order::Little => unit.to_le_bytes(),
                Order::Big => unit.to_be_bytes(),
            })
            .collect()
    }

    #[test]
    fn encodings_are_told() {
        assert_eq!(detect(&wide("hello there", Order::Little)), Some(Order::Little));
        assert_eq!(detect(&wide("hello there", Order::Big)), Some(Order::Big));
        assert_eq!(detect(&wide("\u{feff}\u{4e2d}\u{6587}", Order::Little)), Some(Order::Little));
        assert_eq!(detect(b"hello there, plain"), None);
        assert_eq!(detect(b"\xfe\xffhello there, plain"), None);
        assert_eq!(detect(b"a\0b\0"), None);
    }

    #[test]
    fn scripts_of_many_letters_are_told_beside_ascii() {
        let text = wide("\u{c554}\u{d638}=Khrb\u{2026}~2w12c", Order::Little);
        assert_eq!((detect(&text), detect_mixed(&text)), (None, Some(Order::Little)));
        assert_eq!(detect_mixed(&wide("\u{c554}\u{d638}=Khrb~2w12c", Order::Big)), Some(Order::Big));
        assert_eq!(detect_mixed(&(0..64_u8).map(|byte| byte.wrapping_mul(37)).collect::<Vec<u8>>()), None);
    }

    #[test]
    fn folding_is_undone_exactly() {
        let mut bytes = wide("a\u{e4}\u{20ac}\u{1f600}\0z", Order::Little);
        bytes.extend_from_slice(&0xd800u16.to_le_bytes());
        bytes.extend_from_slice(&0x41u16.to_le_bytes());
        bytes.push(7);
        let folded = fold(&bytes, Order::Little);
        assert_eq!(unfold(&folded.text, Order::Little, folded.rest), bytes);
    }

    #[test]
    fn islands_are_found_at_odd_offsets_too() {
        let mut bytes = b"plain ".to_vec();
        bytes.extend_from_slice(b"x");
        let start = bytes.len();
        bytes.extend_from_slice(&wide("password=x", Order::Little));
        bytes.extend_from_slice(b"\xff more");
        assert_eq!(islands(&bytes), [(start..start + 20, Order::Little)]);
        let mut big = b"plain\xff".to_vec();
        big.extend_from_slice(&wide("password=x", Order::Big));
        assert_eq!(islands(&big), [(6..26, Order::Big)]);
    }
}
