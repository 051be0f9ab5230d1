//! Objects and bytes by type.

use biopsy_model::heap::{GenerationFacts, HeapFacts};

use super::{Generation, Graph, RootKind, TypeIndex};

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
    /// Those that are reachable; `None`: not computed yet.
    pub live: Option<Totals>,
}

impl TypeTotals {
    /// Those that are not reachable; `None`: not computed yet.
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
        self.sum(&self.by_type(), false)
    }

    /// Free space alone, or all that is none.
    fn sum(&self, by_type: &[TypeTotals], is_free: bool) -> (Totals, Option<Totals>) {
        let mut all = Totals::default();
        let mut live = self.live().map(|_| Totals::default());
        for one in by_type {
            if self.type_of(one.of).is_some_and(|of| of.is_free) != is_free {
                continue;
            }
            all.add_all(one.all);
            if let (Some(sum), Some(more)) = (&mut live, one.live) {
                sum.add_all(more);
            }
        }
        (all, live)
    }

    /// The facts that the graph alone tells: what is in it, and that it is whole.
    #[must_use]
    pub fn facts(&self) -> HeapFacts {
        let by_type = self.by_type();
        let (all, live) = self.sum(&by_type, false);
        let (free, _) = self.sum(&by_type, true);
        let generations = self.by_generation().into_iter().map(|(generation, totals)| GenerationFacts {
            name: generation.name().to_owned(),
            objects: totals.objects,
            bytes: totals.bytes,
        });
        let count = |kind: &RootKind| self.roots().iter().filter(|root| root.kind == *kind).count() as u64;
        let roots = RootKind::ALL.iter().map(|kind| (kind.name().to_owned(), count(kind)));
        HeapFacts {
            objects: all.objects,
            bytes: all.bytes,
            live_objects: live.map(|live| live.objects),
            live_bytes: live.map(|live| live.bytes),
            free_objects: free.objects,
            free_bytes: free.bytes,
            references: self.edge_count(),
            types: by_type.len() as u64,
            generations: generations.collect(),
            roots: roots.filter(|(_, count)| *count > 0).collect(),
            whole: true,
            ..HeapFacts::default()
        }
    }
}
