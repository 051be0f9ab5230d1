//! The values of an object's attributes, in the order in which they were first set: enough to find the lock of a `Condition` and
//! the name of a `Thread`, without reading names of attributes.
//!
//! ```text
//! 3.8 - 3.10   object + tp_dictoffset ─► dictionary ─► values (keys are shared), or entries {hash, key, value}
//! 3.11         object - 32 ─► values; object - 24 ─► dictionary
//! 3.12         object - 24: values - 1, or the dictionary
//! 3.13         object + tp_basicsize: 4 bytes (capacity, size, embedded, valid), values at + 8; object - 24 ─► dictionary
//!
//! values       to 3.12: - 1 bytes before them, of which all but two or more are the order in which they were set
//!              3.13: - 8 capacity; behind them the same
//! keys         to 3.10: 8 slots, 32 entries in use; since: 9 log2 of bytes of indices, 10 kind, 24 entries in use
//! ```

use super::layout::{Attributes, same};
use super::objects::Objects;

/// Attributes that are looked at.
const MOST: u64 = 32;
/// A dictionary with keys of its own: head of the table of entries, until 3.10 and since.
const OLD_HEAD: u64 = 40;
const NEW_HEAD: u64 = 32;
/// Bytes before the values in 3.13.
const VALUES_HEAD: u64 = 8;
/// Larger tables are not of objects.
const LARGEST: u32 = 20;

/// Values of the attributes of an object of a class in Python.
pub(super) fn of(objects: &Objects<'_, '_>, object: u64) -> Vec<u64> {
    values(objects, object).unwrap_or_default()
}

fn values(objects: &Objects<'_, '_>, object: u64) -> Option<Vec<u64>> {
    let before = |offset: u64| objects.memory.pointer(object.checked_sub(offset)?);
    let kind = objects.pointer(object, same::TYPE)?;
    match objects.layout.attributes {
        Attributes::Dictionary => {
            let place =
                objects.word(kind, same::TYPE_DICTIONARY).filter(|place| (16..4096).contains(place))?;
            dictionary(objects, objects.pointer(object, place)?)
        }
        Attributes::Before => match before(32) {
            Some(values) => Some(array(objects, values, prefixed(objects, values))),
            None => dictionary(objects, before(24)?),
        },
        Attributes::Tagged => match before(24)? {
            tagged if tagged & 1 == 1 => {
                let values = tagged.checked_add(1)?;
                Some(array(objects, values, prefixed(objects, values)))
            }
            at => dictionary(objects, at),
        },
        Attributes::Inline => {
            let size = objects.word(kind, same::TYPE_SIZE).filter(|size| (16..4096).contains(size))?;
            let values = object.checked_add(size)?;
            let [capacity, used, embedded, valid] = objects.memory.array::<4>(values)?;
            match before(24) {
                None if embedded == 1 && valid == 1 && used <= capacity => {
                    Some(array(objects, values.checked_add(VALUES_HEAD)?, capacity.into()))
                }
                None => None,
                Some(at) => dictionary(objects, at),
            }
        }
    }
}

/// Up to `most` values: what is behind them is the order in which they were set, or of somebody else.
fn array(objects: &Objects<'_, '_>, at: u64, most: u64) -> Vec<u64> {
    let words = (0..most.min(MOST)).map_while(|index| objects.word(at, index * 8));
    words.filter(|value| *value != 0).collect()
}

/// How many values there may be behind a prefix of whole words (3.11, 3.12): a byte of it for each, and two besides.
fn prefixed(objects: &Objects<'_, '_>, values: u64) -> u64 {
    let prefix = values.checked_sub(1).and_then(|last| objects.memory.u8(last)).map_or(0, u64::from);
    if prefix > 0 && prefix.is_multiple_of(8) { prefix - 2 } else { MOST }
}

