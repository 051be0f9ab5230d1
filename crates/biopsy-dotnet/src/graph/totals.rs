//! Objects and bytes by type.

use super::{Generation, Graph, TypeIndex};

/// A number of objects and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Objects.
    pub objects: u64,
    /// Their sizes in bytes.
    pub bytes: u64,
}

impl Totals {
    /// Adds one object.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds others.
    pub fn add_all(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Objects of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypeTotals {
    /// The type.
    pub of: TypeIndex,
    /// All of them.
    pub all: Totals,
    /// Those that are reachable; `None`: nobody has looked.
    pub live: Option<Totals>,
}

impl TypeTotals {
    /// Those that are not reachable; `None`: nobody has looked.
    #[must_use]
    pub fn garbage(&self) -> Option<Totals> {
        self.live.map(|live| Totals {
            objects: self.all.objects.saturating_sub(live.objects),
            bytes: self.all.bytes.saturating_sub(live.bytes),
        })
    }
}

impl Graph {
    /// Objects and bytes of each type, those of most bytes first; types without objects are left out, free space is in.
    #[must_use]
    pub fn by_type(&self) -> Vec<TypeTotals> {
        let mut sums = vec![(Totals::default(), Totals::default()); self.types().len()];
        for span in &self.spans {
            for (number, of) in span.types.iter().enumerate() {
                let Some((all, live)) = sums.get_mut(*of as usize) else { continue };
                let size = span.size(number as u32);
                all.add(size);
                if self.live().is_some_and(|bits| bits.contains(span.first as usize + number)) {
                    live.add(size);
                }
            }
        }
        let mut totals: Vec<TypeTotals> = sums
            .into_iter()
            .enumerate()
            .filter(|(_, (all, _))| all.objects > 0)
            .map(|(of, (all, live))| TypeTotals {
                of: TypeIndex(of as u32),
                all,
                live: self.live().map(|_| live),
            })
            .collect();
        totals.sort_by_key(|one| (std::cmp::Reverse(one.all.bytes), one.of));
        totals
    }

    /// Objects and bytes of each generation, free space left out; none where nobody told them.
    #[must_use]
    pub fn by_generation(&self) -> Vec<(Generation, Totals)> {
        let mut sums = std::collections::BTreeMap::new();
        for span in self.spans.iter().filter(|span| span.generation != Generation::Unknown) {
            let sum: &mut Totals = sums.entry(span.generation).or_default();
            for (number, of) in span.types.iter().enumerate() {
                if !self.types.get(*of as usize).is_some_and(|of| of.is_free) {
                    sum.add(span.size(number as u32));
                }
            }
        }
        sums.into_iter().filter(|(_, sum)| sum.objects > 0).collect()
    }

    /// Objects and bytes of all that is no free space: all, and those that are reachable.
    #[must_use]
    pub fn totals(&self) -> (Totals, Option<Totals>) {
        let mut all = Totals::default();
        let mut live = self.live().map(|_| Totals::default());
        for one in self.by_type() {
            if self.type_of(one.of).is_some_and(|of| of.is_free) {
                continue;
            }
            all.add_all(one.all);
            if let (Some(sum), Some(more)) = (&mut live, one.live) {
                sum.add_all(more);
            }
        }
        (all, live)
    }
}
