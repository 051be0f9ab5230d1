//! The two halves of the corpus: rules may be tuned on the first and never on the second.

use std::fmt;

use super::random::hash;

/// To which half something belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Half {
    /// Rules may be tuned on it; its misses can be shown.
    A,
    /// The figures that count; its misses are never shown.
    B,
    /// A kind of one half at a place of the other one: not shown either.
    Mixed,
}

impl Half {
    /// All.
    pub(super) const ALL: [Self; 3] = [Self::A, Self::B, Self::Mixed];

    /// By name: nobody chooses.
    pub(super) fn of(name: &str) -> Self {
        if hash(name) & 1 == 0 { Self::A } else { Self::B }
    }

    /// Of a kind at a place.
    pub(super) fn both(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }
}

impl fmt::Display for Half {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::Mixed => "mixed",
        })
    }
}
