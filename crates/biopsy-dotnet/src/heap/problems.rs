//! What went wrong on a walk that went on all the same.

use biopsy_model::Avma;

/// What is wrong with an object, or with the place where one should be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Problem {
    /// The first word is no method table.
    NoMethodTable,
    /// The object would reach beyond its segment.
    TooLong,
    /// Memory of the segment is not in the image.
    Unreadable,
    /// The type says that its references lie outside of its objects.
    BadReferences,
    /// The segment's own numbers make no sense.
    BadSegment,
}

impl Problem {
    /// Its description, as shown.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NoMethodTable => "no object begins where one should",
            Self::TooLong => "an object reaches beyond its segment",
            Self::Unreadable => "memory is missing",
            Self::BadReferences => "a type places references outside of its objects",
            Self::BadSegment => "the numbers of a segment make no sense",
        }
    }
}

/// What went wrong on a walk. All zero: the heap is whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Problems {
    /// How many, all in all.
    pub count: u64,
    /// The first of them, with the address it was seen at; at most [`Problems::LISTED`].
    pub first: Vec<(Avma, Problem)>,
    /// Bytes of segments that were not walked because of them.
    pub skipped_bytes: u64,
    /// References that lead to no object; once it is known what is live, those of live objects.
    pub dangling: u64,
    /// References of garbage that lead to no object. That is no damage: a background collection sweeps the old generation and
    /// leaves garbage of the young ones, which still names what was swept.
    pub stale: u64,
}

impl Problems {
    /// Most that are listed one by one.
    pub const LISTED: usize = 20;

    /// Whether every byte was walked and every reference that counts leads to an object.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self { stale: self.stale, ..Self::default() }
    }

    /// Tells references of garbage from those of live objects, `live` of which lead to no object.
    pub(crate) fn set_live_dangling(&mut self, live: u64) {
        self.stale = self.stale.saturating_add(self.dangling.saturating_sub(live));
        self.dangling = self.dangling.min(live);
    }

    pub(crate) fn add(&mut self, address: u64, problem: Problem, skipped: u64) {
        self.count += 1;
        self.skipped_bytes = self.skipped_bytes.saturating_add(skipped);
        if self.first.len() < Self::LISTED {
            self.first.push((Avma(address), problem));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.skipped_bytes = self.skipped_bytes.saturating_add(other.skipped_bytes);
        self.dangling += other.dangling;
        self.stale += other.stale;
        let room = Self::LISTED.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}
