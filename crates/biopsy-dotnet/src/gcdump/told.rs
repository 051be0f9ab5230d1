//! A heap as the runtime tells it, in events.
//!
//! Enabling the keywords makes the runtime collect garbage and tell every object that is left: `GCBulkType` (15), roots (16, 17,
//! 38), `GCBulkNode` (18) and `GCBulkEdge` (19), between `GCStart` (1) and `GCEnd` (2) of that collection (`ClrEtwAll.man` of
//! dotnet/runtime). References belong to objects by their order alone. Bulk events are numbered, so lost ones show.

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::{Avma, MonoNanos, Nanos};
use rustc_hash::FxHashMap;

use crate::graph::{Bits, Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, TypeIndex};
use crate::nettrace::Event;

/// Who speaks.
pub const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// Keywords `GC`, `Type`, `GCHeapDump`, `GCHeapCollect`, `GCHeapAndTypeNames`.
pub const KEYWORDS: u64 = 0x198_0001;

/// Most objects: what fits the graph.
const MOST_NODES: usize = 1 << 31;
/// Most references that are put in for lost events, each of 8 bytes: those of some 5,000 lost events.
const MOST_PUT_IN: u64 = 1 << 25;
/// Bytes of a reference in an event.
const EDGE_BYTES: usize = 12;
/// `HandleKind`-independent flag of a root: it does not keep its object alive.
const ROOT_WEAK: u32 = 1;
const ROOT_INTERIOR: u32 = 4;

/// How complete a told heap is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Completeness {
    /// The collection began and ended while we listened.
    pub ended: bool,
    /// Bulk events of objects that never came.
    pub lost_node_events: u64,
    /// Bulk events of references that never came.
    pub lost_edge_events: u64,
    /// References that objects claim and that did not come, or came too many.
    pub edge_imbalance: i64,
    /// References that lead to no object.
    pub dangling: u64,
    /// Events that could not be read.
    pub damaged: u64,
}

impl Completeness {
    /// Whether every object and reference came.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self { ended: true, dangling: self.dangling, ..Self::default() }
    }
}

/// A heap that was told.
#[derive(Debug)]
pub struct ToldHeap {
    /// The objects that outlived the collection, all of them live.
    pub graph: Graph,
    /// What is missing.
    pub completeness: Completeness,
    /// From the beginning of the collection to its end, which the process stood still for.
    pub pause: Option<Nanos>,
}

/// Listens to events, in the order in which they come.
#[derive(Debug, Default)]
pub struct HeapListener {
    builder: GraphBuilder,
    types: FxHashMap<u64, TypeIndex>,
    roots: Vec<(RootKind, Avma, Avma, bool)>,
    dependents: Vec<(Avma, Avma)>,
    collection: Option<u32>,
    began: Option<MonoNanos>,
    pause: Option<Nanos>,
    next_node: u32,
    next_edge: u32,
    /// Most entries of an event so far: full events have this many.
    most_edges: u32,
    /// References that were put in for lost events so far.
    put_in: u64,
    /// More were lost than were put in: nobody knows whose those behind are.
    is_shifted: bool,
    completeness: Completeness,
}

