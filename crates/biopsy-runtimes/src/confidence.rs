//! How sure it is who holds what is waited for.

/// How sure a claim is. The order is from weak to strong: a circle is as sure as its weakest edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Confidence {
    /// It refers to the lock, as others may: a candidate.
    Possible,
    /// The code ahead of it lets go of the lock before it takes it.
    VeryLikely,
    /// The compiler or the interpreter says what is held at this instruction.
    AlmostCertain,
    /// The lock or the runtime says who the owner is.
    Certain,
}

impl Confidence {
    /// `very likely`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Possible => "possibly",
            Self::VeryLikely => "very likely",
            Self::AlmostCertain => "almost certainly",
            Self::Certain => "certainly",
        }
    }
}
