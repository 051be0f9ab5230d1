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
    /// From tables of its own (`fixtures/secrets/c`); held out until the rules had stood still for long, shown since.
    C,
    /// Likewise (`fixtures/secrets/d`); held out from when it was written until half E was.
    D,
    /// Likewise (`fixtures/secrets/e`): what of it was opened first. Half of its kinds, and all of its clean text and look-alikes.
    E,
    /// The other kinds of E, which were held out longer: by their names, so that nobody chose. They stand at the same places.
    RestOfE,
    /// From tables of its own (`fixtures/secrets/f`), held out as a whole.
    F,
    /// Likewise (`fixtures/secrets/g`): what servers hold most of the time.
    G,
    /// Likewise (`fixtures/secrets/h`), as the half before; held out until 2026-11-29.
    H,
    /// Likewise (`fixtures/secrets/i`), as the two before; held out until 2026-11-30.
    I,
    /// Likewise (`fixtures/secrets/j`), as the three before; written while I was held out, and held out until K was there.
    J,
    /// Likewise (`fixtures/secrets/k`), as the four before; written while J was held out. It is **held out**.
    K,
}

impl Half {
    /// All.
    pub(super) const ALL: [Self; 13] = [
        Self::A,
        Self::B,
        Self::Mixed,
        Self::C,
        Self::D,
        Self::E,
        Self::RestOfE,
        Self::F,
        Self::G,
        Self::H,
        Self::I,
        Self::J,
        Self::K,
    ];
    /// Those that have tables of their own, and the folders of these.
    pub(super) const OWN_TABLES: [(Self, &'static str); 9] = [
        (Self::C, "c"),
        (Self::D, "d"),
        (Self::E, "e"),
        (Self::F, "f"),
        (Self::G, "g"),
        (Self::H, "h"),
        (Self::I, "i"),
        (Self::J, "j"),
        (Self::K, "k"),
    ];

    /// Those whose misses nobody may see; J was, until 2026-11-30.
    const HELD_OUT: [Self; 1] = [Self::K];

    /// By name: nobody chooses.
    pub(super) fn of(name: &str) -> Self {
        if hash(name) & 1 == 0 { Self::A } else { Self::B }
    }

    /// Of a kind of the tables of this half.
    pub(super) fn of_kind(self, name: &str) -> Self {
        match self {
            Self::E if hash(&format!("kept {name}")) & 1 == 0 => Self::RestOfE,
            half => half,
        }
    }

    /// That of whose places, clean text and look-alikes it has.
    pub(super) fn tables(self) -> Self {
        match self {
            Self::RestOfE => Self::E,
            half => half,
        }
    }

    /// Of a kind at a place.
    pub(super) fn both(self, other: Self) -> Self {
        match self == other {
            true => self,
            false if self.has_own_tables() => self,
            false if other.has_own_tables() => other,
            false => Self::Mixed,
        }
    }

    /// Whether its misses may be looked at.
    pub(super) fn is_open(self) -> bool {
        !Self::HELD_OUT.contains(&self)
    }

    /// Whether it has tables of its own: its kinds stand at its own places only.
    pub(super) fn has_own_tables(self) -> bool {
        Self::OWN_TABLES.iter().any(|(half, _)| *half == self.tables())
    }
}

/// As an option.
impl std::str::FromStr for Half {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_called = |half: &Self| half.to_string().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(is_called).ok_or_else(|| {
            "a half is `a`, `b`, `mixed`, `c`, `d`, `e`, `rest`, `f`, `g`, `h`, `i`, `j` or `k`".to_owned()
        })
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
            Self::E => "E",
            Self::RestOfE => "rest",
            Self::F => "F",
            Self::G => "G",
            Self::H => "H",
            Self::I => "I",
            Self::J => "J",
            Self::K => "K",
        })
    }
}
