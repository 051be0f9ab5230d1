//! The document, piece by piece: nothing is kept but names, and 4 bytes for each object.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::graph::{Generation, Graph, NO_OBJECT, ObjectIndex, Root, RootKind};

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Places in the list of nodes are 32-bit numbers in the reader.
    #[error("a .heapsnapshot holds at most {limit} objects, this heap has {count}")]
    TooLarge {
        /// Objects that there are.
        count: u64,
        /// How many fit.
        limit: u64,
    },
    /// The file cannot be written, or spilled references cannot be read.
    #[error("cannot write the .heapsnapshot")]
    Io(#[from] io::Error),
}

/// Numbers of a node: type, name, id, size, edges, trace, detached.
const NODE: u64 = 7;
/// `meta.node_types[0]`.
const OBJECT: u32 = 3;
const SYNTHETIC: u32 = 9;
/// `meta.edge_types[0]`.
const ELEMENT: u32 = 1;
const PROPERTY: u32 = 2;
const INTERNAL: u32 = 3;

const META: &str = r#"{"node_fields":["type","name","id","self_size","edge_count","trace_node_id","detachedness"],"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic","concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],"trace_function_info_fields":["function_id","name","script_name","script_id","line","column"],"trace_node_fields":["id","function_info_index","count","size","children"],"sample_fields":["timestamp_us","last_assigned_id"],"location_fields":["object_index","script_id","line","column"]}"#;

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Objects; nodes that stand for roots are none.
    pub objects: u64,
    /// References between objects.
    pub references: u64,
    /// Bytes of all objects.
    pub bytes: u64,
}

/// Writes what is alive in a graph: the root, a node for each kind of roots, the objects by address. Free space is left out.
///
/// # Errors
/// [`WriteError`].
pub fn write(graph: &Graph, out: impl Write) -> Result<Written, WriteError> {
    let mut document = Document::new(graph)?;
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    let written = document.count()?;
    let nodes = u64::from(document.first) + written.objects;
    let edges = document.edges_of_roots() + written.references;
    write!(out, r#"{{"snapshot":{{"meta":{META},"node_count":{nodes},"edge_count":{edges},"#)?;
    write!(out, "\"trace_function_count\":0}},\n\"nodes\":[")?;
    document.nodes(&mut out)?;
    write!(out, "],\n\"edges\":[")?;
    document.edges(&mut out)?;
    write!(
        out,
        "],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\"locations\":[],\n"
    )?;
    write!(out, "\"strings\":[")?;
    for (number, text) in document.strings.iter().enumerate() {
        let comma = if number == 0 { "" } else { ",\n" };
        write!(out, "{comma}{}", serde_json::to_string(text).map_err(io::Error::from)?)?;
    }
    write!(out, "]}}")?;
    out.flush()?;
    Ok(written)
}

/// Roots of one kind: what each is called, if it has a name, and the object.
struct Kind {
    name: u32,
    children: Vec<(Option<u32>, u32)>,
}

struct Document<'g> {
    graph: &'g Graph,
    /// Number of each object in the file less the nodes that stand for roots; [`NO_OBJECT`]: left out.
    numbers: Vec<u32>,
    /// References to objects that are written, of each object.
    degrees: Vec<u32>,
    kinds: Vec<Kind>,
    /// Number of the first object.
    first: u32,
    strings: Vec<String>,
    known: FxHashMap<String, u32>,
    /// Names of types and of their fields, as numbers.
    types: Vec<(u32, Vec<u32>)>,
    buffer: Vec<u32>,
}

impl<'g> Document<'g> {
    fn new(graph: &'g Graph) -> Result<Self, WriteError> {
        let mut document = Self {
            graph,
            numbers: Vec::with_capacity(graph.len()),
            degrees: Vec::new(),
            kinds: Vec::new(),
            first: 0,
            strings: Vec::new(),
            known: FxHashMap::default(),
            types: Vec::new(),
            buffer: Vec::new(),
        };
        document.string("");
        let mut count = 0;
        for object in graph.objects() {
            let is_free = graph.type_of(object.of).is_none_or(|of| of.is_free);
            let is_live = graph.live().is_none_or(|live| live.contains(object.index.0 as usize));
            document.numbers.push(if is_free || !is_live { NO_OBJECT } else { count });
            count += u32::from(!is_free && is_live);
        }
        for of in graph.types() {
            let name = document.string(&of.name);
            let fields = of.fields.iter().map(|field| document.string(field)).collect();
            document.types.push((name, fields));
        }
        document.find_roots();
        document.first = document.kinds.len() as u32 + 1;
        let (count, limit) = (u64::from(document.first) + u64::from(count), u64::from(u32::MAX) / NODE);
        if count > limit {
            return Err(WriteError::TooLarge { count, limit });
        }
        Ok(document)
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.strings.len() as u32;
        self.strings.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }

    fn number(&self, ObjectIndex(object): ObjectIndex) -> Option<u32> {
        self.numbers.get(object as usize).copied().filter(|number| *number != NO_OBJECT)
    }

