//! How sure it is who holds what is waited for.

/// How sure a claim is. The order is from weak to strong: a circle is as sure as its weakest edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Confidence {
    /// It refers to the lock, as others may: a candidate.
    Possible,
    /// The code ahead of it lets go of the lock before it takes it.
    VeryLikely,
    /// The compiler or the interpreter says what is held at this instruction.
    AlmostCertain,
    /// The lock or the runtime says who the owner is.
    #[default]
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

#[cfg(test)]
mod tests {
    use super::Confidence;

    #[test]
    fn a_circle_is_as_sure_as_its_weakest_edge() {
        let edges = [Confidence::Certain, Confidence::VeryLikely, Confidence::AlmostCertain];
        assert_eq!(edges.into_iter().min().map(Confidence::words), Some("very likely"));
    }
}
