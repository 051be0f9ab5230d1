//! The document, number by number: nothing is taken on trust, so memory stays below a multiple of what was read.

use std::fmt;
use std::io::Read;

use biopsy_dotnet::graph::MOST_OBJECTS;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::HeapSnapshotError;

/// Longest name that is kept, in characters.
const NAME: usize = 400;
/// Columns that a list may have.
const COLUMNS: usize = 64;

/// What is there of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Number of a word of [`Document::node_kinds`].
    pub(super) kind: u8,
    /// Number of a string.
    pub(super) name: u32,
    pub(super) size: u64,
    /// How many of the next edges are its own.
    pub(super) edges: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// Number of a word of [`Document::edge_kinds`].
    pub(super) kind: u8,
    /// Number of a string, or of an element.
    pub(super) name: u32,
    /// Number of a node.
    pub(super) to: u32,
}

/// A snapshot as it is written.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) node_kinds: Vec<String>,
    pub(super) edge_kinds: Vec<String>,
    /// What it says that it has.
    pub(super) node_count: u64,
    pub(super) edge_count: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// Those that name something.
    pub(super) strings: FxHashMap<u32, String>,
}

impl Document {
    /// Whether the name of such an edge is a number of an element.
    pub(super) fn is_element(&self, kind: u8) -> bool {
        self.edge_kinds
            .get(usize::from(kind))
            .is_some_and(|word| matches!(word.as_str(), "element" | "hidden"))
    }

    pub(super) fn kind_of(&self, node: &Node) -> &str {
        self.node_kinds.get(usize::from(node.kind)).map_or("", String::as_str)
    }

    /// Whether such a node's name is the name of its type, and not a text of the program.
    pub(super) fn is_named(kind: &str) -> bool {
        matches!(kind, "object" | "native" | "synthetic" | "wasm object")
    }
}

pub(super) fn read(from: impl Read) -> Result<Document, HeapSnapshotError> {
    let mut document = Document::default();
    let mut json = serde_json::Deserializer::from_reader(from);
    Whole(&mut document).deserialize(&mut json)?;
    json.end()?;
    Ok(document)
}

/// `snapshot`.
#[derive(Deserialize)]
struct Head {
    meta: Meta,
    node_count: u64,
    edge_count: u64,
}

#[derive(Deserialize)]
struct Meta {
    node_fields: Vec<String>,
    node_types: Vec<Words>,
    edge_fields: Vec<String>,
    edge_types: Vec<Words>,
}

/// The words of a column, or of what kind its numbers are.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Words(Vec<String>),
    Kind(#[expect(dead_code, reason = "numbers are numbers")] String),
}

/// Which columns of a list are read, and how many there are.
#[derive(Clone, Copy)]
struct Columns<const N: usize> {
    width: usize,
    places: [usize; N],
}

impl<const N: usize> Columns<N> {
    fn of<E: Error>(fields: &[String], wanted: [&str; N]) -> Result<Self, E> {
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(wanted) {
            *place = fields
                .iter()
                .position(|field| field == name)
                .ok_or_else(|| E::custom(format_args!("`meta` has no column `{name}`")))?;
        }
        if fields.len() > COLUMNS {
            return Err(E::custom("`meta` has too many columns"));
        }
        Ok(Self { width: fields.len(), places })
    }
}

fn words<E: Error>(types: Vec<Words>) -> Result<Vec<String>, E> {
    match types.into_iter().next() {
        Some(Words::Words(words)) if words.len() <= 256 => Ok(words),
        _ => Err(E::custom("`meta` does not say which kinds there are")),
    }
}

