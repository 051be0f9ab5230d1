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

/// The entries of a table of keys.
pub(super) fn entries(image: &dyn Image, keys: u64) -> Vec<Entry> {
    read(image, keys).unwrap_or_default()
}

fn read(image: &dyn Image, keys: u64) -> Option<Vec<Entry>> {
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
    for number in 0..used.min(MOST) {
        let Some(at) = keys.checked_add(first).and_then(|first| first.checked_add(number * size)) else { break };
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
