//! A graph as columns: the form that recordings keep, in an open format.
//!
//! Each column is a file of NumPy's format (`.npy`, version 1.0), so `numpy.load` reads it, and `scipy.sparse` takes the references as
//! they are. Types are JSON lines. Docs: `docs/formats/recording.md`.
//!
//! | column | of each | values |
//! | --- | --- | --- |
//! | `addresses` | object | u64, ascending |
//! | `types` | object | u32, line in `types.jsonl.zst`, from 0 |
//! | `sizes` | object | u32, or u64 when one needs it: bytes |
//! | `generations` | object | u8: 0, 1, 2, 3 large, 4 pinned, 5 frozen, 255 not known |
//! | `live` | object | u8: 1 reachable, 0 not; missing when it was not computed |
//! | `edge_starts` | object, and one more | u32 or u64: where its references begin in `edges` |
//! | `edges` | reference | u32: object; 4294967295: none of these |
//! | `roots` | root | kind u8, interior u8, thread u32, address u64, object u32 |
//! | `dependents` | dependent handle | key u32, value u32: objects |
//! | `noted` | number that was noted | u32: those of the first object, as many as its type says, those of the next; missing where none were |

mod npy;
mod read;
mod write;

use std::io::{self, Read};

pub use read::{ColumnsError, read};
pub use write::{has, write};

use super::Generation;

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Column {
    /// Where objects begin.
    Addresses,
    /// Their types.
    Types,
    /// Their sizes.
    Sizes,
    /// Where they live.
    Generations,
    /// Whether they are reachable.
    Live,
    /// Where their references begin.
    EdgeStarts,
    /// All references.
    Edges,
    /// What keeps objects alive.
    Roots,
    /// Dependent handles.
    Dependents,
    /// What was noted of objects.
    Noted,
}

impl Column {
    /// All, those that take longest to write first.
    pub const ALL: &[Self] = &[
        Self::Addresses,
        Self::Edges,
        Self::EdgeStarts,
        Self::Types,
        Self::Sizes,
        Self::Live,
        Self::Generations,
        Self::Roots,
        Self::Dependents,
        Self::Noted,
    ];

    /// Name of its file, without ending.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::Types => "types",
            Self::Sizes => "sizes",
            Self::Generations => "generations",
            Self::Live => "live",
            Self::EdgeStarts => "edge_starts",
            Self::Edges => "edges",
            Self::Roots => "roots",
            Self::Dependents => "dependents",
            Self::Noted => "noted",
        }
    }
}

/// Where columns are read from.
pub trait ColumnSource {
    /// Opens a column, unpacked; `None`: there is none.
    ///
    /// # Errors
    /// It is there and cannot be read.
    fn open(&self, column: Column) -> io::Result<Option<Box<dyn Read + '_>>>;
}

const GENERATIONS: [Generation; 6] = [
    Generation::Gen0,
    Generation::Gen1,
    Generation::Gen2,
    Generation::Large,
    Generation::Pinned,
    Generation::Frozen,
];

fn generation_number(generation: Generation) -> u8 {
    GENERATIONS.iter().position(|one| *one == generation).map_or(u8::MAX, |number| number as u8)
}

#[cfg(test)]
mod tests;
