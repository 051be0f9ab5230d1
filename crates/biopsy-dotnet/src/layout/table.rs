//! The layout of one runtime: types, globals, contracts, by name.

use rustc_hash::FxHashMap;

use super::LayoutError;

/// A value that the layout names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Global {
    /// A constant.
    Number(u64),
    /// A text, such as the name of the architecture.
    Text(Box<str>),
    /// The address of a variable of the runtime.
    Address(u64),
}

/// A type: its size and the offsets of its fields.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TypeLayout {
    pub(crate) size: Option<u32>,
    pub(crate) fields: FxHashMap<Box<str>, u32>,
}

/// The layout of one runtime.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    pub(crate) types: FxHashMap<Box<str>, TypeLayout>,
    pub(crate) globals: FxHashMap<Box<str>, Global>,
    pub(crate) contracts: FxHashMap<Box<str>, u32>,
    pub(crate) sources: Vec<String>,
}

impl Layout {
    /// Offset of a field in bytes.
    ///
    /// # Errors
    /// [`LayoutError::NoField`].
    pub fn field(&self, type_name: &str, field: &str) -> Result<u32, LayoutError> {
        self.find_field(type_name, field).ok_or_else(|| LayoutError::NoField {
            type_name: type_name.to_string(),
            field: field.to_string(),
        })
    }

    /// Offset of a field in bytes, where it is described.
    #[must_use]
    pub fn find_field(&self, type_name: &str, field: &str) -> Option<u32> {
        self.types.get(type_name)?.fields.get(field).copied()
    }

    /// Size of a type in bytes.
    ///
    /// # Errors
    /// [`LayoutError::NoType`].
    pub fn size(&self, type_name: &str) -> Result<u32, LayoutError> {
        self.find_size(type_name).ok_or_else(|| LayoutError::NoType { type_name: type_name.to_string() })
    }

    /// Size of a type in bytes, where it is described.
    #[must_use]
    pub fn find_size(&self, type_name: &str) -> Option<u32> {
        self.types.get(type_name)?.size
    }

    /// The bit in the flags of a method table that says that the type may be unloaded (`enum_flag_Collectible`). It was moved
    /// between 8 and 9; no descriptor says it, the layout files do.
    pub(crate) fn collectible_flag(&self) -> u32 {
        const SINCE_9: u32 = 0x0020_0000;
        let told = self.find_global("MethodTableCollectibleFlag");
        told.and_then(|flag| u32::try_from(flag).ok()).unwrap_or(SINCE_9)
    }

    /// Number of a global: the value of a constant, the *address* of a variable.
    ///
    /// # Errors
    /// [`LayoutError::NoGlobal`].
    pub fn global(&self, name: &str) -> Result<u64, LayoutError> {
        self.find_global(name).ok_or_else(|| LayoutError::NoGlobal { name: name.to_string() })
    }

    /// As [`Layout::global`], where it is described.
    #[must_use]
    pub fn find_global(&self, name: &str) -> Option<u64> {
        match self.globals.get(name)? {
            Global::Number(number) | Global::Address(number) => Some(*number),
            Global::Text(_) => None,
        }
    }

    /// A global as it is described.
    #[must_use]
    pub fn global_value(&self, name: &str) -> Option<&Global> {
        self.globals.get(name)
    }

    /// Version of a contract: the algorithm that a part of the runtime follows. `c2` is 2.
    #[must_use]
    pub fn contract(&self, name: &str) -> Option<u32> {
        self.contracts.get(name).copied()
    }

    /// Where it comes from: `descriptor`, names of layout files; the later ones filled gaps only.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Sets the offset of a field: what was found by looking.
    pub(crate) fn set_field(&mut self, type_name: &str, field: &str, offset: u32) {
        self.types.entry(type_name.into()).or_default().fields.insert(field.into(), offset);
    }

    /// Takes over what is not there yet.
    pub(crate) fn fill_from(&mut self, other: &Layout) {
        for (name, theirs) in &other.types {
            let ours = self.types.entry(name.clone()).or_default();
            ours.size = ours.size.or(theirs.size);
            for (field, offset) in &theirs.fields {
                ours.fields.entry(field.clone()).or_insert(*offset);
            }
        }
        for (name, value) in &other.globals {
            self.globals.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, version) in &other.contracts {
            self.contracts.entry(name.clone()).or_insert(*version);
        }
        self.sources.extend(other.sources.iter().cloned());
    }
}
