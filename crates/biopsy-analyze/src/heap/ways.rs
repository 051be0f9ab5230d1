//! The shortest way from a root to each object.
//!
//! One search in breadth from all roots: those that say who holds an object first, words on stacks only for what nothing else leads to.

use std::io;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex, Root, RootKind};

use super::names::{ELEMENT, Step, root_text, type_name};

/// Stands for a root.
const ROOT: u32 = u32::MAX;
/// A level of the search that is larger is gone through in the order of addresses.
const SORTED: usize = 1 << 10;
/// After so many objects it is looked whether all ways that are wanted are found.
const LOOKED: usize = 1 << 16;
/// Longest way that is told; the middle of a longer one is left out.
const LONGEST: usize = 200;

/// From which object each was reached.
#[derive(Debug)]
pub struct Ways<'g> {
    graph: &'g Graph,
    before: Vec<u32>,
    reached: Bits,
    roots: Vec<(ObjectIndex, Option<Root>)>,
}

/// Puts objects of a level in order, each of which is there once.
struct Order {
    /// A bit for each object, all clear between two levels; none before the first large one.
    marks: Vec<u64>,
    words: usize,
}

impl Order {
    fn of(objects: usize) -> Self {
        Self { marks: Vec::new(), words: objects.div_ceil(64) }
    }

    fn sort(&mut self, level: &mut Vec<u32>) {
        if level.len() <= SORTED.max(self.words / 8) {
            if level.len() > SORTED {
                level.sort_unstable();
            }
            return;
        }
        // To go through all marks costs less than to compare.
        self.marks.resize(self.words, 0);
        for object in level.drain(..) {
            self.marks[object as usize / 64] |= 1 << (object % 64);
        }
        for (at, word) in self.marks.iter_mut().enumerate() {
            let mut left = std::mem::take(word);
            while left != 0 {
                level.push(at as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }
}

impl<'g> Ways<'g> {
    /// Searches all objects.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &'g Graph) -> io::Result<Self> {
        Self::to_these(graph, &[])
    }

    /// Searches until the ways to these are found; without any, all objects.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub(super) fn to_these(graph: &'g Graph, wanted: &[ObjectIndex]) -> io::Result<Self> {
        let roots = graph.first_kept();
        let mut ways =
            Self { graph, before: vec![ROOT; graph.len()], reached: Bits::new(graph.len()), roots };
        let on_stack = |root: &Option<Root>| root.is_some_and(|root| root.kind == RootKind::Stack);
        let certain = ways.roots.partition_point(|(_, root)| !on_stack(root));
        let starts: Vec<u32> = ways.roots.iter().map(|(object, _)| object.0).collect();
        let (certain, left_over) = starts.split_at(certain);
        if !ways.search(certain, wanted)? {
            ways.search(left_over, wanted)?;
        }
        ways.roots.sort_by_key(|(object, _)| *object);
        Ok(ways)
    }

    /// `true`: all that are wanted are found, and nothing else was looked for.
    fn search(&mut self, starts: &[u32], wanted: &[ObjectIndex]) -> io::Result<bool> {
        let Self { graph, before, reached, .. } = self;
        let mut level: Vec<u32> =
            starts.iter().copied().filter(|one| reached.insert(*one as usize)).collect();
        let (mut next, mut buffer, mut order) = (Vec::new(), Vec::new(), Order::of(graph.len()));
        while !level.is_empty() {
            // What lies together in memory together: of a large level much is.
            order.sort(&mut level);
            for part in level.chunks(LOOKED) {
                if !wanted.is_empty() && wanted.iter().all(|one| reached.contains(one.0 as usize)) {
                    return Ok(true);
                }
                for object in part {
                    let mut reach = |target: ObjectIndex| {
                        if reached.insert(target.0 as usize) {
                            before[target.0 as usize] = *object;
                            next.push(target.0);
                        }
                    };
                    graph.for_each_reference(ObjectIndex(*object), &mut buffer, &mut reach)?;
                    graph.for_each_dependent(ObjectIndex(*object), &mut reach);
                }
            }
            level.clear();
            std::mem::swap(&mut level, &mut next);
        }
        Ok(false)
    }

    /// The way to an object, the root first; `None`: nothing leads to it.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn to(&self, object: ObjectIndex) -> io::Result<Option<Vec<Step>>> {
        if !self.reached.contains(object.0 as usize) {
            return Ok(None);
        }
        let mut objects = vec![object];
        while let Some(before) =
            self.before.get(objects[objects.len() - 1].0 as usize).filter(|one| **one != ROOT)
        {
            objects.push(ObjectIndex(*before));
        }
        objects.reverse();
        let root = self.roots.binary_search_by_key(&objects[0], |(object, _)| *object);
        let root = root.ok().and_then(|at| self.roots[at].1);
        let mut steps: Vec<Step> = Vec::new();
        let mut before = None;
        // The field by which the last step goes on in itself.
        let mut link: Option<String> = None;
        for object in objects {
            let via = match before {
                None => root_text(self.graph, root.as_ref()),
                Some(before) => self.field(before, object)?,
            };
            let of = type_name(self.graph, object);
            before = Some(object);
            // A list that is linked is one step; elements of an array of its own type are none.
            match steps.last_mut().filter(|last| via != ELEMENT && last.of == of) {
                Some(last) if last.times == 1 || link.as_deref() == Some(&via) => {
                    last.times += 1;
                    link = Some(via);
                }
                _ => steps.push(Step { via, of: of.to_owned(), times: 1 }),
            }
        }
        if steps.len() > LONGEST {
            let tail = steps.split_off(steps.len() - LONGEST / 2);
            steps.truncate(LONGEST / 2);
            steps.push(Step { via: String::new(), of: "…".to_owned(), times: 1 });
            steps.extend(tail);
        }
        Ok(Some(steps))
    }

