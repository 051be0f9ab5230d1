//! Fields of types.

use super::ElementType;

/// Where the value of a field is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FieldPlace {
    /// So many bytes behind the method table word of an object (add 8 to an object's address), or from the start of a value.
    Instance(u32),
    /// At this address, for all threads. Has no meaning before the type's initialiser has run.
    Static(u64),
    /// One for each thread; so many bytes into the type's thread statics.
    ThreadStatic(u32),
    /// In the image of the assembly, at this relative virtual address.
    Rva(u32),
    /// A static of a type whose statics are not allocated, or not found.
    Unknown,
}

/// A field that a type declares (inherited ones are at the parent).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name, as in the metadata.
    pub name: String,
    /// Row in the table of fields.
    pub row: u32,
    /// How the value is stored.
    pub element_type: ElementType,
    /// Where the value is.
    pub place: FieldPlace,
    /// Declared `const`: there is no value in memory.
    pub literal: bool,
    /// Address of the runtime's `FieldDesc`.
    pub address: u64,
}
