//! Who holds what, by type and field: the tree of dominators with equal branches put together.
//!
//! `static Cache.Entries` → `List<Entry>` → `Entry[]` → `Entry` is one node each, however many entries there are. What follows itself
//! (a list that is linked, a tree) is one node too, so that the depth of the data is not the depth of the tree.

use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex, RootKind};
use biopsy_model::heap::HeapType;

use super::dominators::Dominators;
use super::names::{ELEMENT, NAMELESS, Names, Step};
use super::ways::Ways;

/// A node: objects of one type that are held in one way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HolderNode {
    /// The node above; 0: a root.
    pub parent: u32,
    /// The field of the node above that holds them, or the root; empty: not held directly.
    pub via: String,
    /// Their type.
    pub of: String,
    /// File name of its module; empty: not known.
    pub module: String,
    /// How many there are.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// Bytes that live because of them.
    pub retained: u64,
    /// The one that retains the most.
    pub example: Option<ObjectIndex>,
    /// Of what several hold: the shortest way to the example.
    pub one_way: Vec<Step>,
}

/// The tree; node 0 stands for all roots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HolderTree {
    /// Each behind the one above it.
    pub nodes: Vec<HolderNode>,
    /// Some ways were too many or too deep: their objects count at the nodes above.
    pub is_cut: bool,
}

/// Most nodes; an ordinary program has some ten thousand.
const MOST: usize = 1 << 19;
/// Deepest node.
const DEEPEST: u8 = 48;
/// What holds less than one of so many parts of all gets no way.
const TOLD_WAYS: u64 = 200;
/// So many nodes up an equal type is taken for the same: node → entries → array → node.
const FOLDED: usize = 4;

/// The node above and its type: ways up are gone for each object, and all of them should lie near each other.
#[derive(Clone, Copy)]
struct Place {
    parent: u32,
    row: u32,
}

struct Node {
    via: u32,
    depth: u8,
    objects: u64,
    bytes: u64,
    retained: u64,
    example: (u64, u32),
}

impl HolderTree {
    /// Puts together what dominators say.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &Graph, dominators: &Dominators) -> io::Result<Self> {
        let mut names = Names::of(graph);
        let via = vias(graph, dominators, &mut names)?;
        let mut tree = build(graph, dominators, &via, &names);
        drop(via);
        tree.find_ways(graph, names.text(names.number_of_shared()))?;
        Ok(tree)
    }

    /// For what several hold, the tree does not say who: one way does.
    fn find_ways(&mut self, graph: &Graph, shared: &str) -> io::Result<()> {
        let least = self.nodes.first().map_or(0, |top| top.retained) / TOLD_WAYS;
        let wanted = |node: &HolderNode| node.parent == 0 && node.via == shared && node.retained > least;
        let examples: Vec<ObjectIndex> =
            self.nodes.iter().filter(|node| wanted(node)).filter_map(|node| node.example).collect();
        if examples.is_empty() {
            return Ok(());
        }
        let ways = Ways::to_these(graph, &examples)?;
        for node in self.nodes.iter_mut().filter(|node| wanted(node)) {
            if let Some(example) = node.example {
                node.one_way = ways.to(example)?.unwrap_or_default();
            }
        }
        Ok(())
    }

    /// What is directly below a node, the most first.
    #[must_use]
    pub fn below(&self, node: u32) -> Vec<u32> {
        let numbered = self.nodes.iter().enumerate().skip(1);
        let mut found: Vec<u32> =
            numbered.filter(|(_, one)| one.parent == node).map(|(number, _)| number as u32).collect();
        found.sort_by_key(|number| std::cmp::Reverse(self.nodes[*number as usize].retained));
        found
    }

    /// The way from a root to a node.
    #[must_use]
    pub fn way(&self, node: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = node;
        while at != 0
            && let Some(one) = self.nodes.get(at as usize)
        {
            steps.push(Step { via: one.via.clone(), of: one.of.clone(), times: 1 });
            at = one.parent;
        }
        steps.reverse();
        steps
    }
}

