//! What grew between snapshots: by type, and by who holds it.
//!
//! Snapshots are held against each other by names (objects move), along the tree of holders: from a root down while one branch has what
//! grew, to holders that did not become more, below which objects did. What grew in every interval is set apart from what grew once: a
//! cache that came to its bound, a warm-up and a burst all grow once.

use biopsy_model::order::Order as _;
use std::collections::HashMap;

use biopsy_model::Pid;

use super::names::Step;
use super::summary::HeapSummary;

/// Snapshots held against each other, in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Growth {
    /// Each snapshot.
    pub moments: Vec<Moment>,
    /// They are of one process.
    pub is_one_process: bool,
    /// Types that grew or shrank, what changed the most first.
    pub types: Vec<TypeGrowth>,
    /// Where more is held than before, the most first.
    pub holders: Vec<HolderGrowth>,
}

/// One snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moment {
    /// When, seconds since 1970; 0: not known.
    pub taken_at_unix_seconds: f64,
    /// Objects that are alive; all, where nobody looked.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A type at each moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypeGrowth {
    /// Its name.
    pub name: String,
    /// File name of its module.
    pub module: String,
    /// Objects that are alive.
    pub objects: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// It grew in every interval.
    pub always: bool,
}

/// A place that holds more than before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HolderGrowth {
    /// From the root to the holder; empty: roots hold it.
    pub way: Vec<Step>,
    /// How it is held, and its type.
    pub held: Step,
    /// Where several hold it: one way to one of them.
    pub one_way: Vec<Step>,
    /// Where that type is of the framework (a delegate, a timer): the program's own that hangs on it. `None`: it is the program's, or none is.
    pub keeps: Option<String>,
    /// How many are held.
    pub objects: Vec<u64>,
    /// Bytes that live because of them.
    pub retained: Vec<u64>,
    /// It grew in every interval, and not less towards the end.
    pub always: bool,
}

/// Types that are told.
const TYPES: usize = 200;
/// Places that are told.
const HOLDERS: usize = 20;
/// Types of the framework are wrapped around the program's own.
const FRAMEWORK: &[&str] =
    &["System.", "Microsoft.", "(", "system / ", "std::", "alloc::", "hashbrown::", "block of "];
/// The same by their whole names: what native blocks look like, and what Python has.
const BUILT_IN: &[&str] = &[
    "text",
    "array of pointers",
    "list",
    "list items",
    "dict",
    "dict entries",
    "dict values",
    "set",
    "frozenset",
    "set entries",
    "tuple",
    "str",
    "bytes",
    "bytearray",
    "bytearray buffer",
    "int",
    "float",
    "method",
    "function",
    "cell",
    "builtin_function_or_method",
    "weakref",
    "collections.deque",
    "deque block",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.Counter",
    "functools._lru_cache_wrapper",
    "functools._lru_list_elem",
    "functools.partial",
    "weakref.ReferenceType",
    "_queue.SimpleQueue",
];
/// So many steps below what is held the program's own is looked for.
const OWN_BELOW: usize = 5;
/// What grew by less than this share of the heap, or than these bytes, is not told.
const LEAST_SHARE: f64 = 0.005;
const LEAST_BYTES: u64 = 64 << 10;
/// The share of what grew at a node that is told at one branch below it.
const BRANCH: f64 = 0.25;
/// The last interval must have grown at least so many times as fast as those before it: what fills to its bound slows down.
const LAST: f64 = 0.4;

impl Growth {
    /// Of two snapshots or more. `None`: there are fewer.
    #[must_use]
    pub fn of(heaps: &[&HeapSummary]) -> Option<Self> {
        if heaps.len() < 2 {
            return None;
        }
        let moments: Vec<Moment> = heaps.iter().map(|heap| moment(heap)).collect();
        let first = heaps.first()?.facts.pid;
        let is_one_process = first != Pid(0) && heaps.iter().all(|heap| heap.facts.pid == first);
        let times: Vec<f64> = moments.iter().map(|moment| moment.taken_at_unix_seconds).collect();
        let largest = moments.iter().map(|moment| moment.bytes).max().unwrap_or(0);
        let least = LEAST_BYTES.max((largest as f64 * LEAST_SHARE) as u64);
        Some(Self {
            types: types(heaps, &times),
            holders: holders(heaps, &times, least),
            is_one_process,
            moments,
        })
    }