impl HeapListener {
    /// Nothing heard yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the collection has ended: the session may be stopped.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.completeness.ended
    }

    /// How many objects were told so far.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.builder.len()
    }

    /// Takes one event; those of others are left alone.
    pub fn event(&mut self, event: &Event<'_>) {
        if event.metadata.provider != PROVIDER || (self.is_done() && event.metadata.id != 15) {
            return;
        }
        if self.read(event.metadata.id, event.time, Cursor::new(event.payload)).is_err() {
            self.completeness.damaged += 1;
        }
    }

    fn read(&mut self, id: u32, time: MonoNanos, mut cursor: Cursor<'_>) -> Result<(), ReadError> {
        match id {
            1 => {
                let number = cursor.u32("Count")?;
                let generation = cursor.u32("Depth")?;
                cursor.u32("Reason")?;
                let is_background = cursor.u32("Type")? == 1;
                // Others may run before and beside it; it is the first full one that blocks.
                if self.collection.is_none() && generation >= 2 && !is_background {
                    self.collection = Some(number);
                    self.began = Some(time);
                }
            }
            2 if self.collection == Some(cursor.u32("Count")?) => {
                self.completeness.ended = true;
                self.pause = self.began.map(|began| time.since(began));
            }
            15 => self.types(&mut cursor)?,
            16 => self.roots(&mut cursor)?,
            17 => {
                let (_, count) = bulk(&mut cursor)?;
                for _ in 0..count {
                    let (key, value) = (Avma(cursor.u64("KeyNodeID")?), Avma(cursor.u64("ValueNodeID")?));
                    cursor.u64("RootID")?;
                    self.dependents.push((key, value));
                }
            }
            18 => self.nodes(&mut cursor)?,
            19 => self.edges(&mut cursor)?,
            38 => self.statics(&mut cursor)?,
            _ => {}
        }
        Ok(())
    }

    fn type_index(&mut self, id: u64) -> TypeIndex {
        let builder = &mut self.builder;
        *self.types.entry(id).or_insert_with(|| {
            builder.push_type(HeapType {
                name: format!("?{id:#x}"),
                method_table: Avma(id),
                ..HeapType::default()
            })
        })
    }

    fn types(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        /// Longest name that is kept, in UTF-16 units.
        const MOST_NAME: usize = 4096;
        let count = cursor.u32("Count")?;
        cursor.u16("ClrInstanceID")?;
        for _ in 0..count {
            let id = cursor.u64("TypeID")?;
            cursor.skip("ModuleID, TypeNameID", 12)?;
            let flags = cursor.u32("Flags")?;
            cursor.u8("CorElementType")?;
            let mut units = Vec::new();
            loop {
                match cursor.u16("Name")? {
                    0 => break,
                    unit if units.len() < MOST_NAME => units.push(unit),
                    _ => {}
                }
            }
            let parameters = cursor.u32("TypeParameterCount")? as usize;
            cursor.skip("TypeParameters", parameters.saturating_mul(8))?;
            let mut name = String::from_utf16_lossy(&units);
            if flags & 8 != 0 && !name.ends_with(']') {
                let rank = (flags >> 8 & 0x3f) as usize;
                name = format!("{name}[{}]", ",".repeat(rank.saturating_sub(1)));
            }
            let index = self.type_index(id);
            if !name.is_empty() {
                self.builder.name_type(index, name);
            }
        }
        Ok(())
    }

    fn roots(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let (_, count) = bulk(cursor)?;
        for _ in 0..count {
            let object = cursor.u64("RootedNodeAddress")?;
            let kind = cursor.u8("GCRootKind")?;
            let flags = cursor.u32("GCRootFlag")?;
            let id = cursor.u64("GCRootID")?;
            if flags & ROOT_WEAK != 0 || object == 0 {
                continue;
            }
            let kind = match kind {
                0 => RootKind::Stack,
                1 => RootKind::FinalizerQueue,
                2 if flags & 1 << 1 == 0 => RootKind::StrongHandle,
                _ => RootKind::Other,
            };
            self.roots.push((kind, Avma(id), Avma(object), flags & ROOT_INTERIOR != 0));
        }
        Ok(())
    }

    fn statics(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let count = cursor.u32("Count")?;
        cursor.u64("AppDomainID")?;
        cursor.u16("ClrInstanceID")?;
        for _ in 0..count {
            let id = cursor.u64("GCRootID")?;
            let object = cursor.u64("ObjectID")?;
            cursor.u64("TypeID")?;
            let flags = cursor.u32("Flags")?;
            while cursor.u16("FieldName")? != 0 {}
            let kind = if flags & 1 == 1 { RootKind::ThreadStatic } else { RootKind::Other };
            if object != 0 {
                self.roots.push((kind, Avma(id), Avma(object), false));
            }
        }
        Ok(())
    }

    fn nodes(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let (index, count) = bulk(cursor)?;
        let lost = index.saturating_sub(self.next_node);
        self.completeness.lost_node_events += u64::from(lost);
        self.next_node = index.saturating_add(1);
        for _ in 0..count {
            let address = Avma(cursor.u64("Address")?);
            let size = cursor.u64("Size")?;
            let of = cursor.u64("TypeID")?;
            let edges = cursor.u64("EdgeCount")?;
            if self.builder.len() >= MOST_NODES {
                break;
            }
            let of = self.type_index(of);
            let edges = u32::try_from(edges).unwrap_or(u32::MAX);
            self.builder.push(Node { address, of, size, edges });
        }
        Ok(())
    }

    fn edges(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let (index, count) = bulk(cursor)?;
        let lost = index.saturating_sub(self.next_edge);
        self.completeness.lost_edge_events += u64::from(lost);
        self.next_edge = index.saturating_add(1);
        // What is claimed and not there is no measure of what was lost.
        let whole = u32::try_from(cursor.remaining() / EDGE_BYTES).unwrap_or(u32::MAX);
        self.most_edges = self.most_edges.max(count.min(whole));
        // Events are full but for the last: so many references are missing, and those behind stay with their objects.
        let missing = u64::from(lost) * u64::from(self.most_edges);
        if self.put_in + missing <= MOST_PUT_IN {
            self.put_in += missing;
            (0..missing).for_each(|_| self.builder.push_edge(Avma(0)));
        } else {
            self.is_shifted = true;
        }
        for _ in 0..count {
            self.builder.push_edge(Avma(cursor.u64("Value")?));
            cursor.u32("ReferencingFieldID")?;
        }
        Ok(())
    }

    /// The heap that was told. When events of objects were lost, references are left out: nobody knows whose they are.
    ///
    /// # Errors
    /// Never, as nothing is spilled.
    pub fn finish(self) -> std::io::Result<ToldHeap> {
        let Self { mut builder, roots, dependents, mut completeness, pause, is_shifted, .. } = self;
        completeness.edge_imbalance = i64::try_from(builder.missing_edges()).unwrap_or(i64::MAX);
        if completeness.lost_node_events > 0 || is_shifted {
            builder.forget_edges();
        }
        let (mut graph, _, dangling) = builder.finish()?;
        completeness.dangling = dangling;
        let roots = roots
            .into_iter()
            .filter_map(|(kind, address, value, is_interior)| {
                let object = if is_interior { graph.find_holder(value)?.0 } else { graph.find(value)? };
                Some(Root { kind, address, object, is_interior, thread: 0 })
            })
            .collect();
        let found = |address| graph.find(address);
        let dependents: Vec<(ObjectIndex, ObjectIndex)> =
            dependents.into_iter().filter_map(|(key, value)| found(key).zip(found(value))).collect();
        graph.set_roots(roots, dependents);
        // What the collector kept is live, whether or not we know by which root. It leaves nothing else.
        if completeness.is_whole() {
            graph.set_live(Bits::from_words(vec![u64::MAX; graph.len().div_ceil(64)], graph.len()));
        }
        Ok(ToldHeap { graph, completeness, pause })
    }
}

