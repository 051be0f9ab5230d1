//! The values of an object's attributes, in the order in which they were first set: enough to find the lock of a `Condition` and
//! the name of a `Thread`, without reading names of attributes.
//!
//! ```text
//! 3.8 - 3.10   object + tp_dictoffset ─► dictionary ─► values (keys are shared), or entries {hash, key, value}
//! 3.11         object - 32 ─► values; object - 24 ─► dictionary
//! 3.12         object - 24: values - 1, or the dictionary
//! 3.13         object + tp_basicsize: 4 bytes (capacity, size, embedded, valid), values at + 8; object - 24 ─► dictionary
//! ```

use super::layout::{Attributes, same};
use super::objects::Objects;

/// Attributes that are looked at.
const MOST: u64 = 32;
/// A dictionary with keys of its own: head of the table of entries, until 3.10 and since.
const OLD_HEAD: u64 = 40;
const NEW_HEAD: u64 = 32;
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
            dictionary(objects, objects.pointer(object, place)?, 0)
        }
        Attributes::Before => match before(32) {
            Some(values) => Some(array(objects, values)),
            None => dictionary(objects, before(24)?, 0),
        },
        Attributes::Tagged => match before(24)? {
            tagged if tagged & 1 == 1 => Some(array(objects, tagged.checked_add(1)?)),
            at => dictionary(objects, at, 0),
        },
        Attributes::Inline => {
            let size = objects.word(kind, same::TYPE_SIZE).filter(|size| (16..4096).contains(size))?;
            let values = object.checked_add(size)?;
            let [capacity, used, embedded, valid] = objects.memory.array::<4>(values)?;
            match before(24) {
                None if embedded == 1 && valid == 1 && used <= capacity => {
                    Some(array(objects, values.checked_add(8)?))
                }
                None => None,
                Some(at) => dictionary(objects, at, 8),
            }
        }
    }
}

fn array(objects: &Objects<'_, '_>, at: u64) -> Vec<u64> {
    (0..MOST).map_while(|index| objects.word(at, index * 8)).filter(|value| *value != 0).collect()
}

/// `head`: bytes before the values.
fn dictionary(objects: &Objects<'_, '_>, at: u64, head: u64) -> Option<Vec<u64>> {
    if !objects.is(at, "dict") {
        return None;
    }
    if let Some(values) = objects.pointer(at, same::DICTIONARY_VALUES) {
        return Some(array(objects, values.checked_add(head)?));
    }
    let keys = objects.pointer(at, same::DICTIONARY_KEYS)?;
    let (entries, size, value) = if objects.layout.attributes == Attributes::Dictionary {
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
    Some((0..MOST).map_while(value).filter(|value| *value != 0).collect())
}