    /// Bytes that there are more at the end than at the beginning.
    #[must_use]
    pub fn grown(&self) -> i128 {
        let bytes = |moment: Option<&Moment>| i128::from(moment.map_or(0, |moment| moment.bytes));
        bytes(self.moments.last()) - bytes(self.moments.first())
    }
}

fn moment(heap: &HeapSummary) -> Moment {
    let facts = &heap.facts;
    Moment {
        taken_at_unix_seconds: facts.taken_at_unix_seconds,
        objects: facts.live_objects.unwrap_or(facts.objects),
        bytes: facts.live_bytes.unwrap_or(facts.bytes),
    }
}

/// How much a row of numbers grew from the first to the last.
#[must_use]
pub fn grown(values: &[u64]) -> i128 {
    i128::from(values.last().copied().unwrap_or(0)) - i128::from(values.first().copied().unwrap_or(0))
}

/// It grew in each interval, of which there are several or one, and the last is no mere rest of what was before.
fn grew_always(values: &[u64], times: &[f64]) -> bool {
    let rises = values.is_sorted_by(|a, b| a < b);
    let seconds = |from: usize, to: usize| match (times.get(from), times.get(to)) {
        (Some(from), Some(to)) if *from > 0.0 && to > from => to - from,
        // Not known: intervals count alike.
        _ => (to - from) as f64,
    };
    let Some(last) = values.len().checked_sub(1).filter(|last| *last >= 1) else { return false };
    if !rises || last == 1 {
        return rises;
    }
    let rate = |from: usize, to: usize| values[to].saturating_sub(values[from]) as f64 / seconds(from, to);
    rate(last - 1, last) >= rate(0, last - 1) * LAST
}

