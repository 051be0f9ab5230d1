//! What a thread did between several looks at its process.

use biopsy_stacks::image::ThreadStack;

/// What a thread did between looks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Movement {
    /// It did not run at all, and stands where it stood: stuck, or with nothing to do.
    Stuck,
    /// It stands where it stood; whether it ran in between is not known.
    SamePlace,
    /// It stands where it stood, but it ran in between: it came back, or waits for a time again and again.
    Again,
    /// It stands elsewhere.
    Moved,
    /// It was not there in all of the looks.
    New,
}

impl Movement {
    /// The word of it in the schema.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::SamePlace => "same-place",
            Self::Again => "again",
            Self::Moved => "moved",
            Self::New => "new",
        }
    }

    /// What a thread did, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Stuck => "did not run between the looks",
            Self::SamePlace => "in the same place in all looks",
            Self::Again => "in the same place, but ran between the looks",
            Self::Moved => "moved between the looks",
            Self::New => "not there in all looks",
        }
    }

    /// Nothing speaks against its being stuck.
    #[must_use]
    pub fn may_be_stuck(self) -> bool {
        matches!(self, Self::Stuck | Self::SamePlace)
    }
}

/// Where a thread stands, exactly: equal only where no frame differs. `None`: there is no stack.
pub(super) fn stand(stack: Option<&ThreadStack>) -> Option<u64> {
    let frames = &stack?.frames;
    // FNV: this is compared within one run, and by nobody who would make up an equal one.
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let print = frames.iter().fold(0xcbf2_9ce4_8422_2325, |sum, frame| mix(mix(sum, frame.ip.0), frame.sp.0));
    (!frames.is_empty()).then_some(print)
}
