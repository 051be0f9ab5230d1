//! Variables that lead to several objects: both ends of a list, the table and the first node of a map.
//!
//! Each of them would be a root of its own, and what hangs on two of them would be held by nobody. It is the variable that holds it, so
//! that counts as one that refers to them all while dominators are looked for.

use biopsy_dotnet::graph::{Graph, ObjectIndex, Root};
use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::roots::is_on_stack;

/// All variables with a name and several objects.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// By whether they are on a stack, and their place.
    places: FxHashSet<(bool, Avma)>,
    /// Each one's root, and where its objects begin; those on stacks last.
    all: Vec<(Root, usize)>,
    objects: Vec<u32>,
    certain: usize,
}

impl Variables {
    pub(super) fn of(graph: &Graph) -> Self {
        let named = |root: &&Root| {
            root.address != Avma(0)
                && (root.object.0 as usize) < graph.len()
                && graph.static_at(root.address).is_some()
        };
        let mut roots: Vec<&Root> = graph.roots().iter().filter(named).collect();
        let key = |root: &Root| (is_on_stack(Some(root)), root.address);
        roots.sort_by_key(|root| (key(root), root.object));
        roots.dedup_by_key(|root| (key(root), root.object));
        let mut variables = Self::default();
        for together in roots.chunk_by(|a, b| key(a) == key(b)) {
            let Some(first) = together.first().filter(|_| together.len() > 1) else { continue };
            variables.places.insert(key(first));
            variables.all.push((**first, variables.objects.len()));
            variables.objects.extend(together.iter().map(|root| root.object.0));
            variables.certain += usize::from(!is_on_stack(Some(first)));
        }
        variables
    }

    /// Numbers of those that are on no stack, and of those that are.
    pub(super) fn by_certainty(&self) -> [std::ops::Range<usize>; 2] {
        [0..self.certain, self.certain..self.all.len()]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a root is a part of one of them.
    pub(super) fn has(&self, root: &Root) -> bool {
        self.places.contains(&(is_on_stack(Some(root)), root.address))
    }

    /// The root of a variable, whose objects are others besides.
    pub(super) fn root(&self, number: usize) -> Option<Root> {
        self.all.get(number).map(|(root, _)| *root)
    }

    /// What a variable leads to.
    pub(super) fn objects(&self, number: usize) -> impl Iterator<Item = ObjectIndex> + '_ {
        let from = self.all.get(number).map_or(self.objects.len(), |(_, first)| *first);
        let to = self.all.get(number + 1).map_or(self.objects.len(), |(_, first)| *first);
        self.objects.get(from..to).unwrap_or_default().iter().map(|object| ObjectIndex(*object))
    }
}
