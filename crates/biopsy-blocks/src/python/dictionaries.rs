//! Entries of a dictionary with their keys, where these are names in ASCII.
//!
//! ```text
//! dictionary: 16 used  32 keys  40 values, where several objects share the keys
//! keys to 3.10: 8 slots (a power of two)  32 entries in use  40 indices (1, 2, 4 or 8 bytes for each slot), entries {hash, key, value}
//! keys since:   8 log2 of slots (1), of bytes of indices (1), kind (1)  24 entries in use  32 indices, entries; {key, value} but for kind 0
//! ```

use biopsy_image::{Image, MemoryExt};

/// Entries of one dictionary that are looked at.
const MOST: u64 = 1 << 20;
/// Longest key, in bytes.
const KEY: u64 = 200;
/// Indices of a table, as a power of two of bytes.
const LARGEST: u64 = 40;

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Empty: it is no such text.
    pub(super) key: String,
    /// The object.
    pub(super) value: u64,
}

/// Where the keys of a dictionary are.
pub(super) fn keys_of(image: &dyn Image, dictionary: u64) -> Option<u64> {
    word(image, dictionary, 32).filter(|keys| *keys != 0)
}

/// The entries of a table of keys. `left`: how many more may be looked at, of this table and of others, those in use or not.
pub(super) fn entries(image: &dyn Image, keys: u64, left: &mut u64) -> Vec<Entry> {
    read(image, keys, left).unwrap_or_default()
}

fn read(image: &dyn Image, keys: u64, left: &mut u64) -> Option<Vec<Entry>> {
    let head = word(image, keys, 8)?;
    let (first, size, key, used) = if head.is_power_of_two() && head >= 8 {
        let width = match head {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        (40_u64.checked_add(head.checked_mul(width)?)?, 24, 8, word(image, keys, 32)?)
    } else {
        let [_, indices, kind, ..] = head.to_le_bytes();
        let indices = (u64::from(indices) <= LARGEST && kind <= 2).then(|| 1_u64 << indices)?;
        let (size, key) = if kind == 0 { (24, 8) } else { (16, 0) };
        (32_u64.checked_add(indices)?, size, key, word(image, keys, 24)?)
    };
    let mut found = Vec::new();
    for number in 0..used.min(MOST).min(*left) {
        *left -= 1;
        let Some(at) = keys.checked_add(first).and_then(|first| first.checked_add(number * size)) else {
            break;
        };
        let pair = [word(image, at, key), word(image, at, key + 8)];
        let [Some(key), Some(value)] = pair else { break };
        // What was removed has neither.
        if value != 0 {
            found.push(Entry { key: text(image, key).unwrap_or_default(), value });
        }
    }
    Some(found)
}

/// A `str` of ASCII that is an identifier: its characters are behind 40 bytes since 3.12, and behind 48 before.
pub(super) fn text(image: &dyn Image, at: u64) -> Option<String> {
    let length = word(image, at, 16).filter(|length| (1..=KEY).contains(length))?;
    let state = word(image, at, 32)?;
    // A character has one byte, the characters follow the head, and all are ASCII.
    if state >> 2 & 7 != 1 || state >> 5 & 3 != 3 {
        return None;
    }
    [40, 48].into_iter().find_map(|offset| {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        let read = image.read_available(at.checked_add(offset)?, &mut bytes);
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'<' | b'>');
        (read == bytes.len() && bytes.iter().all(is_name)).then(|| String::from_utf8(bytes).ok()).flatten()
    })
}