struct Whole<'d>(&'d mut Document);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a snapshot of V8")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let document = self.0;
        let mut columns = None;
        let mut seen = [false; 3];
        while let Some(key) = map.next_key::<String>()? {
            let list = ["nodes", "edges", "strings"].iter().position(|list| *list == key);
            if let Some(list) = list.and_then(|list| seen.get_mut(list))
                && std::mem::replace(list, true)
            {
                return Err(A::Error::custom(format_args!("`{key}` is there twice")));
            }
            match (key.as_str(), columns) {
                ("snapshot", _) => {
                    let head: Head = map.next_value()?;
                    let nodes =
                        Columns::of(&head.meta.node_fields, ["type", "name", "self_size", "edge_count"])?;
                    let edges = Columns::of(&head.meta.edge_fields, ["type", "name_or_index", "to_node"])?;
                    columns = Some((nodes, edges));
                    document.node_kinds = words(head.meta.node_types)?;
                    document.edge_kinds = words(head.meta.edge_types)?;
                    (document.node_count, document.edge_count) = (head.node_count, head.edge_count);
                }
                ("nodes", Some((columns, _))) => {
                    let nodes = &mut document.nodes;
                    let row = |[kind, name, size, edges]: [u64; 4]| {
                        if nodes.len() as u64 >= MOST_OBJECTS {
                            return false;
                        }
                        let (kind, name, edges) =
                            (u8::try_from(kind), u32::try_from(name), u32::try_from(edges));
                        let (Ok(kind), Ok(name), Ok(edges)) = (kind, name, edges) else { return false };
                        nodes.push(Node { kind, name, size, edges });
                        true
                    };
                    map.next_value_seed(Rows { list: "nodes", columns, row })?;
                }
                ("edges", Some((nodes, columns))) => {
                    let edges = &mut document.edges;
                    let row = |[kind, name, to]: [u64; 3]| {
                        // Where the node begins in the list.
                        let width = nodes.width as u64;
                        let to = if to.is_multiple_of(width) { u32::try_from(to / width).ok() } else { None };
                        let (Ok(kind), Ok(name)) = (u8::try_from(kind), u32::try_from(name)) else {
                            return false;
                        };
                        let Some(to) = to else { return false };
                        edges.push(Edge { kind, name, to });
                        true
                    };
                    map.next_value_seed(Rows { list: "edges", columns, row })?;
                }
                ("nodes" | "edges", None) => {
                    return Err(A::Error::custom("`snapshot` has to come first, it names the columns"));
                }
                ("strings", _) => {
                    let wanted = names(document);
                    map.next_value_seed(Strings { wanted, kept: &mut document.strings })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match seen {
            [true, true, true] => Ok(()),
            _ => Err(A::Error::custom("`nodes`, `edges` or `strings` is missing")),
        }
    }
}

/// Numbers of the strings that name types and fields.
fn names(document: &Document) -> FxHashSet<u32> {
    let nodes = document.nodes.iter().filter(|node| Document::is_named(document.kind_of(node)));
    let edges = document.edges.iter().filter(|edge| !document.is_element(edge.kind));
    nodes.map(|node| node.name).chain(edges.map(|edge| edge.name)).collect()
}

/// A flat list of numbers, `width` for each row.
struct Rows<const N: usize, F> {
    list: &'static str,
    columns: Columns<N>,
    /// Takes a row; `false`: it cannot be one.
    row: F,
}

impl<'de, const N: usize, F: FnMut([u64; N]) -> bool> DeserializeSeed<'de> for Rows<N, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, const N: usize, F: FnMut([u64; N]) -> bool> Visitor<'de> for Rows<N, F> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the list `{}`", self.list)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut numbers: A) -> Result<(), A::Error> {
        let Columns { width, places } = self.columns;
        let mut row = [0_u64; COLUMNS];
        let mut at = 0;
        let mut rows = 0_u64;
        while let Some(number) = numbers.next_element::<u64>()? {
            if let Some(place) = row.get_mut(at) {
                *place = number;
            }
            at += 1;
            if at == width {
                at = 0;
                let read = places.map(|place| row.get(place).copied().unwrap_or_default());
                if !(self.row)(read) {
                    return Err(A::Error::custom(format_args!(
                        "row {rows} of `{}` cannot be one",
                        self.list
                    )));
                }
                rows += 1;
            }
        }
        match at {
            0 => Ok(()),
            _ => Err(A::Error::custom(format_args!("the last row of `{}` is not whole", self.list))),
        }
    }
}

/// The list of strings, of which some are kept.
struct Strings<'d> {
    wanted: FxHashSet<u32>,
    kept: &'d mut FxHashMap<u32, String>,
}

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the list `strings`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<(), A::Error> {
        for number in 0.. {
            if !self.wanted.contains(&number) {
                if texts.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                continue;
            }
            let Some(mut text) = texts.next_element::<String>()? else { break };
            if let Some((cut, _)) = text.char_indices().nth(NAME) {
                text.truncate(cut);
            }
            text.shrink_to_fit();
            self.kept.insert(number, text);
        }
        Ok(())
    }
}
