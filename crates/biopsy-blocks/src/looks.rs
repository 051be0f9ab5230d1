//! What a block without a type looks like. No contents are kept.

/// Blocks up to this size are told apart by their exact size.
const EXACT: u64 = 256;
/// Bytes of a block that are looked at for text.
const LOOKED_AT: usize = 64;
/// The shortest text, in bytes.
const SHORTEST_TEXT: usize = 6;
/// Of all words that are not zero, one of so many leads to a block: then it is an array of such.
const POINTERS: usize = 8;
/// A smaller block is a node, whatever it holds.
const SMALLEST_ARRAY: u64 = 256;

/// What it looks like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Look {
    /// It begins with readable characters.
    Text,
    /// Many of its words lead to blocks.
    Array,
    /// Its size says most: the smallest and largest of its class.
    Sized(u64, u64),
}

impl Look {
    /// By its size, its first bytes, its words that are not zero and those of them that lead to blocks.
    pub(crate) fn of(size: u64, start: &[u8], words: usize, pointers: usize) -> Self {
        if pointers == 0 && is_text(start) {
            return Self::Text;
        }
        if size > SMALLEST_ARRAY && pointers >= 2 && pointers * POINTERS >= words {
            return Self::Array;
        }
        let (from, to) = class(size);
        Self::Sized(from, to)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Array => "array of pointers".to_owned(),
            Self::Sized(from, to) if from == to => format!("block of {to} bytes"),
            Self::Sized(from, to) => format!("block of {from} to {to} bytes"),
        }
    }
}

/// The smallest and the largest size of its class: exact to 256, then four to each power of two.
fn class(size: u64) -> (u64, u64) {
    if size <= EXACT {
        return (size, size);
    }
    let quarter = (size - 1).checked_ilog2().map_or(1, |power| 1_u64 << power.saturating_sub(2));
    let to = size.checked_next_multiple_of(quarter).unwrap_or(u64::MAX);
    (to.saturating_sub(quarter).saturating_add(1), to)
}

/// It begins with characters, and what ends them is its end or a zero.
fn is_text(start: &[u8]) -> bool {
    let looked_at = start.get(..LOOKED_AT.min(start.len())).unwrap_or_default();
    let length = looked_at.iter().position(|byte| *byte == 0).unwrap_or(looked_at.len());
    let text = looked_at.get(..length).unwrap_or_default();
    length >= SHORTEST_TEXT
        && text.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..=0xf4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_told_by_characters_words_and_size() {
        for (size, start, words, pointers, look) in [
            (24, &b"hello there\0\x01\x02"[..], 3, 0, Look::Text),
            (24, b"hello\0", 3, 0, Look::Sized(24, 24)),
            (24, b"hello there", 3, 1, Look::Sized(24, 24)),
            (24, b"\x01ello there", 3, 0, Look::Sized(24, 24)),
            (264, b"", 32, 4, Look::Array),
            (264, b"", 33, 4, Look::Sized(257, 320)),
            (264, b"", 3, 1, Look::Sized(257, 320)),
            (256, b"", 32, 32, Look::Sized(256, 256)),
            (6008, b"", 700, 1, Look::Sized(5121, 6144)),
        ] {
            assert_eq!(Look::of(size, start, words, pointers), look, "{size} {words} {pointers}");
        }
    }

    #[test]
    fn names_of_looks_say_the_size() {
        assert_eq!(Look::Sized(24, 24).name(), "block of 24 bytes");
        assert_eq!(Look::Sized(5121, 6144).name(), "block of 5121 to 6144 bytes");
    }
}