/// How each is held by its dominator, by number.
fn vias(graph: &Graph, dominators: &Dominators, names: &mut Names<'_>) -> io::Result<Vec<u32>> {
    let mut via = vec![NAMELESS; dominators.len()];
    let element = names.number(ELEMENT);
    let shared = names.shared();
    let is_array = |of: &HeapType| of.fields.is_empty() && of.name.ends_with(']');
    let arrays: Vec<bool> = graph.types().iter().map(is_array).collect();
    let mut buffer = Vec::new();
    for number in 1..dominators.len() as u32 {
        if dominators.dominator(number) == 0 {
            via[number as usize] = shared;
        }
    }
    // By object: what refers to each other mostly lies near. Of most it need not be asked what they refer to: they dominate nothing.
    let dominates = dominators.that_dominate();
    for index in (0..graph.len() as u32).map(ObjectIndex) {
        let Some(number) = dominators.number(index) else { continue };
        if !dominates.contains(number as usize) {
            continue;
        }
        let Some((of, _)) = graph.type_and_size(index) else { continue };
        let is_array = arrays.get(of.0 as usize).is_some_and(|is| *is);
        graph.for_each_numbered_reference(index, &mut buffer, |reference, target| {
            let Some(target) = dominators.number(target) else { return };
            // Dominators have lower numbers.
            if target <= number || dominators.dominator(target) != number {
                return;
            }
            let slot = &mut via[target as usize];
            if *slot == NAMELESS {
                *slot = if is_array { element } else { names.field(of, reference) };
            }
        })?;
    }
    for one in dominators.held_in_lists() {
        let (owner, node) = (dominators.number(one.owner), dominators.number(one.node));
        let Some(((of, _), node)) = graph.type_and_size(one.owner).zip(node) else { continue };
        if Some(dominators.dominator(node)) == owner {
            via[node as usize] = names.field(of, one.head as usize);
        }
    }
    for (object, root) in graph.first_kept() {
        let number = dominators.number(object).filter(|number| dominators.dominator(*number) == 0);
        // A word on a stack is no holder of what others hold: with a name that comes and goes, no snapshot would be like the next.
        let is_word = root.is_some_and(|root| root.kind == RootKind::Stack);
        if let Some(number) = number.filter(|number| !is_word || dominators.is_uncertain(*number)) {
            via[number as usize] = names.root(root.as_ref());
        }
    }
    // By several words of one variable together.
    for (number, root) in dominators.held_by_variables() {
        via[*number as usize] = names.root(Some(root));
    }
    Ok(via)
}

fn build(graph: &Graph, dominators: &Dominators, via: &[u32], names: &Names<'_>) -> HolderTree {
    let empty = |via, depth| Node { via, depth, objects: 0, bytes: 0, retained: 0, example: (0, 0) };
    let mut nodes = vec![empty(NAMELESS, 0)];
    let mut places = vec![Place { parent: 0, row: u32::MAX }];
    let mut of_number = vec![0_u32; dominators.len()];
    let mut known: HashMap<(u32, u32, u32), u32, rustc_hash::FxBuildHasher> = HashMap::default();
    let mut is_cut = false;
    // Dominators have lower numbers.
    for number in 1..dominators.len() as u32 {
        let (of, size) = (dominators.type_of(number), dominators.own_bytes(graph, number));
        let (row, above) = (names.row(of), of_number[dominators.dominator(number) as usize]);
        let folded = folded(&places, above, row);
        let node = folded.unwrap_or_else(|| {
            let key = (above, via[number as usize], row);
            if let Some(node) = known.get(&key) {
                return *node;
            }
            let depth = nodes[above as usize].depth + 1;
            if nodes.len() >= MOST || depth > DEEPEST {
                is_cut = true;
                return above;
            }
            nodes.push(empty(key.1, depth));
            places.push(Place { parent: above, row });
            known.insert(key, nodes.len() as u32 - 1);
            nodes.len() as u32 - 1
        });
        of_number[number as usize] = node;
        let enters = folded.is_none() && node != above;
        let one = &mut nodes[node as usize];
        if enters || folded.is_some() {
            one.objects += 1;
        }
        one.bytes = one.bytes.saturating_add(size);
        if enters {
            let retained = dominators.retained(number);
            one.retained = one.retained.saturating_add(retained);
            one.example = one.example.max((retained, number));
        }
    }
    nodes[0].retained = dominators.retained(0);
    let nodes = nodes.into_iter().zip(places).enumerate().map(|(number, (node, place))| {
        let (of, module) = if number == 0 { ("", "") } else { names.type_of(place.row) };
        HolderNode {
            parent: place.parent,
            via: names.text(node.via).to_owned(),
            of: of.to_owned(),
            module: module.to_owned(),
            objects: node.objects,
            bytes: node.bytes,
            retained: node.retained,
            example: (number != 0).then(|| dominators.object(node.example.1)),
            one_way: Vec::new(),
        }
    });
    HolderTree { nodes: nodes.collect(), is_cut }
}

/// The node of this type at most so many up.
fn folded(places: &[Place], above: u32, row: u32) -> Option<u32> {
    let mut at = above;
    for _ in 0..FOLDED {
        if at == 0 {
            return None;
        }
        let place = places.get(at as usize)?;
        if place.row == row {
            return Some(at);
        }
        at = place.parent;
    }
    None
}
