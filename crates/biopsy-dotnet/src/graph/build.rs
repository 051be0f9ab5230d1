//! A graph from objects that come in any order, with references by address.

use std::io;

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::{EMPTY, Generation, Graph, HeapType, NO_OBJECT, SpanBuilder, Spill, TypeIndex};

/// One object that is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its address.
    pub address: Avma,
    /// Its type.
    pub of: TypeIndex,
    /// Its size in bytes.
    pub size: u64,
    /// How many of the next references are its own.
    pub edges: u32,
}

/// Builds a graph: nodes first with [`GraphBuilder::push`], references in the order of the nodes with
/// [`GraphBuilder::push_edge`]; both may be interleaved.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    types: Vec<HeapType>,
    nodes: Vec<Node>,
    targets: Vec<Avma>,
    noted: FxHashMap<Avma, Vec<u32>>,
}

/// Longest span that is made of such nodes, in bytes of the heap.
const SPAN_BYTES: u64 = 32 << 20;

/// Stands for the place of a field that refers to nothing: no object ends behind the last address.
const NOWHERE: Avma = Avma(u64::MAX);

impl GraphBuilder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type.
    pub fn push_type(&mut self, of: HeapType) -> TypeIndex {
        self.types.push(of);
        TypeIndex(u32::try_from(self.types.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds an object.
    pub fn push(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Adds a reference to the object at an address.
    pub fn push_edge(&mut self, target: Avma) {
        self.targets.push(target);
    }

    /// Adds the place of a field that refers to nothing.
    pub fn push_empty(&mut self) {
        self.targets.push(NOWHERE);
    }

    /// Notes numbers of the object at an address, as many as its type says; those of others are 0.
    pub fn note(&mut self, address: Avma, numbers: Vec<u32>) {
        self.noted.insert(address, numbers);
    }

    /// Names a type.
    pub(crate) fn name_type(&mut self, of: TypeIndex, name: String) {
        if let Some(of) = self.types.get_mut(of.0 as usize) {
            of.name = name;
        }
    }

    /// Leaves out all references.
    pub(crate) fn forget_edges(&mut self) {
        self.targets = Vec::new();
        self.nodes.iter_mut().for_each(|node| node.edges = 0);
    }

    /// Takes back the last references.
    pub(crate) fn drop_edges(&mut self, count: u32) {
        self.targets.truncate(self.targets.len().saturating_sub(count as usize));
    }

    /// How many objects there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// References that the nodes claim, less those that came.
    #[must_use]
    pub fn missing_edges(&self) -> i128 {
        let claimed: i128 = self.nodes.iter().map(|node| i128::from(node.edges)).sum();
        claimed - self.targets.len() as i128
    }

    /// Sorts and links everything. An address that comes twice counts once; what has an address where no object can be is left
    /// out. Also tells how many objects were left out and how many references lead nowhere.
    ///
    /// # Errors
    /// Never, as long as nothing is spilled.
    pub fn finish(self) -> io::Result<(Graph, u64, u64)> {
        let Self { types, nodes, targets, mut noted } = self;
        let mut firsts = Vec::with_capacity(nodes.len());
        let mut sum = 0usize;
        for node in &nodes {
            firsts.push(sum);
            sum = sum.saturating_add(node.edges as usize);
        }
        let mut order: Vec<u32> = (0..u32::try_from(nodes.len()).unwrap_or(u32::MAX)).collect();
        order.sort_by_key(|at| nodes.get(*at as usize).map(|node| node.address));
        let spill = Spill::never();
        let (mut spans, mut left_out) = (Vec::new(), 0u64);
        let mut builder: Option<SpanBuilder> = None;
        // Targets become numbers in a list of addresses first; the graph finds the objects below.
        let mut numbers: FxHashMap<Avma, u32> = FxHashMap::default();
        let mut addresses: Vec<Avma> = Vec::new();
        for at in order {
            let Some(node) = nodes.get(at as usize) else { continue };
            if builder.as_ref().is_some_and(|span| !span.has_room(node.address.0, SPAN_BYTES)) {
                spans.extend(builder.take().map(|span| span.finish(&spill)).transpose()?);
            }
            if !node.address.0.is_multiple_of(super::span::FINEST) {
                left_out += 1;
                continue;
            }
            let span = builder.get_or_insert_with(|| SpanBuilder::new(node.address.0, Generation::Unknown));
            if !span.push(node.address.0, node.of, node.size) {
                left_out += 1;
                continue;
            }
            let width = types.get(node.of.0 as usize).map_or(0, |of| of.noted.len());
            if width > 0 {
                let mut numbers = noted.remove(&node.address).unwrap_or_default();
                numbers.resize(width, 0);
                span.noted.extend(numbers);
            }
            let first = firsts.get(at as usize).copied().unwrap_or_default();
            let of_node = targets.get(first..first.saturating_add(node.edges as usize)).unwrap_or_default();
            for target in of_node {
                if *target == NOWHERE {
                    span.targets.push(EMPTY);
                    continue;
                }
                let number = *numbers.entry(*target).or_insert_with(|| {
                    addresses.push(*target);
                    u32::try_from(addresses.len() - 1).unwrap_or(NO_OBJECT)
                });
                span.targets.push(number);
            }
        }
        drop(numbers);
        spans.extend(builder.map(|span| span.finish(&spill)).transpose()?);
        // A size that reaches into the next span would hide that span.
        let ends: Vec<u64> = spans.iter().skip(1).map(|span| span.start).chain([u64::MAX]).collect();
        for (span, end) in spans.iter_mut().zip(ends) {
            span.end = span.end.min(end);
        }
        let (mut graph, overlapping) = Graph::from_spans(types, spans);
        let found: Vec<u32> =
            addresses.iter().map(|address| graph.find(*address).map_or(NO_OBJECT, |index| index.0)).collect();
        drop(addresses);
        let mut dangling = 0u64;
        for span in &mut graph.spans {
            let counted = std::cell::Cell::new(0u64);
            span.edges.change(|number| {
                if number == EMPTY {
                    return EMPTY;
                }
                let target = found.get(number as usize).copied().unwrap_or(NO_OBJECT);
                counted.set(counted.get() + u64::from(target == NO_OBJECT));
                target
            })?;
            dangling += counted.get();
        }
        Ok((graph, left_out + overlapping, dangling))
    }
}
