//! From the lists to a graph: types with fields, objects, roots.

use std::ops::Range;

use biopsy_dotnet::graph::{Graph, GraphBuilder, Node as GraphNode, Root, RootKind, TypeIndex, mark};
use biopsy_model::Avma;
use biopsy_model::heap::{HeapFacts, HeapSource, HeapType};
use rustc_hash::FxHashMap;

use super::document::{Document, Edge, Node};
use super::error::HeapSnapshotError;

/// Fields of one type that have names; of a type with one object (the global one) more.
const FIELDS: usize = 32;
const FIELDS_OF_ONE: usize = 4096;
/// Empty places may make so many of the references that there are.
const ROOM: u64 = 2;
/// Longest name of a field; longer ones are keys of a dictionary.
const FIELD_NAME: usize = 80;
/// Objects lie so far from each other: a file says no addresses, and the number of an object is as good.
const STEP: u64 = 8;
/// Places of static fields begin here, behind all objects.
const STATICS: u64 = 1 << 40;

pub(super) fn assemble(document: Document) -> Result<(Graph, HeapFacts), HeapSnapshotError> {
    let edges = edges_of(&document)?;
    let mut types = Types::of(&document, &edges);
    let statics = types.statics(&document, &edges);
    let mut builder = GraphBuilder::new();
    for of in types.made.drain(..) {
        builder.push_type(of);
    }
    let mut synthetic = 0_u64;
    for (number, (node, own)) in document.nodes.iter().zip(&edges).enumerate() {
        if is_synthetic(&document, node) {
            synthetic += 1;
            continue;
        }
        let of = types.of_nodes.get(number).copied().unwrap_or(TypeIndex(0));
        let places = types.places(&document, of, own.clone());
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
        for to in places.into_iter().take(count as usize) {
            match to {
                Some(to) => builder.push_edge(address(to)),
                None => builder.push_empty(),
            }
        }
        builder.push(GraphNode { address: address(number as u32), of, size: node.size, edges: count });
    }
    let (mut graph, left_out, dangling) = builder.finish()?;
    let roots = roots(&document, &edges, &statics, &graph);
    graph.set_roots(roots, Vec::new());
    let live = mark(&graph)?;
    graph.set_live(live);
    let mut warnings = vec![format!(
        "{synthetic} nodes that stand for roots are none of the objects; addresses are numbers of nodes, times {STEP}"
    )];
    let read = (document.nodes.len() as u64, document.edges.len() as u64);
    let said = (document.node_count, document.edge_count);
    if read != said {
        warnings.push(format!(
            "it says that it has {} nodes and {} edges, and has {} and {}",
            said.0, said.1, read.0, read.1
        ));
    }
    let facts = HeapFacts {
        source: HeapSource::Runtime,
        whole: read == said && left_out == 0,
        problems: left_out.saturating_add(u64::from(read != said)),
        dangling,
        warnings,
        ..graph.facts()
    };
    Ok((graph, facts))
}

fn address(number: u32) -> Avma {
    Avma((u64::from(number) + 1) * STEP)
}

fn is_synthetic(document: &Document, node: &Node) -> bool {
    document.kind_of(node) == "synthetic"
}

/// The edges of each node: those of the first come first.
fn edges_of(document: &Document) -> Result<Vec<Range<usize>>, HeapSnapshotError> {
    let mut all = Vec::with_capacity(document.nodes.len());
    let mut at = 0_usize;
    for (number, node) in document.nodes.iter().enumerate() {
        let unexpected = |what| HeapSnapshotError::Unexpected { list: "nodes", at: number as u64, what };
        if usize::from(node.kind) >= document.node_kinds.len() {
            return Err(unexpected("a kind that `meta` does not name"));
        }
        let end = at.checked_add(node.edges as usize).filter(|end| *end <= document.edges.len());
        let end = end.ok_or_else(|| unexpected("more edges than there are"))?;
        all.push(at..end);
        at = end;
    }
    if at != document.edges.len() {
        let what = "an edge that is nobody's";
        return Err(HeapSnapshotError::Unexpected { list: "edges", at: at as u64, what });
    }
    for (number, edge) in document.edges.iter().enumerate() {
        let unexpected = |what| HeapSnapshotError::Unexpected { list: "edges", at: number as u64, what };
        if usize::from(edge.kind) >= document.edge_kinds.len() {
            return Err(unexpected("a kind that `meta` does not name"));
        }
        if edge.to as usize >= document.nodes.len() {
            return Err(unexpected("leads to no node"));
        }
    }
    Ok(all)
}

