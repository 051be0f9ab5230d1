//! Fields of objects by name.

use rustc_hash::FxHashMap;

use crate::runtime::{FieldPlace, Runtime};

/// Offsets of fields, looked up once for each type.
#[derive(Debug)]
pub(crate) struct Fields<'r, 'i> {
    pub(crate) runtime: &'r Runtime<'i>,
    known: FxHashMap<(u64, &'static str), Option<u32>>,
}

impl<'r, 'i> Fields<'r, 'i> {
    pub(crate) fn new(runtime: &'r Runtime<'i>) -> Self {
        Self { runtime, known: FxHashMap::default() }
    }

    /// Offset of an instance field from the object's method table word on; inherited ones too.
    pub(crate) fn offset(&mut self, method_table: u64, name: &'static str) -> Option<u32> {
        let runtime = self.runtime;
        *self.known.entry((method_table, name)).or_insert_with(|| {
            match runtime.find_field(method_table, name).ok()??.place {
                FieldPlace::Instance(offset) => offset.checked_add(8),
                _ => None,
            }
        })
    }

    /// A field of 8 bytes: a reference, or a number.
    pub(crate) fn word(&mut self, object: u64, name: &'static str) -> Option<u64> {
        let offset = self.offset(self.method_table(object)?, name)?;
        self.runtime.memory().u64(object.checked_add(offset.into())?).ok()
    }

    /// A field of 4 bytes.
    pub(crate) fn number(&mut self, object: u64, name: &'static str) -> Option<u32> {
        let offset = self.offset(self.method_table(object)?, name)?;
        self.runtime.memory().u32(object.checked_add(offset.into())?).ok()
    }

    /// The first word of an object, without the marks of the collector.
    pub(crate) fn method_table(&self, object: u64) -> Option<u64> {
        self.runtime.memory().u64(object).ok().map(|word| word & !7)
    }
}