fn word(image: &dyn Image, at: u64, offset: u64) -> Option<u64> {
    image.read_u64(at.checked_add(offset)?).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::made::{BASE, Pieces};

    /// A `str` of ASCII whose characters are behind so many bytes.
    pub(in crate::python) fn put_text(flat: &mut Pieces, at: u64, text: &str, offset: u64) {
        flat.word(at + 16, text.len() as u64);
        flat.word(at + 32, 1 << 2 | 1 << 5 | 1 << 6);
        flat.put(at + offset, text.as_bytes());
        flat.word(at + 80, 0);
    }

    const KEYS: u64 = BASE + 0x1000;

    #[test]
    fn entries_of_all_versions_are_read() {
        // Head, entries in use, first entry, size of an entry, key, where texts begin.
        let tables = [
            ("to 3.10", 8_u64, 32, 40 + 8, 24, 8, 48),
            ("3.11", 0x03 | 0x03 << 8 | 1 << 16, 24, 32 + 8, 16, 0, 48),
            ("3.12 on, keys that are no texts", 0x03 | 0x03 << 8, 24, 32 + 8, 24, 8, 40),
        ];
        for (version, head, used, first, size, key, text) in tables {
            let mut flat = Pieces::default();
            put_text(&mut flat, BASE, "CACHE", text);
            put_text(&mut flat, BASE + 0x100, "two words", text);
            flat.word(KEYS + 8, head);
            flat.word(KEYS + used, 3);
            for (number, (of, value)) in [(BASE, 7), (BASE + 0x100, 8), (0, 0)].into_iter().enumerate() {
                let at = KEYS + first + number as u64 * size;
                flat.word(at + key, of);
                flat.word(at + key + 8, value);
            }
            let found = entries(&flat, KEYS, &mut 1000);
            let found: Vec<(&str, u64)> = found.iter().map(|one| (one.key.as_str(), one.value)).collect();
            assert_eq!(found, [("CACHE", 7), ("", 8)], "{version}");
        }
    }

    #[test]
    fn tables_that_cannot_be_give_nothing() {
        let mut flat = Pieces::default();
        for head in [0, 4, u64::MAX, 1 << 63, 0x03 | 0xff << 8, 0x03 | 0x03 << 8 | 3 << 16] {
            flat.word(KEYS + 8, head);
            flat.word(KEYS + 24, u64::MAX);
            flat.word(KEYS + 32, u64::MAX);
            assert!(entries(&flat, KEYS, &mut 1000).is_empty(), "{head:#x}");
        }
        assert!(
            entries(&flat, u64::MAX - 4, &mut 1000).is_empty() && entries(&flat, 0, &mut 1000).is_empty()
        );
    }
    #[test]
    fn entries_that_are_not_in_use_count_too() {
        let mut flat = Pieces::default();
        flat.word(KEYS + 8, 0x03 | 0x03 << 8);
        flat.word(KEYS + 24, 1 << 40);
        flat.word(KEYS + 0x1_0000, 0);
        let (mut left, mut tables) = (10_000, 0);
        while left > 0 {
            assert!(entries(&flat, KEYS, &mut left).is_empty());
            tables += 1;
        }
        // So many entries have room in the memory that there is, though nothing is in them.
        let each = (0x1_0008 - 40) / 24 + 1;
        assert_eq!(tables, 10_000_u64.div_ceil(each));
    }

    #[test]
    fn names_are_texts_of_ascii_and_no_more() {
        let mut flat = Pieces::default();
        for (length, state, characters, name) in [
            (5, 0xe4, &b"CACHE"[..], Some("CACHE")),
            (5, 0xe4, b"a.<b>", Some("a.<b>")),
            (3, 0xe4, b"CACHE", Some("CAC")),
            // Not compact or not of ASCII, two bytes for each character, none.
            (5, 0xa4, b"CACHE", None),
            (5, 0xe8, b"CACHE", None),
            (5, 0, b"CACHE", None),
            (0, 0xe4, b"CACHE", None),
            (201, 0xe4, b"CACHE", None),
            (u64::MAX, 0xe4, b"CACHE", None),
            (5, 0xe4, b"a b c", None),
            (5, 0xe4, b"a\0\0\0\0", None),
        ] {
            flat.put(BASE, &[0; 128]);
            flat.word(BASE + 16, length);
            flat.word(BASE + 32, state);
            flat.put(BASE + 40, characters);
            assert_eq!(text(&flat, BASE).as_deref(), name, "{length} {state:#x} {characters:?}");
        }
        // Characters that memory does not have.
        let mut flat = Pieces::default();
        flat.word(BASE + 16, 100);
        flat.word(BASE + 32, 0xe4);
        flat.put(BASE + 40, &[b'x'; 99]);
        assert_eq!((text(&flat, BASE), text(&flat, u64::MAX - 8), text(&flat, 0)), (None, None, None));
        assert_eq!(
            (keys_of(&flat, BASE), keys_of(&flat, BASE + 8)),
            (Some(0xe4), Some(0x7878_7878_7878_7878))
        );
        assert_eq!((keys_of(&flat, BASE - 8), keys_of(&flat, u64::MAX)), (None, None));
    }
}