    fn find_roots(&mut self) {
        let graph = self.graph;
        for kind in RootKind::ALL {
            let roots = graph.roots().iter().filter(|root| root.kind == *kind);
            let children: Vec<_> =
                roots.filter_map(|root| Some((self.name_of(root), self.number(root.object)?))).collect();
            self.add_kind(&format!("({}s)", kind.name()), children);
        }
        // Values of dependent handles live with their keys, which the format cannot say; and what is never collected needs nobody.
        let values = graph.dependents().iter().filter_map(|(_, value)| Some((None, self.number(*value)?)));
        let values: Vec<_> = values.collect();
        self.add_kind("(dependent handles)", values);
        let frozen = graph.objects().filter(|object| object.generation == Generation::Frozen);
        let frozen = frozen.filter_map(|object| Some((None, self.number(object.index)?)));
        let frozen: Vec<_> = frozen.collect();
        self.add_kind("(never collected)", frozen);
    }

    /// The static field that a root is.
    fn name_of(&mut self, root: &Root) -> Option<u32> {
        let (of, field) = self.graph.static_at(root.address).filter(|_| root.kind == RootKind::Static)?;
        Some(self.string(&format!("{}.{field}", of.name)))
    }

    fn add_kind(&mut self, name: &str, mut children: Vec<(Option<u32>, u32)>) {
        children.sort_unstable();
        children.dedup();
        if !children.is_empty() {
            let name = self.string(name);
            self.kinds.push(Kind { name, children });
        }
    }

    fn edges_of_roots(&self) -> u64 {
        self.kinds.iter().map(|kind| 1 + kind.children.len() as u64).sum()
    }

    fn count(&mut self) -> Result<Written, WriteError> {
        let mut written = Written::default();
        let Self { graph, numbers, degrees, buffer, .. } = self;
        let is_written =
            |object: ObjectIndex| numbers.get(object.0 as usize).is_some_and(|number| *number != NO_OBJECT);
        for object in graph.objects().filter(|object| is_written(object.index)) {
            let mut degree = 0;
            graph.for_each_reference(object.index, buffer, |target| {
                degree += u32::from(is_written(target));
            })?;
            degrees.push(degree);
            written.objects += 1;
            written.references += u64::from(degree);
            written.bytes += object.size;
        }
        Ok(written)
    }

    fn nodes(&self, out: &mut impl Write) -> io::Result<()> {
        // Ids of objects are odd.
        write!(out, "{SYNTHETIC},0,1,0,{},0,0", self.kinds.len())?;
        for (number, kind) in self.kinds.iter().enumerate() {
            let id = 3 + 2 * number;
            write!(out, ",\n{SYNTHETIC},{},{id},0,{},0,0", kind.name, kind.children.len())?;
        }
        for object in self.graph.objects() {
            let Some(number) = self.number(object.index) else { continue };
            let name = self.types.get(object.of.0 as usize).map_or(0, |(name, _)| *name);
            let degree = self.degrees.get(number as usize).copied().unwrap_or(0);
            let id = 1 + 2 * u64::from(self.first + number);
            let size = object.size.min(u64::from(u32::MAX));
            write!(out, ",\n{OBJECT},{name},{id},{size},{degree},0,0")?;
        }
        Ok(())
    }

    fn edges(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut comma = "";
        let place = |number: u32| u64::from(number) * NODE;
        for kind in 0..self.kinds.len() as u32 {
            write!(out, "{comma}{ELEMENT},{kind},{}", place(kind + 1))?;
            comma = ",\n";
        }
        for kind in &self.kinds {
            for (at, (name, object)) in kind.children.iter().enumerate() {
                let (of, name) = name.map_or((ELEMENT, at as u32), |name| (PROPERTY, name));
                write!(out, "{comma}{of},{name},{}", place(self.first + object))?;
            }
        }
        let Self { graph, numbers, types, first, buffer, .. } = self;
        for object in graph.objects() {
            if numbers.get(object.index.0 as usize).is_none_or(|number| *number == NO_OBJECT) {
                continue;
            }
            let fields = types.get(object.of.0 as usize).map_or(&[][..], |(_, fields)| fields.as_slice());
            let repeats = graph.type_of(object.of).is_some_and(|of| of.repeats);
            let mut failed = Ok(());
            graph.for_each_numbered_reference(object.index, buffer, |reference, target| {
                let target = numbers.get(target.0 as usize).copied().filter(|one| *one != NO_OBJECT);
                let Some(target) = target.filter(|_| failed.is_ok()) else { return };
                let at = if repeats { reference.checked_rem(fields.len()).unwrap_or(0) } else { reference };
                let (of, name) = match fields.get(at) {
                    // Elements that are structs: the field says more than the number would.
                    Some(field) if repeats => (INTERNAL, *field),
                    Some(field) => (PROPERTY, *field),
                    None => (ELEMENT, reference as u32),
                };
                failed = write!(out, "{comma}{of},{name},{}", place(*first + target));
                comma = ",\n";
            })?;
            failed?;
        }
        Ok(())
    }
}
