//! What holds blocks from outside: variables of modules and threads, words on stacks and in registers, other memory.

use std::ops::Range;

use biopsy_dotnet::graph::RootKind;
use biopsy_image::{Backing, Image, Mapping};
use biopsy_model::Avma;
use biopsy_stacks::image::ModuleVariables;
use biopsy_stacks::symbols::FileSources;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::heap::{BlockNumber, Heap};
use crate::kinds::Kinds;
use crate::stacks::{RED_ZONE, Stacks, ThreadMemory};
use crate::words;

/// Roots in all.
const MOST: usize = 8_000_000;
/// Names of roots.
const MOST_NAMES: usize = 500_000;
/// Places behind one that is taken that are tried.
const TRIES: u32 = 16;

/// A root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundRoot {
    pub(crate) block: BlockNumber,
    pub(crate) kind: RootKind,
    /// The first place with its name; 0: it has none.
    pub(crate) at: u64,
    pub(crate) thread: u32,
}

/// All roots, and their names by the first place that has each.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) list: Vec<FoundRoot>,
    names: FxHashMap<String, u64>,
    taken: FxHashSet<u64>,
    /// The last place that was given to a name whose own is taken; downwards from the end of all addresses.
    spare: u64,
    seen: FxHashSet<(BlockNumber, u64)>,
}

impl Found {
    pub(crate) fn add_named(&mut self, block: BlockNumber, kind: RootKind, name: &str, at: u64, thread: u32) {
        let place = match self.names.get(name) {
            Some(place) => *place,
            None if self.names.len() >= MOST_NAMES => 0,
            None => {
                // A place has one name.
                let (mut place, mut tries) = (at.max(1), 0);
                while !self.taken.insert(place) {
                    tries += 1;
                    place = if tries < TRIES { place.wrapping_add(1) } else { self.next_spare() };
                }
                self.names.insert(name.to_owned(), place);
                place
            }
        };
        self.add(block, kind, place, thread);
    }

    fn next_spare(&mut self) -> u64 {
        self.spare = self.spare.wrapping_sub(1);
        self.spare
    }

    fn add(&mut self, block: BlockNumber, kind: RootKind, at: u64, thread: u32) {
        if self.list.len() < MOST && self.seen.insert((block, at)) {
            self.list.push(FoundRoot { block, kind, at, thread });
        }
    }

    /// Each name with its place.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(|(name, place)| (name.as_str(), *place))
    }
}

/// Memory that holds no roots, and how stacks are told.
pub(crate) struct Others<'a> {
    /// That of allocators, by address.
    pub(crate) areas: &'a [Range<u64>],
    /// Pools of an interpreter, by address.
    pub(crate) pools: &'a [Range<u64>],
    /// Functions on stacks are those of an interpreter.
    pub(crate) is_interpreted: bool,
}

/// Looks through all memory that can be written and is no allocator's.
pub(crate) fn find(
    image: &dyn Image,
    modules: &[ModuleVariables],
    heap: &Heap,
    others: &Others<'_>,
    sources: &FileSources,
    kinds: &mut Kinds<'_>,
    found: &mut Found,
) {
    // What an interpreter has beside modules, classes and functions is mostly what it may use again: lists of free objects keep addresses of
    // those that are in use. It holds what nothing else does.
    let (of_modules, of_others) = match others.is_interpreted {
        true => (RootKind::Stack, RootKind::Stack),
        false => (RootKind::Static, RootKind::Other),
    };
    for module in modules {
        let parts = module.data.iter().flat_map(|range| without(range.clone(), &[others.areas]));
        for range in parts.flat_map(|part| words::written(image, part)) {
            words::for_each(image, range, |at, value, next| {
                let Some(block) = heap.find(value).filter(|block| !leads_to_head(kinds, heap, *block, value))
                else {
                    return;
                };
                if let Some(next) = next {
                    kinds.by_pair(block, value, next, heap);
                }
                let (start, name) = match module.at(Avma(at)) {
                    Some((Avma(start), name)) => (start, format!("global {name}")),
                    None => {
                        let offset = at.wrapping_sub(module.range.start);
                        (at, format!("global of {} at +0x{offset:x}", module.name()))
                    }
                };
                found.add_named(block, of_modules, &name, start, 0);
            });
        }
    }
    let stacks = Stacks::of(image, modules, sources, others.is_interpreted);
    let data: Vec<Range<u64>> = modules.iter().flat_map(|module| module.data.iter().cloned()).collect();
    for one in image.mappings().iter().filter(|one| holds_roots(one)) {
        // Of a stack only what is in use.
        let stack = stacks.lowest_in(&one.range()).map(|pointer| pointer.saturating_sub(RED_ZONE));
        let range = stack.map_or(one.start, |pointer| pointer.max(one.start))..one.end;
        let known = [others.areas, others.pools, data.as_slice()];
        let mut hits = Vec::new();
        for part in without(range, &known).into_iter().flat_map(|part| words::written(image, part)) {
            words::for_each(image, part, |at, value, next| {
                let Some(block) = heap.find(value).filter(|block| !leads_to_head(kinds, heap, *block, value))
                else {
                    return;
                };
                if let Some(next) = next {
                    kinds.by_pair(block, value, next, heap);
                }
                if hits.len() < MOST {
                    hits.push((at, block));
                }
            });
        }
        // The outermost function first: what it has is what it hands to the others.
        for (at, block) in hits.into_iter().rev() {
            match stacks.whose(at) {
                ThreadMemory::Static(name, thread) => {
                    let name =
                        name.map_or("thread static".to_owned(), |name| format!("thread static {name}"));
                    found.add_named(block, RootKind::ThreadStatic, &name, at, thread);
                }
                ThreadMemory::Stack(Some(function), thread) => {
                    found.add_named(block, RootKind::Stack, &format!("variable of {function}"), at, thread);
                }
                ThreadMemory::Stack(None, thread) => found.add(block, RootKind::Stack, 0, thread),
                ThreadMemory::Neither => found.add(block, of_others, 0, 0),
            }
        }
    }
    for (value, function, thread) in stacks.registers() {
        let Some(block) = heap.find(value) else { continue };
        match function {
            Some(function) => {
                found.add_named(block, RootKind::Stack, &format!("variable of {function}"), 1, thread);
            }
            None => found.add(block, RootKind::Stack, 0, thread),
        }
    }
}