/// What bulk events begin with: their number, and how many entries follow.
fn bulk(cursor: &mut Cursor<'_>) -> Result<(u32, u32), ReadError> {
    let (index, count) = (cursor.u32("Index")?, cursor.u32("Count")?);
    cursor.u16("ClrInstanceID")?;
    Ok((index, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(words: &[(u64, usize)]) -> Vec<u8> {
        words.iter().flat_map(|(word, bytes)| word.to_le_bytes().into_iter().take(*bytes)).collect()
    }

    fn hear(listener: &mut HeapListener, id: u32, words: &[(u64, usize)]) {
        let payload = numbers(words);
        listener.read(id, MonoNanos(u64::from(id) * 10), Cursor::new(&payload)).unwrap();
    }

    fn node(index: u64, address: u64, edges: u64) -> Vec<(u64, usize)> {
        vec![(index, 4), (1, 4), (0, 2), (address, 8), (24, 8), (0x70, 8), (edges, 8)]
    }

    #[test]
    fn a_told_heap_becomes_a_graph() {
        let mut listener = HeapListener::new();
        hear(&mut listener, 1, &[(5, 4), (2, 4), (1, 4), (0, 4)]);
        hear(&mut listener, 16, &[(0, 4), (1, 4), (0, 2), (0x1000, 8), (2, 1), (0, 4), (0x9000, 8)]);
        hear(&mut listener, 18, &node(0, 0x1000, 1));
        hear(&mut listener, 18, &node(1, 0x2000, 0));
        hear(&mut listener, 19, &[(0, 4), (1, 4), (0, 2), (0x2000, 8), (0, 4)]);
        hear(
            &mut listener,
            15,
            &[(1, 4), (0, 2), (0x70, 8), (0, 8), (0, 4), (0, 4), (0x12, 1), (65, 2), (66, 2), (0, 2), (0, 4)],
        );
        hear(&mut listener, 2, &[(4, 4), (0, 4)]);
        assert!(!listener.is_done(), "another collection");
        hear(&mut listener, 2, &[(5, 4), (2, 4)]);
        assert!(listener.is_done());
        let told = listener.finish().unwrap();
        assert!(told.completeness.is_whole(), "{:?}", told.completeness);
        assert_eq!(told.graph.len(), 2);
        assert_eq!(told.graph.types()[0].name, "AB");
        assert_eq!(told.graph.roots()[0].kind, RootKind::StrongHandle);
        assert_eq!(told.graph.references(ObjectIndex(0)).unwrap(), [ObjectIndex(1)]);
    }

    #[test]
    fn lost_references_are_said_and_do_not_shift_those_behind() {
        let mut listener = HeapListener::new();
        hear(&mut listener, 1, &[(5, 4), (2, 4), (1, 4), (0, 4)]);
        for (number, address) in [0x1000, 0x2000, 0x3000].into_iter().enumerate() {
            hear(&mut listener, 18, &node(number as u64, address, 1));
        }
        hear(&mut listener, 19, &[(0, 4), (1, 4), (0, 2), (0x2000, 8), (0, 4)]);
        hear(&mut listener, 19, &[(2, 4), (1, 4), (0, 2), (0x1000, 8), (0, 4)]);
        hear(&mut listener, 2, &[(5, 4), (2, 4)]);
        let told = listener.finish().unwrap();
        assert_eq!(told.completeness.lost_edge_events, 1);
        assert!(!told.completeness.is_whole());
        assert_eq!(told.graph.references(ObjectIndex(1)).unwrap(), []);
        assert_eq!(told.graph.references(ObjectIndex(2)).unwrap(), [ObjectIndex(0)]);
    }

    /// Numbers of events that claim more than there is must not become references.
    #[test]
    fn lost_references_that_are_only_claimed_take_no_memory() {
        let edges = |index: u64, count: u64| numbers(&[(index, 4), (count, 4), (0, 2), (0x1000, 8), (0, 4)]);
        let hear = |payloads: &[Vec<u8>]| {
            let mut listener = HeapListener::new();
            listener.nodes(&mut Cursor::new(&numbers(&node(0, 0x1000, 2)))).unwrap();
            for payload in payloads {
                let _ = listener.edges(&mut Cursor::new(payload));
            }
            listener
        };
        // The first that comes has a number near the end, and claims four billion references.
        for (index, count) in [(u32::MAX, 1), (u32::MAX, u32::MAX), (1 << 26, 1), (1, u32::MAX)] {
            let listener = hear(&[edges(index.into(), count.into())]);
            assert!(listener.put_in <= MOST_PUT_IN, "{index} {count}: {}", listener.put_in);
            assert_eq!(listener.completeness.lost_edge_events, u64::from(index));
        }
        // All events together put in no more than that.
        let mut listener = hear(&[edges(5, 1)]);
        assert_eq!((listener.put_in, listener.is_shifted), (5, false));
        listener.put_in = MOST_PUT_IN - 1;
        listener.edges(&mut Cursor::new(&edges(8, 1))).unwrap();
        assert!(listener.put_in < MOST_PUT_IN && listener.is_shifted);
        // Nobody knows whose the references behind are: none is anybody's.
        let told = listener.finish().unwrap();
        assert_eq!((told.graph.len(), told.graph.edge_count()), (1, 0));
        assert!(!told.completeness.is_whole());
    }

    #[test]
    fn roots_statics_and_dependents_are_told_with_what_they_hold() {
        let mut listener = HeapListener::new();
        hear(&mut listener, 1, &[(5, 4), (2, 4), (1, 4), (0, 4)]);
        hear(&mut listener, 18, &node(0, 0x1000, 0));
        hear(&mut listener, 18, &node(1, 0x2000, 0));
        let root = |object: u64, kind: u64, flags: u64| {
            vec![(0, 4), (1, 4), (0, 2), (object, 8), (kind, 1), (flags, 4), (0x9000, 8)]
        };
        for (object, kind, flags) in [
            (0x1000, 0, 0),
            (0x1000, 1, 0),
            (0x1000, 2, 2),
            (0x1000, 7, 0),
            // Inside of an object; weak; nothing; of no object.
            (0x1008, 0, 4),
            (0x1000, 2, 1),
            (0, 0, 0),
            (0x1008, 0, 0),
        ] {
            hear(&mut listener, 16, &root(object, kind, flags));
        }
        let field = |flags: u64, object: u64| vec![(7, 8), (object, 8), (0, 8), (flags, 4), (65, 2), (0, 2)];
        let statics = [vec![(2, 4), (0, 8), (0, 2)], field(1, 0x2000), field(0, 0)].concat();
        hear(&mut listener, 38, &statics);
        hear(&mut listener, 17, &[(0, 4), (1, 4), (0, 2), (0x1000, 8), (0x2000, 8), (0, 8)]);
        hear(&mut listener, 17, &[(1, 4), (1, 4), (0, 2), (0x1000, 8), (0x3000, 8), (0, 8)]);
        let graph = listener.finish().unwrap().graph;
        let mut roots: Vec<_> =
            graph.roots().iter().map(|root| (root.kind, root.object.0, root.is_interior)).collect();
        roots.sort();
        let mut wanted = [
            (RootKind::Stack, 0, false),
            (RootKind::FinalizerQueue, 0, false),
            (RootKind::Other, 0, false),
            (RootKind::Other, 0, false),
            (RootKind::Stack, 0, true),
            (RootKind::ThreadStatic, 1, false),
        ];
        wanted.sort();
        assert_eq!(roots, wanted);
        assert_eq!(graph.dependents(), [(ObjectIndex(0), ObjectIndex(1))]);
    }

    #[test]
    fn only_a_full_collection_that_blocks_is_the_one() {
        for (generation, kind, is_it) in [(2, 0, true), (2, 2, true), (1, 0, false), (2, 1, false)] {
            let mut listener = HeapListener::new();
            hear(&mut listener, 1, &[(5, 4), (generation, 4), (1, 4), (kind, 4)]);
            // The first counts.
            hear(&mut listener, 1, &[(6, 4), (2, 4), (1, 4), (0, 4)]);
            hear(&mut listener, 2, &[(5, 4), (2, 4)]);
            assert_eq!(listener.is_done(), is_it, "{generation} {kind}");
            let pause = listener.finish().unwrap().pause;
            assert_eq!(pause, is_it.then_some(Nanos(10)));
        }
    }

    #[test]
    fn names_of_types_are_cut_and_arrays_have_their_brackets() {
        let named = |name: &str, flags: u64| {
            let mut listener = HeapListener::new();
            hear(&mut listener, 18, &node(0, 0x1000, 0));
            let units = name.encode_utf16().chain([0]).map(|unit| (unit.into(), 2));
            let head = [(1, 4), (0, 2), (0x70, 8), (0, 8), (0, 4), (flags, 4), (0x12, 1)];
            let words: Vec<_> = head.into_iter().chain(units).chain([(0, 4)]).collect();
            hear(&mut listener, 15, &words);
            listener.finish().unwrap().graph.types()[0].name.clone()
        };
        for (name, flags, shown) in [
            ("App.Feed", 0, "App.Feed"),
            ("App.Feed", 8, "App.Feed[]"),
            ("App.Feed", 8 | 1 << 8, "App.Feed[]"),
            ("App.Feed", 8 | 3 << 8, "App.Feed[,,]"),
            ("App.Feed[]", 8, "App.Feed[]"),
            ("", 0, "?0x70"),
        ] {
            assert_eq!(named(name, flags), shown, "{name} {flags:#x}");
        }
        assert_eq!(named(&"x".repeat(9000), 0).len(), 4096);
    }

    proptest::proptest! {
        #[test]
        fn any_events_make_a_heap(
            events in proptest::collection::vec((0u32..40, proptest::collection::vec(proptest::num::u8::ANY, 0..80)), 0..20),
        ) {
            let mut listener = HeapListener::new();
            for (id, payload) in &events {
                let _ = listener.read(*id, MonoNanos(1), Cursor::new(payload));
            }
            proptest::prop_assert!(listener.put_in <= MOST_PUT_IN);
            let told = listener.finish().unwrap();
            proptest::prop_assert!(told.graph.roots().iter().all(|root| (root.object.0 as usize) < told.graph.len()));
        }
    }
}