    /// The field of an object that refers to another.
    fn field(&self, holder: ObjectIndex, held: ObjectIndex) -> io::Result<String> {
        let Some(of) = self.graph.object(holder).and_then(|holder| self.graph.type_of(holder.of)) else {
            return Ok(String::new());
        };
        let mut found = None;
        self.graph.for_each_numbered_reference(holder, &mut Vec::new(), |reference, target| {
            if target == held {
                found.get_or_insert(reference);
            }
        })?;
        let is_array = of.fields.is_empty() && of.name.ends_with(']');
        Ok(match found {
            Some(_) if is_array => ELEMENT.to_owned(),
            Some(reference) => of.field_of(reference).unwrap_or_default().to_owned(),
            None => String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::heap::made_up;

    proptest! {
        #[test]
        fn a_level_is_put_in_order_however_large_it_is(
            level in prop::collection::hash_set(0_u32..20_000, 0..6_000),
        ) {
            let mut order = Order::of(20_000);
            // Twice: the marks of the first must be gone.
            for _ in 0..2 {
                let mut sorted: Vec<u32> = level.iter().copied().collect();
                let mut put = sorted.clone();
                order.sort(&mut put);
                if level.len() > SORTED {
                    sorted.sort_unstable();
                }
                prop_assert_eq!(put, sorted);
            }
        }

        #[test]
        fn who_wants_some_ways_gets_the_same_as_who_wants_all(
            edges in prop::collection::vec(prop::collection::vec(0_usize..30, 0..3), 30),
            roots in prop::collection::vec((any::<bool>(), 0_usize..30), 1..4),
            wanted in prop::collection::vec(0_u32..30, 1..4),
        ) {
            let objects: Vec<_> = edges.into_iter().map(|edges| (0, 24, edges)).collect();
            let kind = |on_stack| if on_stack { RootKind::Stack } else { RootKind::StrongHandle };
            let roots: Vec<_> = roots.into_iter().map(|(on_stack, object)| (kind(on_stack), object)).collect();
            let graph = made_up::graph(&[("T", &["a", "b"])], &objects, &roots);
            let wanted: Vec<ObjectIndex> = wanted.into_iter().map(ObjectIndex).collect();
            let (all, some) = (Ways::of(&graph).expect("in memory"), Ways::to_these(&graph, &wanted).expect("in memory"));
            for one in wanted {
                prop_assert_eq!(some.to(one).expect("in memory"), all.to(one).expect("in memory"));
            }
        }
    }
}
