//! Lists whose nodes refer to each other in both directions: timers, callbacks of cancellation tokens, `LinkedList`.
//!
//! Whoever keeps one node of such a list gets to all others, but they do not go when it goes: who unlinks it takes out one. Taken as they stand, those
//! references would make a socket that has a timeout a holder of all timers of the process, and nobody the holder of any. So the list is taken for what
//! it is: its owner holds each node, and the nodes hold none of each other.
//!
//! A node counts as one of a list only if it is met on the way from the head and refers to the owner itself. So the owner is reachable wherever a
//! node is, and the same objects are as without all this. By that reference whoever keeps a node would be a holder of the owner, too; it is left
//! out where the owner is [anchored](anchored): found near a root on a way on which no node is, so that it is reachable without.

use std::io;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex, RootKind, TypeIndex};
use biopsy_model::heap::HeapType;

/// A kind of list: names of fields as .NET 5 to 10 have them.
struct Kind {
    owner: &'static str,
    heads: &'static [&'static str],
    node: &'static str,
    links: [&'static str; 2],
    /// What refers to the owner.
    back: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        owner: "System.Threading.TimerQueue",
        heads: &["_shortTimers", "_longTimers"],
        node: "System.Threading.TimerQueueTimer",
        links: ["_next", "_prev"],
        back: "_associatedTimerQueue",
    },
    Kind {
        owner: "System.Threading.CancellationTokenSource+Registrations",
        heads: &["Callbacks"],
        node: "System.Threading.CancellationTokenSource+CallbackNode",
        links: ["Next", "Prev"],
        back: "Registrations",
    },
    // Generic types: what stands before their arguments.
    Kind {
        owner: "System.Collections.Generic.LinkedList<",
        heads: &["head"],
        node: "System.Collections.Generic.LinkedListNode<",
        links: ["next", "prev"],
        back: "list",
    },
];

fn is(of: &HeapType, name: &str) -> bool {
    if name.ends_with('<') { of.name.starts_with(name) && of.name.ends_with('>') } else { of.name == name }
}

/// A node that an owner holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::heap) struct Held {
    pub(in crate::heap) owner: ObjectIndex,
    pub(in crate::heap) node: ObjectIndex,
    /// Which of the owner's references leads to the list.
    pub(in crate::heap) head: u32,
}

/// All such lists of a heap.
#[derive(Debug)]
pub(super) struct Lists {
    /// By owner.
    held: Vec<Held>,
    /// Nodes that are in a list.
    listed: Bits,
    /// All objects of the types of nodes and owners; `None`: nothing is in a list. A timer that is not set refers to its queue, too.
    meant: Option<Bits>,
    /// Of each type of nodes: which references are what.
    places: Vec<Option<Places>>,
    /// Owners that are reachable without their nodes.
    anchored: Vec<ObjectIndex>,
}

/// Numbers of the references of a node.
#[derive(Clone, Debug)]
struct Places {
    links: Vec<usize>,
    back: usize,
}

/// So many steps from a root an owner is looked for: a static field holds the array of all timer queues, or a source whose registrations they are.
const NEAR: usize = 2;
/// References that are followed for it.
const LOOKED_AT: usize = 1 << 20;

/// Owners near roots, on ways without nodes; words on stacks come and go, and are none. By number.
fn anchored(graph: &Graph, owners: &Bits, nodes: &Bits) -> io::Result<Vec<ObjectIndex>> {
    let certain = graph.roots().iter().filter(|root| root.kind != RootKind::Stack);
    let mut level: Vec<ObjectIndex> = certain.map(|root| root.object).collect();
    let (mut seen, mut found, mut left) = (Bits::new(graph.len()), Vec::new(), LOOKED_AT);
    let mut buffer = Vec::new();
    for depth in 0..=NEAR {
        let mut next = Vec::new();
        for object in level {
            let at = object.0 as usize;
            if at >= graph.len() || nodes.contains(at) || !seen.insert(at) {
                continue;
            }
            if owners.contains(at) {
                found.push(object);
            }
            if depth < NEAR {
                graph.for_each_reference(object, &mut buffer, |target| {
                    if left > 0 {
                        left -= 1;
                        next.push(target);
                    }
                })?;
            }
        }
        level = next;
    }
    found.sort_unstable();
    Ok(found)
}