fn dictionary(objects: &Objects<'_, '_>, at: u64) -> Option<Vec<u64>> {
    if !objects.is(at, "dict") {
        return None;
    }
    let attributes = objects.layout.attributes;
    let keys = objects.pointer(at, same::DICTIONARY_KEYS)?;
    let in_use = objects.word(keys, if attributes == Attributes::Dictionary { 32 } else { 24 })?;
    if let Some(values) = objects.pointer(at, same::DICTIONARY_VALUES) {
        return Some(match attributes {
            Attributes::Dictionary => array(objects, values, in_use),
            Attributes::Before | Attributes::Tagged => array(objects, values, prefixed(objects, values)),
            Attributes::Inline => {
                let capacity = objects.u8(values, 0)?;
                array(objects, values.checked_add(VALUES_HEAD)?, capacity.into())
            }
        });
    }
    let (entries, size, value) = if attributes == Attributes::Dictionary {
        let slots = objects.word(keys, 8).filter(|slots| *slots <= 1 << LARGEST)?;
        let width = match slots {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        (keys.checked_add(OLD_HEAD + slots * width)?, 24, 16)
    } else {
        let bytes = u32::from(objects.u8(keys, 9)?);
        let general = objects.u8(keys, 10)? == 0;
        let indices = (bytes <= LARGEST).then_some(1u64 << bytes)?;
        (keys.checked_add(NEW_HEAD + indices)?, if general { 24 } else { 16 }, if general { 16 } else { 8 })
    };
    let value = |index| objects.word(entries, index * size + value);
    Some((0..in_use.min(MOST)).map_while(value).filter(|value| *value != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::MadeImage;
    use crate::python::layout::Layout;
    use crate::{Limits, Memory};

    const AT: u64 = 0x7f00_0000_0000;
    const KIND: u64 = AT + 0x100;
    const DICT_KIND: u64 = AT + 0x300;
    const OBJECT: u64 = AT + 0x600;
    const DICTIONARY: u64 = AT + 0x700;
    const KEYS: u64 = AT + 0x800;
    const VALUES: u64 = AT + 0xa00;
    /// Three values of which one is not set, and what is behind them.
    const WORDS: [u64; 5] = [0x51, 0, 0x53, 0xbad, 0xbad];

    /// An object, and a dictionary that is empty still.
    fn image() -> MadeImage {
        let mut image = MadeImage::new(b"/bin/python3", &[(AT, 0x2000, true)]);
        image.word(OBJECT + same::TYPE, KIND);
        image.word(KIND + same::TYPE_SIZE, 16);
        image.word(KIND + same::TYPE_DICTIONARY, 16);
        image.word(DICT_KIND + same::TYPE_NAME, DICT_KIND + 0x80);
        image.put(DICT_KIND + 0x80, b"dict\0");
        image.word(DICTIONARY + same::TYPE, DICT_KIND);
        image.word(DICTIONARY + same::DICTIONARY_KEYS, KEYS);
        image
    }

    fn words(image: &mut MadeImage, at: u64) {
        for (word, at) in WORDS.into_iter().zip((at..).step_by(8)) {
            image.word(at, word);
        }
    }

    fn found(image: &MadeImage, minor: u32) -> Vec<u64> {
        let memory = Memory::new(image, None, 1 << 20);
        let limits = Limits::small();
        let objects = Objects::new(&memory, Layout::of(minor).expect("a known version"), &limits);
        of(&objects, OBJECT)
    }

    #[test]
    fn what_is_behind_the_values_is_none_of_them() {
        // Keys are shared: as many values as the keys have entries.
        for minor in [8, 10] {
            let mut image = image();
            image.word(OBJECT + 16, DICTIONARY);
            image.word(KEYS + 8, 8);
            image.word(KEYS + 32, 3);
            image.word(DICTIONARY + same::DICTIONARY_VALUES, VALUES);
            words(&mut image, VALUES);
            assert_eq!(found(&image, minor), [0x51, 0x53], "3.{minor}");
        }
        // A prefix of one word has room for the order of six; the seventh word is another's.
        for (minor, place, less) in [(11, OBJECT - 32, 0), (12, OBJECT - 24, 1)] {
            let mut image = image();
            image.word(place, VALUES - less);
            image.put(VALUES - 1, &[8]);
            words(&mut image, VALUES + 24);
            assert_eq!(found(&image, minor), [0x51, 0x53], "3.{minor}");
        }
        // Behind the object, and in memory of their own since somebody asked for the dictionary.
        let mut image = image();
        image.put(OBJECT + 16, &[3, 2, 1, 1]);
        words(&mut image, OBJECT + 24);
        assert_eq!(found(&image, 13), [0x51, 0x53]);
        image.word(OBJECT - 24, DICTIONARY);
        image.word(DICTIONARY + same::DICTIONARY_VALUES, VALUES);
        image.put(VALUES, &[3, 2, 0, 1]);
        words(&mut image, VALUES + 8);
        assert_eq!(found(&image, 13), [0x51, 0x53]);
    }

    #[test]
    fn entries_that_are_not_in_use_are_none() {
        for (minor, in_use, first, size, value) in
            [(9, 32, 40 + 8, 24, 16), (11, 24, 32 + 8, 16, 8), (13, 24, 32 + 8, 16, 8)]
        {
            let mut image = image();
            image.word(if minor == 9 { OBJECT + 16 } else { OBJECT - 24 }, DICTIONARY);
            if minor == 9 {
                image.word(KEYS + 8, 8);
            } else {
                image.put(KEYS + 8, &[3, 3, 1]);
            }
            image.word(KEYS + in_use, 3);
            for (word, entry) in WORDS.into_iter().zip((KEYS + first..).step_by(size)) {
                image.word(entry + value, word);
            }
            assert_eq!(found(&image, minor), [0x51, 0x53], "3.{minor}");
        }
    }
}
