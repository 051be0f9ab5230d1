//! What is known of a finding: the shape of its text.

/// What is known of a finding, whatever it was found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// What it means for whoever has to act, and what it is easily taken for.
    pub means: &'static str,
    /// When it is said, by kind of evidence.
    pub said: &'static [Said],
    /// What one would see if it were wrong, or harmless.
    pub disproved_by: &'static str,
    /// What to do, the first thing first. Empty: nothing needs doing.
    pub to_do: &'static [&'static str],
}

/// When a finding is said of one kind of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// Of which evidence.
    pub of: Kind,
    /// Under which conditions; thresholds included.
    pub when: &'static str,
    /// What that rests on.
    pub rests_on: &'static str,
}

/// A kind of evidence that findings are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A recording over time, of any process.
    Recorded,
    /// A recording over time with what a .NET runtime said of itself.
    DotNet,
    /// Memory at one moment, or at several: a dump, or stacks.
    Memory,
}

impl Kind {
    /// All, in the order of the catalogue.
    pub const ALL: [Kind; 3] = [Kind::Recorded, Kind::DotNet, Kind::Memory];

    /// Where it is found, in words: `in a recording`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Recorded => "in a recording",
            Self::DotNet => "in a recording of .NET",
            Self::Memory => "in a dump, or by `biopsy stacks`",
        }
    }
}

/// Of a recording of any process.
pub(super) const fn of_recording(when: &'static str, rests_on: &'static str) -> Said {
    Said { of: Kind::Recorded, when, rests_on }
}

/// Of a recording of .NET.
pub(super) const fn of_dotnet(when: &'static str, rests_on: &'static str) -> Said {
    Said { of: Kind::DotNet, when, rests_on }
}

/// Of memory.
pub(super) const fn of_memory(when: &'static str, rests_on: &'static str) -> Said {
    Said { of: Kind::Memory, when, rests_on }
}