fn leads_to_head(kinds: &Kinds<'_>, heap: &Heap, block: BlockNumber, value: u64) -> bool {
    heap.start(block).is_some_and(|start| kinds.python.is_head(block, value - start))
}

/// Private memory without a file that can be written; what modules have is looked through with their names.
fn holds_roots(one: &Mapping) -> bool {
    let is_anonymous = matches!(one.backing, Backing::Anonymous { .. } | Backing::Unknown);
    is_anonymous && one.protection.write && !one.shared
}

/// What is left of a range without others, each list by address.
fn without(range: Range<u64>, known: &[&[Range<u64>]]) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for list in known {
        let mut left = Vec::new();
        for part in parts {
            let mut at = part.start;
            let first = list.partition_point(|one| one.end <= part.start);
            for one in list.iter().skip(first).take_while(|one| one.start < part.end) {
                if one.start > at {
                    left.push(at..one.start);
                }
                at = at.max(one.end);
            }
            if at < part.end {
                left.push(at..part.end);
            }
        }
        parts = left;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_left_out() {
        let known: &[&[Range<u64>]] = &[&[5..10, 20..30], &[0..2, 28..35]];
        assert_eq!(without(0..40, known), [2..5, 10..20, 35..40]);
        assert!(without(6..8, known).is_empty());
        assert_eq!(without(6..8, &[]), vec![Range { start: 6, end: 8 }]);
    }

    #[test]
    fn one_name_is_one_place_and_one_root_of_a_block() {
        let mut found = Found::default();
        for (block, name, at) in
            [(1, "global a", 8), (1, "global a", 16), (2, "global b", 8), (2, "global a", 24)]
        {
            found.add_named(block, RootKind::Static, name, at, 0);
        }
        let roots: Vec<(u32, u64)> = found.list.iter().map(|root| (root.block, root.at)).collect();
        assert_eq!(roots, [(1, 8), (2, 9), (2, 8)]);
    }

    #[test]
    fn names_of_one_place_have_places_of_their_own() {
        let mut found = Found::default();
        for number in 0..100_000 {
            found.add_named(1, RootKind::Static, &format!("static app.{number}"), 64, 0);
        }
        let places: FxHashSet<u64> = found.names().map(|(_, place)| place).collect();
        assert_eq!((places.len(), found.list.len()), (100_000, 100_000));
        assert!(!places.contains(&0), "that is no place");
    }

    proptest::proptest! {
        #[test]
        fn what_is_left_of_a_range_is_what_no_list_has(
            range in (0..60_u64, 0..60_u64),
            lists in proptest::collection::vec(proptest::collection::btree_set(0..60_u64, 0..12), 0..3),
        ) {
            // Ends of ranges in order: they do not overlap, some touch.
            let lists: Vec<Vec<Range<u64>>> = lists
                .into_iter()
                .map(|ends| ends.into_iter().collect::<Vec<_>>().chunks_exact(2).map(|two| two[0]..two[1]).collect())
                .collect();
            let known: Vec<&[Range<u64>]> = lists.iter().map(Vec::as_slice).collect();
            let range = range.0..range.0.max(range.1);
            let left: Vec<u64> = without(range.clone(), &known).into_iter().flatten().collect();
            let wanted: Vec<u64> = range.filter(|at| !lists.iter().flatten().any(|one| one.contains(at))).collect();
            proptest::prop_assert_eq!(left, wanted);
        }
    }
}
