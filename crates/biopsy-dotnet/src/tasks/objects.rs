//! Fields of objects by name.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use crate::runtime::{FieldPlace, Runtime, TypeHandle};

/// Offsets of fields, looked up once for each type.
#[derive(Debug)]
pub(crate) struct Fields<'r, 'i> {
    pub(crate) runtime: &'r Runtime<'i>,
    known: FxHashMap<(TypeHandle, &'static str), Option<u32>>,
}

impl<'r, 'i> Fields<'r, 'i> {
    pub(crate) fn new(runtime: &'r Runtime<'i>) -> Self {
        Self { runtime, known: FxHashMap::default() }
    }

    /// Offset of an instance field from the object's method table word on; inherited ones too.
    pub(crate) fn offset(&mut self, method_table: TypeHandle, name: &'static str) -> Option<u32> {
        let runtime = self.runtime;
        *self.known.entry((method_table, name)).or_insert_with(|| {
            match runtime.find_field(method_table, name).ok()??.place {
                FieldPlace::Instance(offset) => offset.checked_add(8),
                _ => None,
            }
        })
    }

    /// Where the field of an object is.
    pub(crate) fn place(&mut self, object: Avma, name: &'static str) -> Option<u64> {
        let offset = self.offset(self.runtime.method_table_of(object).ok()?, name)?;
        object.0.checked_add(offset.into())
    }

    /// The object that a field refers to.
    pub(crate) fn reference(&mut self, object: Avma, name: &'static str) -> Option<Avma> {
        let at = self.place(object, name)?;
        self.runtime.memory().u64(at).ok().filter(|object| *object != 0).map(Avma)
    }

    /// A field of 4 bytes.
    pub(crate) fn number(&mut self, object: Avma, name: &'static str) -> Option<u32> {
        let at = self.place(object, name)?;
        self.runtime.memory().u32(at).ok()
    }
}