/// Whether it keeps what it leads to alive.
fn keeps(document: &Document, edge: &Edge, is_roots: bool) -> bool {
    match document.edge_kinds.get(usize::from(edge.kind)).map_or("", String::as_str) {
        "weak" => false,
        "shortcut" => is_roots,
        _ => true,
    }
}

struct Types {
    made: Vec<HeapType>,
    of_nodes: Vec<TypeIndex>,
    /// Of each type: the place of each name of a field.
    fields: Vec<FxHashMap<u32, u32>>,
}

impl Types {
    fn of(document: &Document, edges: &[Range<usize>]) -> Self {
        let mut known: FxHashMap<&str, TypeIndex> = FxHashMap::default();
        let mut made = Vec::new();
        let mut of_nodes = Vec::with_capacity(document.nodes.len());
        for node in &document.nodes {
            let name = type_name(document, node);
            let of = *known.entry(name).or_insert_with(|| {
                made.push(HeapType { name: name.to_owned(), ..HeapType::default() });
                TypeIndex((made.len() - 1) as u32)
            });
            of_nodes.push(of);
        }
        let mut types = Self { of_nodes, fields: vec![FxHashMap::default(); made.len()], made };
        types.name_fields(document, edges);
        types
    }

    /// A field has a name where several objects of the type have it: a name that one object alone has is a key of data.
    fn name_fields(&mut self, document: &Document, edges: &[Range<usize>]) {
        let mut objects = vec![0_u64; self.made.len()];
        let mut references = vec![0_u64; self.made.len()];
        let mut used: Vec<FxHashMap<u32, u64>> = vec![FxHashMap::default(); self.made.len()];
        for ((node, own), of) in document.nodes.iter().zip(edges).zip(&self.of_nodes) {
            let of = of.0 as usize;
            let (Some(objects), Some(references), Some(used)) =
                (objects.get_mut(of), references.get_mut(of), used.get_mut(of))
            else {
                continue;
            };
            *objects += 1;
            *references += u64::from(node.edges);
            let own = document.edges.get(own.clone()).unwrap_or_default();
            for edge in
                own.iter().filter(|edge| keeps(document, edge, false) && !document.is_element(edge.kind))
            {
                *used.entry(edge.name).or_default() += 1;
            }
        }
        for (of, used) in used.into_iter().enumerate() {
            let (objects, references) = (objects.get(of).copied(), references.get(of).copied());
            let (objects, references) = (objects.unwrap_or_default(), references.unwrap_or_default());
            let (least, most) = if objects <= 1 { (1, FIELDS_OF_ONE) } else { (2, FIELDS) };
            let is_field = |name: &u32| document.strings.get(name).is_some_and(|text| is_field_name(text));
            let mut names: Vec<(u64, u32)> = used
                .into_iter()
                .filter(|(name, times)| *times >= least && is_field(name))
                .map(|(name, times)| (times, name))
                .collect();
            names.sort_by_key(|(times, name)| (std::cmp::Reverse(*times), *name));
            let room = references.saturating_mul(ROOM).checked_div(objects).unwrap_or(0);
            names.truncate(most.min(usize::try_from(room).unwrap_or(usize::MAX)));
            let text = |name: &u32| document.strings.get(name).cloned().unwrap_or_default();
            if let (Some(made), Some(fields)) = (self.made.get_mut(of), self.fields.get_mut(of)) {
                made.fields = names.iter().map(|(_, name)| text(name)).collect();
                *fields = names.iter().zip(0..).map(|((_, name), place)| (*name, place)).collect();
            }
        }
    }

    /// Static fields of an export of ours: each edge with the place that it gets, whose name its type knows.
    fn statics(&mut self, document: &Document, edges: &[Range<usize>]) -> FxHashMap<usize, Avma> {
        let by_name: FxHashMap<String, usize> =
            self.made.iter().zip(0..).map(|(of, number)| (of.name.clone(), number)).collect();
        let mut places = FxHashMap::default();
        let is_static = |node: &&Node| {
            let name = document.strings.get(&node.name).map_or("", String::as_str);
            is_synthetic(document, node) && kind_of(name) == RootKind::Static
        };
        let nodes = document.nodes.iter().zip(edges).filter(|(node, _)| is_static(node));
        for at in nodes.flat_map(|(_, own)| own.clone()) {
            let edge = document.edges.get(at).filter(|edge| !document.is_element(edge.kind));
            let name = edge.and_then(|edge| document.strings.get(&edge.name));
            let Some((of, field)) = name.and_then(|name| name.rsplit_once('.')) else { continue };
            let of = by_name.get(of).copied();
            let number = of.unwrap_or_else(|| {
                // A type without objects.
                let name = name.and_then(|name| name.rsplit_once('.')).map_or("", |(of, _)| of);
                self.made.push(HeapType { name: name.to_owned(), ..HeapType::default() });
                self.made.len() - 1
            });
            let place = Avma(STATICS + at as u64 * STEP);
            if let Some(of) = self.made.get_mut(number) {
                of.statics.push((field.to_owned(), place));
                places.insert(at, place);
            }
        }
        places
    }

