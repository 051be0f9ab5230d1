//! The first reading: names and fields of the classes, roots, and where objects lie.

use biopsy_dotnet::graph::RootKind;
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::records::{ClassRecord, Listener};
use super::stream::HprofError;
use super::types::{FieldType, Layout, class_name};

/// Most bytes of names.
const MOST_NAMES: usize = 1 << 30;
/// Most classes; each may have thousands of fields.
const MOST_CLASSES: usize = 4_000_000;
/// Most roots.
const MOST_ROOTS: usize = 100_000_000;
/// Deepest chain of parents.
const DEEPEST: usize = 1_000;
/// Most fields of an object. A class has up to so many; a chain that leads to one again and again has no end of them.
const MOST_FIELDS: usize = 1 << 16;

/// What is known of all classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    names: FxHashMap<u64, Box<[u8]>>,
    name_bytes: usize,
    loaded: FxHashMap<u64, u64>,
    records: FxHashMap<u64, ClassRecord>,
    pub(super) roots: Vec<(RootKind, Avma)>,
    highest: u64,
    wide: bool,
}

impl Classes {
    pub(super) fn id_bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::guess(self.id_bytes(), self.highest)
    }

    /// Name of a class, as the language writes it; `?` and its address where the file has none.
    pub(super) fn name_of(&self, class: u64) -> String {
        let name = self.loaded.get(&class).and_then(|name| self.names.get(name));
        name.map_or_else(|| format!("?{class:#x}"), |name| class_name(&String::from_utf8_lossy(name)))
    }

    /// All fields of an object of this class in the order of their values: its own, then its parent's. `None`: a class of the chain is
    /// not in the file.
    pub(super) fn fields_of(&self, class: u64) -> Option<Vec<FieldType>> {
        let mut fields = Vec::new();
        let mut at = class;
        for _ in 0..DEEPEST {
            let record = self.records.get(&at)?;
            if fields.len() + record.fields.len() > MOST_FIELDS {
                return None;
            }
            fields.extend_from_slice(&record.fields);
            if record.parent == 0 {
                return Some(fields);
            }
            at = record.parent;
        }
        None
    }

    fn seen(&mut self, object: Avma) {
        self.highest = self.highest.max(object.0);
    }
}

impl Listener for Classes {
    fn wide(&mut self, wide: bool) {
        self.wide = wide;
    }

    fn name(&mut self, id: u64, text: &[u8]) -> Result<(), HprofError> {
        self.name_bytes += text.len() + 32;
        if self.name_bytes > MOST_NAMES {
            return Err(HprofError::TooMany { what: "bytes of names", limit: MOST_NAMES as u64 });
        }
        self.names.insert(id, text.into());
        Ok(())
    }

    fn loaded(&mut self, class: u64, name: u64) -> Result<(), HprofError> {
        if self.loaded.len() >= MOST_CLASSES {
            return Err(HprofError::TooMany { what: "classes", limit: MOST_CLASSES as u64 });
        }
        self.loaded.insert(class, name);
        Ok(())
    }

    fn root(&mut self, kind: RootKind, object: Avma) -> Result<(), HprofError> {
        if self.roots.len() >= MOST_ROOTS {
            return Err(HprofError::TooMany { what: "roots", limit: MOST_ROOTS as u64 });
        }
        self.roots.push((kind, object));
        Ok(())
    }

    fn class(&mut self, class: ClassRecord) -> Result<(), HprofError> {
        if self.records.len() >= MOST_CLASSES {
            return Err(HprofError::TooMany { what: "classes", limit: MOST_CLASSES as u64 });
        }
        self.seen(Avma(class.object));
        self.records.insert(class.object, ClassRecord { holds: Vec::new(), ..class });
        Ok(())
    }

    fn instance(&mut self, object: Avma, _class: u64, _fields: &[u8]) -> Result<(), HprofError> {
        self.seen(object);
        Ok(())
    }

    fn references(&mut self, array: Avma, _class: u64, _elements: &[u8]) -> Result<(), HprofError> {
        self.seen(array);
        Ok(())
    }

    fn numbers(&mut self, array: Avma, _length: u32, _element: FieldType) -> Result<(), HprofError> {
        self.seen(array);
        Ok(())
    }
}
