//! The halves of the corpus: rules may be tuned on some of them, and never on the last.

use std::fmt;

use super::random::hash;

/// To which half something belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Half {
    /// Rules may be tuned on it; its misses can be shown.
    A,
    /// Held out for long; its misses are shown since half C takes its place.
    B,
    /// A kind of A at a place of B, or the other way round.
    Mixed,
    /// Held out since, from tables of its own (`fixtures/secrets/c`); its misses are never shown.
    C,
    /// The newest one held out, likewise (`fixtures/secrets/d`).
    D,
}

impl Half {
    /// All.
    pub(super) const ALL: [Self; 5] = [Self::A, Self::B, Self::Mixed, Self::C, Self::D];
    /// Those that have tables of their own, and the folders of these.
    pub(super) const HELD_OUT: [(Self, &'static str); 2] = [(Self::C, "c"), (Self::D, "d")];

    /// By name: nobody chooses.
    pub(super) fn of(name: &str) -> Self {
        if hash(name) & 1 == 0 { Self::A } else { Self::B }
    }

    /// Of a kind at a place.
    pub(super) fn both(self, other: Self) -> Self {
        match self == other {
            true => self,
            false if self.is_held_out() => self,
            false if other.is_held_out() => other,
            false => Self::Mixed,
        }
    }

    /// Whether its misses may be looked at.
    pub(super) fn is_open(self) -> bool {
        !self.is_held_out()
    }

    /// Whether it has tables of its own: its kinds stand at its own places only.
    pub(super) fn is_held_out(self) -> bool {
        Self::HELD_OUT.iter().any(|(half, _)| *half == self)
    }
}

/// As an option.
impl std::str::FromStr for Half {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_called = |half: &Self| half.to_string().eq_ignore_ascii_case(text);
        Self::ALL
            .into_iter()
            .find(is_called)
            .ok_or_else(|| "a half is `a`, `b`, `mixed`, `c` or `d`".to_owned())
    }
}

impl fmt::Display for Half {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::Mixed => "mixed",
            Self::C => "C",
            Self::D => "D",
        })
    }
}