impl Lists {
    pub(super) fn of(graph: &Graph) -> io::Result<Self> {
        let types = graph.types();
        let owners: Vec<Option<&Kind>> =
            types.iter().map(|of| KINDS.iter().find(|kind| is(of, kind.owner))).collect();
        let mut lists = Self {
            held: Vec::new(),
            listed: Bits::new(0),
            meant: None,
            places: Vec::new(),
            anchored: Vec::new(),
        };
        if owners.iter().all(Option::is_none) {
            return Ok(lists);
        }
        lists.places = types
            .iter()
            .map(|of| {
                let kind = KINDS.iter().find(|kind| is(of, kind.node))?;
                let links = of.fields.iter().enumerate();
                let links = links.filter(|(_, field)| kind.links.contains(&field.as_str()));
                Some(Places {
                    links: links.map(|(at, _)| at).collect(),
                    back: of.fields.iter().position(|field| field == kind.back)?,
                })
            })
            .collect();
        lists.listed = Bits::new(graph.len());
        let mut nodes = Bits::new(graph.len());
        let mut buffer = Vec::new();
        for owner in graph.objects() {
            let of = owner.of.0 as usize;
            if lists.places.get(of).is_some_and(Option::is_some) {
                nodes.insert(owner.index.0 as usize);
            }
            let Some(kind) = owners.get(of).copied().flatten() else { continue };
            let mut heads = Vec::new();
            graph.for_each_numbered_reference(owner.index, &mut buffer, |reference, head| {
                let field = types.get(of).and_then(|of| of.field_of(reference));
                if field.is_some_and(|field| kind.heads.contains(&field)) {
                    heads.push((reference as u32, head));
                }
            })?;
            for (head, first) in heads {
                let mut next = Some(first);
                while let Some(node) = next {
                    let Some(after) = lists.step(graph, kind, owner.index, node, &mut buffer)? else { break };
                    if !lists.listed.insert(node.0 as usize) {
                        break;
                    }
                    lists.held.push(Held { owner: owner.index, node, head });
                    next = after;
                }
            }
        }
        let mut owners = Bits::new(graph.len());
        for one in &lists.held {
            owners.insert(one.owner.0 as usize);
        }
        lists.held.sort_unstable();
        lists.anchored = anchored(graph, &owners, &nodes)?;
        for one in &lists.held {
            nodes.insert(one.owner.0 as usize);
        }
        lists.meant = (!lists.held.is_empty()).then_some(nodes);
        Ok(lists)
    }

    /// The node after this one; the outer `None`: it is no node of this owner.
    fn step(
        &self,
        graph: &Graph,
        kind: &Kind,
        owner: ObjectIndex,
        node: ObjectIndex,
        buffer: &mut Vec<u32>,
    ) -> io::Result<Option<Option<ObjectIndex>>> {
        let Some((TypeIndex(number), _)) = graph.type_and_size(node) else { return Ok(None) };
        let of = graph.types().get(number as usize).filter(|of| is(of, kind.node));
        let places = self.places.get(number as usize).and_then(Option::as_ref);
        let Some((of, places)) = of.zip(places) else { return Ok(None) };
        let (mut next, mut is_owned) = (None, false);
        graph.for_each_numbered_reference(node, buffer, |reference, target| {
            if of.field_of(reference) == Some(kind.links[0]) {
                next = Some(target);
            }
            is_owned |= reference == places.back && target == owner;
        })?;
        Ok(is_owned.then_some(next))
    }

    /// All nodes, by owner.
    pub(super) fn held(&self) -> &[Held] {
        &self.held
    }

    /// Whether an object holds just what it refers to.
    #[inline]
    pub(super) fn are_not_about(&self, object: u32) -> bool {
        !self.meant.as_ref().is_some_and(|meant| meant.contains(object as usize))
    }

    /// Whom an object holds: all that it refers to, but for the other nodes of its list and its owner; an owner its nodes.
    #[inline]
    pub(super) fn for_each(
        &self,
        graph: &Graph,
        object: ObjectIndex,
        buffer: &mut Vec<u32>,
        mut each: impl FnMut(ObjectIndex),
    ) -> io::Result<()> {
        if self.are_not_about(object.0) {
            return graph.for_each_reference(object, buffer, each);
        }
        let of = graph.type_and_size(object).map(|(of, _)| of.0 as usize);
        let places = of.and_then(|of| self.places.get(of)).and_then(Option::as_ref);
        let is_listed = self.listed.contains(object.0 as usize);
        let is_no_holder = |reference: usize, target: ObjectIndex| {
            places.is_some_and(|places| {
                let is_back = reference == places.back && self.anchored.binary_search(&target).is_ok();
                is_back || (is_listed && places.links.contains(&reference))
            })
        };
        graph.for_each_numbered_reference(object, buffer, |reference, target| {
            if !is_no_holder(reference, target) {
                each(target);
            }
        })?;
        let first = self.held.partition_point(|one| one.owner < object);
        self.held[first..].iter().take_while(|one| one.owner == object).for_each(|one| each(one.node));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
