//! What is to be noted of the objects of a type.

use biopsy_model::heap::TypeFamily;

/// What is noted of the objects of a type.
#[derive(Clone, Default, Debug)]
pub(crate) struct Noted {
    /// Of each number.
    pub(crate) names: Vec<String>,
    /// Where numbers of 32 bits are, from an object's address; none for a text.
    pub(crate) offsets: Vec<u64>,
    /// Objects are texts: which are equal is noted.
    pub(crate) is_text: bool,
    /// What it is derived from.
    pub(crate) family: TypeFamily,
}