fn types(heaps: &[&HeapSummary], times: &[f64]) -> Vec<TypeGrowth> {
    let mut rows: HashMap<(&str, &str), [Vec<u64>; 2]> = HashMap::new();
    for (at, heap) in heaps.iter().enumerate() {
        for row in &heap.types {
            let live = if heap.facts.live_bytes.is_some() { row.live.unwrap_or_default() } else { row.all };
            let [objects, bytes] = rows
                .entry((&row.name, &row.module))
                .or_insert_with(|| [vec![0; heaps.len()], vec![0; heaps.len()]]);
            objects[at] += live.objects;
            bytes[at] += live.bytes;
        }
    }
    let mut types: Vec<TypeGrowth> = rows
        .into_iter()
        .filter(|(_, [_, bytes])| grown(bytes) != 0)
        .map(|((name, module), [objects, bytes])| TypeGrowth {
            name: name.to_owned(),
            module: module.to_owned(),
            always: grew_always(&bytes, times),
            objects,
            bytes,
        })
        .collect();
    types.order_by(|a, b| {
        grown(&b.bytes)
            .abs()
            .cmp(&grown(&a.bytes).abs())
            .then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    types.truncate(TYPES);
    types
}

/// The trees of all snapshots as one, with numbers for each.
struct Merged<'h> {
    parents: Vec<u32>,
    below: Vec<Vec<u32>>,
    steps: Vec<(&'h str, &'h str)>,
    objects: Vec<Vec<u64>>,
    retained: Vec<Vec<u64>>,
    bytes: Vec<Vec<u64>>,
    one_way: Vec<&'h [Step]>,
}

impl<'h> Merged<'h> {
    fn of(heaps: &[&'h HeapSummary]) -> Self {
        let mut merged = Self {
            parents: Vec::new(),
            below: Vec::new(),
            steps: Vec::new(),
            objects: Vec::new(),
            retained: Vec::new(),
            bytes: Vec::new(),
            one_way: Vec::new(),
        };
        merged.add(0, ("", ""), heaps.len());
        let mut known: HashMap<(u32, &str, &str, &str), u32> = HashMap::new();
        for (at, heap) in heaps.iter().enumerate() {
            let Some(held) = &heap.held else { continue };
            let mut numbers = vec![0_u32; held.tree.nodes.len()];
            for (number, node) in held.tree.nodes.iter().enumerate().skip(1) {
                let parent = numbers[node.parent as usize];
                // Which of its segments or nodes a collection holds by which field changes while it works: a queue's first one was its last.
                let is_inside =
                    parent != 0 && is_collection(merged.steps[parent as usize].1) && is_collection(&node.of);
                let via = if is_inside { "" } else { node.via.as_str() };
                let key = (parent, via, node.of.as_str(), node.module.as_str());
                let same = *known
                    .entry(key)
                    .or_insert_with(|| merged.add(parent, (&node.via, &node.of), heaps.len()));
                numbers[number] = same;
                merged.objects[same as usize][at] += node.objects;
                merged.retained[same as usize][at] += node.retained;
                merged.bytes[same as usize][at] += node.bytes;
                if !node.one_way.is_empty() {
                    merged.one_way[same as usize] = &node.one_way;
                }
            }
        }
        merged
    }

    fn add(&mut self, parent: u32, step: (&'h str, &'h str), moments: usize) -> u32 {
        let number = self.parents.len() as u32;
        self.parents.push(parent);
        self.steps.push(step);
        self.below.push(Vec::new());
        self.objects.push(vec![0; moments]);
        self.retained.push(vec![0; moments]);
        self.bytes.push(vec![0; moments]);
        self.one_way.push(&[]);
        if number != 0 {
            self.below[parent as usize].push(number);
        }
        number
    }

    fn step(&self, number: u32) -> Step {
        let (via, of) = self.steps[number as usize];
        Step { via: via.to_owned(), of: of.to_owned(), times: 1 }
    }

    fn way(&self, number: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = number;
        while at != 0 {
            steps.push(self.step(at));
            at = self.parents[at as usize];
        }
        steps.reverse();
        steps
    }

    /// One way to what is at the top of the way to a node.
    fn one_way(&self, number: u32) -> Vec<Step> {
        let mut at = number;
        while self.parents[at as usize] != 0 {
            at = self.parents[at as usize];
        }
        self.one_way[at as usize].to_vec()
    }

    /// The program's own type that hangs on what the framework's holds.
    fn own_below(&self, number: u32) -> Option<String> {
        let is_framework = |number: u32| {
            let of = own_of(self.steps[number as usize].1);
            FRAMEWORK.iter().any(|prefix| of.starts_with(prefix)) || BUILT_IN.contains(&of)
        };
        if !is_framework(number) {
            return None;
        }
        let grew = |of: u32| grown(&self.retained[of as usize]);
        // Branches, each with most of what grew. They may be several: a delegate of many holds the array of all, and below each is its target.
        let enough = grew(number) / 2;
        let mut level = vec![number];
        for _ in 0..OWN_BELOW {
            let below = level.iter().flat_map(|at| &self.below[*at as usize]).copied();
            level = below.filter(|below| grew(*below) >= enough.max(1)).collect();
            let own = level.iter().copied().filter(|below| !is_framework(*below));
            if let Some(own) = own.max_by_key(|below| grew(*below)) {
                return Some(own_of(self.steps[own as usize].1).to_owned());
            }
        }
        None
    }

    /// Of this node there became more, and not only larger ones.
    fn became_more(&self, number: u32) -> bool {
        let objects = &self.objects[number as usize];
        let before = objects.first().copied().unwrap_or(0);
        grown(objects) > i128::from(before / 20).max(3)
    }
}

/// A collection of .NET, or what it is made of.
fn is_collection(of: &str) -> bool {
    of.starts_with("System.Collections.")
}

/// The state machine in the box that the runtime makes for an async method; of anything else, itself.
fn own_of(of: &str) -> &str {
    let boxed = of.split_once("AsyncStateMachineBox<").and_then(|(_, rest)| rest.strip_suffix('>'));
    boxed.unwrap_or(of)
}

fn holders(heaps: &[&HeapSummary], times: &[f64], least: u64) -> Vec<HolderGrowth> {
    let merged = Merged::of(heaps);
    let grew = |number: u32| grown(&merged.retained[number as usize]);
    let mut found = Vec::new();
    let mut open = vec![(0_u32, i128::from(least))];
    while let Some((at, enough)) = open.pop() {
        let branches = merged.below[at as usize].iter().copied().filter(|branch| grew(*branch) >= enough);
        let mut is_leaf = true;
        for branch in branches {
            is_leaf = false;
            if merged.became_more(branch) {
                found.push(branch);
            } else {
                let share = (grew(branch) as f64 * BRANCH) as i128;
                open.push((branch, share.max(i128::from(least))));
            }
        }
        // One object that became larger: an array of numbers.
        if at != 0 && is_leaf && grown(&merged.bytes[at as usize]) >= i128::from(least) {
            found.push(at);
        }
    }
    let mut found: Vec<HolderGrowth> = found
        .into_iter()
        .map(|number| {
            let objects = merged.objects[number as usize].clone();
            let retained = merged.retained[number as usize].clone();
            let counts = !merged.became_more(number) || grew_always(&objects, times);
            HolderGrowth {
                way: merged.way(merged.parents[number as usize]),
                held: merged.step(number),
                one_way: merged.one_way(number),
                keeps: merged.own_below(number),
                always: counts && grew_always(&retained, times),
                objects,
                retained,
            }
        })
        .collect();
    found.order_by_key(|one| std::cmp::Reverse(grown(&one.retained)));
    found.truncate(HOLDERS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Held, HolderNode, HolderTree, text_of};
    use biopsy_model::heap::HeapFacts;

    /// A static list of so many entries, and a second one.
    fn heap(at: f64, entries: u64, others: u64) -> HeapSummary {
        let node = |parent, via: &str, of: &str, objects, retained| HolderNode {
            parent,
            via: via.to_owned(),
            of: of.to_owned(),
            objects,
            bytes: objects * 40,
            retained,
            ..HolderNode::default()
        };
        let nodes = vec![
            HolderNode::default(),
            node(0, "static App.Trail.All", "List<App.Entry>", 1, entries * 1048 + 32),
            node(1, "_items", "App.Entry[]", 1, entries * 1048),
            node(2, "[]", "App.Entry", entries, entries * 1040),
            node(0, "static App.Cache.All", "App.Page[]", 1, others * 1040),
            node(4, "[]", "App.Page", others, others * 1040),
        ];
        let tree = HolderTree { nodes, is_cut: false };
        HeapSummary {
            facts: HeapFacts {
                pid: Pid(7),
                taken_at_unix_seconds: at,
                live_bytes: Some((entries + others) * 1040),
                ..HeapFacts::default()
            },
            held: Some(Held { tree, ..Held::default() }),
            ..HeapSummary::default()
        }
    }

    fn of(heaps: &[HeapSummary]) -> Growth {
        Growth::of(&heaps.iter().collect::<Vec<_>>()).expect("several")
    }

    #[test]
    fn what_grows_always_is_named_with_its_holder_and_apart_from_what_fills() {
        let heaps = [heap(100.0, 1000, 10), heap(160.0, 2000, 5000), heap(220.0, 3000, 5000)];
        let growth = of(&heaps);
        assert!(growth.is_one_process);
        let told: Vec<_> =
            growth.holders.iter().map(|one| (text_of(&one.way), one.held.of.as_str(), one.always)).collect();
        let expected = [
            ("static App.Cache.All → App.Page[]".to_owned(), "App.Page", false),
            ("static App.Trail.All → List<App.Entry>._items → App.Entry[]".to_owned(), "App.Entry", true),
        ];
        assert_eq!(told, expected);
        assert_eq!(growth.holders[1].objects, [1000, 2000, 3000]);
        assert_eq!(growth.grown(), (2000 + 4990) * 1040);
    }

    /// An event with so many handlers: the first delegate stands for all (they are one node), and holds the array of all beside its target.
    fn event(at: f64, handlers: u64, target: &str) -> HeapSummary {
        let mut heap = heap(at, 0, 0);
        let node = |parent, via: &str, of: &str, objects, retained| HolderNode {
            parent,
            via: via.to_owned(),
            of: of.to_owned(),
            objects,
            retained,
            ..HolderNode::default()
        };
        let bytes = handlers * 100_000;
        let nodes = vec![
            HolderNode::default(),
            node(0, "static App.Bus.Changed", "System.EventHandler", handlers, bytes + 64),
            node(1, "_invocationList", "System.Object[]", 1, bytes),
            node(1, "_target", target, handlers, handlers * 90_000),
        ];
        heap.held = Some(Held { tree: HolderTree { nodes, is_cut: false }, ..Held::default() });
        heap
    }

    #[test]
    fn below_delegates_the_programs_own_type_is_found_beside_the_list_of_all() {
        let keeps = |target: &str| {
            let heaps: Vec<_> =
                (1_u32..4).map(|at| event(f64::from(at), u64::from(at) * 100, target)).collect();
            of(&heaps).holders.first().and_then(|one| one.keeps.clone())
        };
        assert_eq!(keeps("App.View").as_deref(), Some("App.View"));
        assert_eq!(keeps("System.Byte[]"), None, "there is none");
        assert_eq!(keeps("block of 48 bytes"), None, "a look is no type");
        assert_eq!(keeps("list items"), None, "nor is what belongs to a list");
        let boxed =
            "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<System.Int32>+AsyncStateMachineBox";
        assert_eq!(keeps(&format!("{boxed}<App+<Send>d__1>")).as_deref(), Some("App+<Send>d__1"));
        assert_eq!(keeps(&format!("{boxed}<System.IO.Stream+<Copy>d__1>")), None);
    }

    /// A queue with so many entries in its first and in its last segment.
    fn queue(at: f64, first: u64, last: u64) -> HeapSummary {
        let mut heap = heap(at, 0, 0);
        let node = |parent, via: &str, of: &str, objects, retained| HolderNode {
            parent,
            via: via.to_owned(),
            of: of.to_owned(),
            objects,
            retained,
            ..HolderNode::default()
        };
        const QUEUE: &str = "System.Collections.Concurrent.ConcurrentQueue<App.Order>";
        const SEGMENT: &str = "System.Collections.Concurrent.ConcurrentQueueSegment<App.Order>";
        let nodes = vec![
            HolderNode::default(),
            node(0, "static App.Hall.Waiting", QUEUE, 1, (first + last) * 8000),
            node(1, "_tail", SEGMENT, 1, last * 8000),
            node(2, "_slots", "System.Collections.Concurrent.Slot[]", 1, last * 8000),
            node(3, "[].Item", "App.Order", last, last * 8000),
            node(1, "_head", SEGMENT, 1, first * 8000),
            node(5, "_slots", "System.Collections.Concurrent.Slot[]", 1, first * 8000),
            node(6, "[].Item", "App.Order", first, first * 8000),
        ];
        heap.held = Some(Held { tree: HolderTree { nodes, is_cut: false }, ..Held::default() });
        heap
    }

    #[test]
    fn a_queue_grows_in_all_of_its_segments_together() {
        // As seen: the last segment becomes the first, and a new one begins.
        let growth = of(&[queue(1.0, 386, 505), queue(6.0, 1795, 53), queue(12.0, 1613, 1943)]);
        let [one] = growth.holders.as_slice() else { panic!("{:?}", growth.holders) };
        assert_eq!((one.held.of.as_str(), one.always), ("App.Order", true));
        assert_eq!(one.objects, [891, 1848, 3556]);
        assert_eq!(one.way.first().map(|root| root.via.as_str()), Some("static App.Hall.Waiting"));
    }

    #[test]
    fn what_slows_down_or_shrinks_does_not_grow_always() {
        for (entries, always) in [
            ([1000, 3000, 3010], false),
            ([1000, 3000, 2900], false),
            ([1000, 2000, 3000], true),
            ([1000, 1100, 3000], true),
        ] {
            let heaps: Vec<_> =
                (0..3).map(|at| heap(100.0 + f64::from(at) * 60.0, entries[at as usize], 5)).collect();
            let growth = of(&heaps);
            assert_eq!(growth.holders.iter().any(|one| one.always), always, "{entries:?}");
        }
        let same = of(&[heap(1.0, 1000, 5), heap(2.0, 1000, 5)]);
        assert!(same.holders.is_empty() && same.types.is_empty());
        assert!(Growth::of(&[&heap(1.0, 1, 1)]).is_none());
    }
}
