//! Objects of Python in memory: texts, tuples, bytes, and of which type something is.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::layout::{Layout, same};
use crate::{Limits, Memory};

/// Longest name of a type.
const TYPE_NAME: usize = 80;
/// Types whose names are kept: a hostile image has a new one behind each pointer.
const TYPES: usize = 65_536;

/// Reads objects.
pub(super) struct Objects<'m, 'i> {
    pub(super) memory: &'m Memory<'i>,
    pub(super) layout: Layout,
    text_limit: usize,
    texts_left: Cell<usize>,
    types: RefCell<FxHashMap<u64, Arc<str>>>,
}

impl<'m, 'i> Objects<'m, 'i> {
    pub(super) fn new(memory: &'m Memory<'i>, layout: Layout, limits: &Limits) -> Self {
        let (text_limit, texts_left) = (limits.text, Cell::new(limits.texts));
        Self { memory, layout, text_limit, texts_left, types: RefCell::default() }
    }

    /// A pointer in a structure that is not null.
    pub(super) fn pointer(&self, at: u64, offset: u64) -> Option<u64> {
        self.memory.pointer(at.checked_add(offset)?)
    }

    pub(super) fn word(&self, at: u64, offset: u64) -> Option<u64> {
        self.memory.u64(at.checked_add(offset)?)
    }

    pub(super) fn i32(&self, at: u64, offset: u64) -> Option<i32> {
        self.memory.i32(at.checked_add(offset)?)
    }

    pub(super) fn u8(&self, at: u64, offset: u64) -> Option<u8> {
        self.memory.u8(at.checked_add(offset)?)
    }

    /// Name of the type of an object; empty when it is none.
    pub(super) fn type_name(&self, object: u64) -> Arc<str> {
        let nothing = || Arc::from("");
        if !object.is_multiple_of(8) {
            return nothing();
        }
        let Some(kind) = self.pointer(object, same::TYPE).filter(|kind| kind % 8 == 0) else {
            return nothing();
        };
        if let Some(known) = self.types.borrow().get(&kind) {
            return Arc::clone(known);
        }
        let name = self
            .pointer(kind, same::TYPE_NAME)
            .and_then(|name| self.memory.c_string(name, TYPE_NAME))
            .filter(|name| !name.chars().any(|c| c.is_control() || c == '\u{fffd}'));
        let name: Arc<str> = name.unwrap_or_default().into();
        let mut types = self.types.borrow_mut();
        if types.len() < TYPES {
            types.insert(kind, Arc::clone(&name));
        }
        name
    }

    pub(super) fn is(&self, object: u64, type_name: &str) -> bool {
        &*self.type_name(object) == type_name
    }

    /// A `str`, cut at the limit.
    pub(super) fn text(&self, object: u64) -> Option<String> {
        let length = usize::try_from(self.word(object, same::TEXT_LENGTH)?).ok()?.min(self.text_limit);
        let state = self.memory.u32(object.checked_add(same::TEXT_STATE)?)?;
        // interned 2 bits, size of a character 3 bits, compact, ASCII
        let (size, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if !compact {
            return None;
        }
        let start = if ascii { self.layout.text_ascii } else { self.layout.text_other };
        let start = object.checked_add(start)?;
        let mut bytes = vec![0; self.take(length * size as usize)?];
        if !self.memory.read(start, &mut bytes) {
            return None;
        }
        let replaced = char::REPLACEMENT_CHARACTER;
        Some(match size {
            1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            2 => {
                let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
                char::decode_utf16(units).map(|one| one.unwrap_or(replaced)).collect()
            }
            4 => {
                let units = bytes.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit));
                units.map(|unit| char::from_u32(unit).unwrap_or(replaced)).collect()
            }
            _ => return None,
        })
    }

    /// Takes from what may be read of texts and tables in all.
    fn take(&self, length: usize) -> Option<usize> {
        self.texts_left.set(self.texts_left.get().checked_sub(length)?);
        Some(length)
    }

    /// The contents of a `bytes`, up to `most`.
    pub(super) fn bytes(&self, object: u64, most: usize) -> Option<Vec<u8>> {
        let length = usize::try_from(self.word(object, same::SIZE)?).ok().filter(|length| *length <= most)?;
        let mut bytes = vec![0; self.take(length)?];
        self.memory.read(object.checked_add(same::BYTES)?, &mut bytes).then_some(bytes)
    }
}
