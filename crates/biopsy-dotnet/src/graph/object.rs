//! What a graph is made of: objects, their numbers, and where they live.

use biopsy_model::Avma;

/// The number of an object in a graph, by address, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectIndex(pub u32);

/// The number of a type in a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeIndex(pub u32);

/// A target that is no object of the graph.
pub(crate) const NO_OBJECT: u32 = u32::MAX;
/// A place for a reference that is empty; kept where fields have names, so that the number of a reference tells its field.
pub(crate) const EMPTY: u32 = u32::MAX - 1;
/// Most objects of a graph.
pub const MOST_OBJECTS: u64 = NO_OBJECT as u64 - 1;

/// Where in the heap an object lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Generation {
    /// Youngest.
    Gen0,
    /// Survived once.
    Gen1,
    /// Survived twice or more.
    Gen2,
    /// The heap of large objects.
    Large,
    /// The heap of objects that never move.
    Pinned,
    /// Made at start-up and never collected, literal strings for example.
    Frozen,
    /// Not reported.
    #[default]
    Unknown,
}

impl Generation {
    /// Its name, in reports and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gen0 => "gen0",
            Self::Gen1 => "gen1",
            Self::Gen2 => "gen2",
            Self::Large => "large",
            Self::Pinned => "pinned",
            Self::Frozen => "frozen",
            Self::Unknown => "unknown",
        }
    }
}

/// One object, as it is iterated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its number.
    pub index: ObjectIndex,
    /// Its address.
    pub address: Avma,
    /// Its type.
    pub of: TypeIndex,
    /// Its size in bytes, header included, not rounded up.
    pub size: u64,
    /// Where it lives.
    pub generation: Generation,
}