    /// What an object keeps: its fields by place, then the rest.
    fn places(&self, document: &Document, of: TypeIndex, own: Range<usize>) -> Vec<Option<u32>> {
        let none = FxHashMap::default();
        let fields = self.fields.get(of.0 as usize).unwrap_or(&none);
        let mut places = vec![None; fields.len()];
        for edge in document.edges.get(own).unwrap_or_default() {
            let to_roots = document.nodes.get(edge.to as usize).is_some_and(|to| is_synthetic(document, to));
            if to_roots || !keeps(document, edge, false) {
                continue;
            }
            let field = if document.is_element(edge.kind) { None } else { fields.get(&edge.name) };
            match field.and_then(|place| places.get_mut(*place as usize)) {
                Some(place) if place.is_none() => *place = Some(edge.to),
                _ => places.push(Some(edge.to)),
            }
        }
        places
    }
}

/// A name that a program gives to a field, and no piece of data.
fn is_field_name(text: &str) -> bool {
    let is_begin = |first: char| first.is_alphabetic() || "_$#(<".contains(first);
    text.len() <= FIELD_NAME
        && text.starts_with(is_begin)
        && text.chars().all(|one| one.is_alphanumeric() || "_$#()<>. `,[]+".contains(one))
}

/// As DevTools calls its classes. What a string says is not told.
fn type_name<'d>(document: &'d Document, node: &Node) -> &'d str {
    match document.kind_of(node) {
        kind if Document::is_named(kind) => {
            document.strings.get(&node.name).map_or("(unknown)", String::as_str)
        }
        "closure" => "Function",
        "regexp" => "RegExp",
        "array" => "(array)",
        "string" => "(string)",
        "concatenated string" => "(concatenated string)",
        "sliced string" => "(sliced string)",
        "code" => "(compiled code)",
        "number" => "(number)",
        "symbol" => "(symbol)",
        "bigint" => "(bigint)",
        "object shape" => "(object shape)",
        _ => "(system)",
    }
}

/// What the nodes that stand for roots lead to.
fn roots(
    document: &Document,
    edges: &[Range<usize>],
    statics: &FxHashMap<usize, Avma>,
    graph: &Graph,
) -> Vec<Root> {
    let mut roots = Vec::new();
    for (number, (node, own)) in document.nodes.iter().zip(edges).enumerate() {
        if !is_synthetic(document, node) {
            continue;
        }
        let name = document.strings.get(&node.name).map_or("", String::as_str);
        let kind = if number == 0 { RootKind::Other } else { kind_of(name) };
        for (at, edge) in own.clone().zip(document.edges.get(own.clone()).unwrap_or_default()) {
            let to_object =
                document.nodes.get(edge.to as usize).is_some_and(|to| !is_synthetic(document, to));
            if !to_object || !keeps(document, edge, true) {
                continue;
            }
            if let Some(object) = graph.find(address(edge.to)) {
                let address = statics.get(&at).copied().unwrap_or(Avma(0));
                roots.push(Root { kind, address, object, is_interior: false, thread: 0 });
            }
        }
    }
    // A document without such nodes begins with its root.
    if document.nodes.first().is_some_and(|node| !is_synthetic(document, node))
        && let Some(object) = graph.find(address(0))
    {
        roots.push(Root { kind: RootKind::Other, address: Avma(0), object, is_interior: false, thread: 0 });
    }
    roots.sort_by_key(|root| (root.object, root.kind, root.address));
    roots.dedup_by_key(|root| (root.object, root.kind, root.address));
    roots
}

/// Our own names of roots, or those of V8.
fn kind_of(name: &str) -> RootKind {
    let ours = RootKind::ALL
        .iter()
        .find(|kind| name.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)")) == Some(kind.name()));
    match name {
        // What is on a stack or in a handle of code that runs holds only what nothing else does.
        "(Stack roots)" | "(Handle scope)" => RootKind::Stack,
        _ => ours.copied().unwrap_or(RootKind::NativeGlobal),
    }
}
