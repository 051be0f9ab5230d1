//! Writing a graph as `.gcdump`.

use std::io::{self, Write};

use biopsy_model::Pid;

use super::{HEAP_DUMP, MAGIC, MEMORY_GRAPH, TICKS_OF_1970, TICKS_PER_SECOND, UNDEFINED, tag};
use crate::graph::{Graph, NO_OBJECT, ObjectIndex, RootKind};

/// What goes in besides the graph.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Objects that are not reachable, too. Other tools expect a heap after a collection, so usually not.
    pub garbage: bool,
    /// Name of the process.
    pub process_name: String,
    /// Its pid.
    pub pid: Pid,
    /// When the snapshot was taken, seconds since 1970; `None`: not known, which is written as .NET's first moment.
    pub unix_seconds: Option<i64>,
    /// The program that writes, with its version.
    pub tool: String,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Nodes and their places are 32-bit numbers with sign in this format.
    #[error("a .gcdump holds at most {limit} {what}, this heap has {count}")]
    TooLarge {
        /// Objects, or bytes.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many fit.
        limit: u64,
    },
    /// The file cannot be written, or spilled references cannot be read.
    #[error("cannot write the .gcdump")]
    Io(#[from] io::Error),
}

/// What lies at place 0: readers take a node there for one that was never defined.
const UNDEFINED_NODE: [u8; 2] = [0, 0];

/// Nodes that stand for no object: the root of all and one for each kind of roots, each with its children.
struct Pseudo {
    name: String,
    children: Vec<u32>,
}

/// Writes a graph. Node 0 is the root; one node per kind of roots below it; then the objects by address, free space left out,
/// garbage too unless it is asked for. Returns how many objects were written.
///
/// The places of all nodes come before the nodes, so these are encoded twice; nothing is kept but 4 bytes per object.
///
/// # Errors
/// [`WriteError`].
pub fn write(graph: &Graph, options: &WriteOptions, out: impl Write) -> Result<u64, WriteError> {
    let numbers = Numbers::new(graph, options.garbage);
    let pseudo = pseudo_nodes(graph, &numbers);
    let count = pseudo.len() as u64 + u64::from(numbers.count);
    let limit = i32::MAX as u64;
    if count > limit {
        return Err(WriteError::TooLarge { what: "objects", count, limit });
    }
    let first_type = pseudo.len() as u32 + 1;
    let mut encoder = Encoder { graph, numbers: &numbers, pseudo: &pseudo, first_type, buffer: Vec::new() };
    let (mut bytes, mut total, mut places) =
        (UNDEFINED_NODE.len() as u64, 0u64, Vec::with_capacity(count as usize));
    encoder.each(|size, node| {
        places.push(bytes as u32);
        bytes += node.len() as u64;
        total += size;
        Ok(())
    })?;
    if bytes > limit {
        return Err(WriteError::TooLarge { what: "bytes of nodes", count: bytes, limit });
    }
    let mut out = Out { out, written: 0 };
    out.string(MAGIC)?;
    out.begin(HEAP_DUMP, 10, 8)?;
    out.begin(MEMORY_GRAPH, 1, 0)?;
    out.i64(i64::try_from(total).unwrap_or(i64::MAX))?;
    out.i32(0)?;
    out.i32((1 + pseudo.len() + graph.types().len()) as i32)?;
    out.string(UNDEFINED)?;
    out.i32(0)?;
    out.string("")?;
    for node in &pseudo {
        out.string(&node.name)?;
        out.i32(0)?;
        out.string("")?;
    }
    for of in graph.types() {
        out.string(&of.name)?;
        out.i32(-1)?;
        out.string(&of.module)?;
    }
    out.i32(count as i32)?;
    for place in places {
        out.i32(place as i32)?;
    }
    out.i32(bytes as i32)?;
    out.bytes(&UNDEFINED_NODE)?;
    encoder.each(|_, node| out.bytes(node))?;
    out.i32(count as i32)?;
    for _ in &pseudo {
        out.i64(0)?;
    }
    for object in graph.objects() {
        if numbers.of(object.index).is_some() {
            out.i64(object.address.0.cast_signed())?;
        }
    }
    out.bytes(&[tag::BYTE, 1])?;
    out.bytes(&[tag::END_OBJECT])?;
    trailer(&mut out, options)?;
    Ok(numbers.count.into())
}

/// What comes behind the graph.
fn trailer(out: &mut Out<impl Write>, options: &WriteOptions) -> io::Result<()> {
    out.bytes(&[1])?;
    out.bytes(&1f32.to_le_bytes())?;
    out.bytes(&1f32.to_le_bytes())?;
    // No JavaScript; segments of the heap are not reported.
    out.bytes(&[tag::NULL, tag::NULL])?;
    out.string("")?;
    let ticks = |seconds: i64| seconds.saturating_mul(TICKS_PER_SECOND).saturating_add(TICKS_OF_1970);
    out.i64(options.unix_seconds.map_or(0, ticks))?;
    // The name of the machine is nobody's business.
    out.string("")?;
    out.string(&options.process_name)?;
    out.i32(options.pid.0.cast_signed())?;
    out.i64(0)?;
    out.i64(0)?;
    out.i32(0)?;
    out.bytes(&[tag::STRING])?;
    out.string(&options.tool)?;
    out.bytes(&[tag::END_OBJECT])?;
    // The end of all objects, no forward references, and where that is said.
    out.bytes(&[tag::END_OBJECT])?;
    let references = out.written;
    out.i32(0)?;
    let label = out.written;
    out.i32(references as i32)?;
    out.i32(label as i32)?;
    out.out.flush()
}

/// Which objects are written, and under which numbers: those before, less those that were left out.
struct Numbers {
    /// Number of each object in the file less the pseudo nodes; [`NO_OBJECT`]: left out.
    of: Vec<u32>,
    count: u32,
}

impl Numbers {
    fn new(graph: &Graph, garbage: bool) -> Self {
        let mut of = Vec::with_capacity(graph.len());
        let mut count = 0;
        let free: Vec<bool> = graph.types().iter().map(|of| of.is_free).collect();
        let live = graph.live().filter(|_| !garbage);
        for object in graph.objects() {
            let is_free = free.get(object.of.0 as usize).copied().unwrap_or(true);
            if is_free || live.is_some_and(|live| !live.contains(object.index.0 as usize)) {
                of.push(NO_OBJECT);
            } else {
                of.push(count);
                count += 1;
            }
        }
        Self { of, count }
    }

    fn of(&self, index: ObjectIndex) -> Option<u32> {
        self.of.get(index.0 as usize).copied().filter(|number| *number != NO_OBJECT)
    }
}

/// The root, the kinds of roots below it, and what belongs to none: frozen objects, values of dependent handles.
fn pseudo_nodes(graph: &Graph, numbers: &Numbers) -> Vec<Pseudo> {
    let mut kinds: Vec<Pseudo> = Vec::new();
    for kind in RootKind::ALL {
        let mut children: Vec<u32> = graph
            .roots()
            .iter()
            .filter(|root| root.kind == *kind)
            .filter_map(|root| numbers.of(root.object))
            .collect();
        children.sort_unstable();
        children.dedup();
        if !children.is_empty() {
            kinds.push(Pseudo { name: pseudo_name(*kind), children });
        }
    }
    let mut dependents: Vec<u32> =
        graph.dependents().iter().filter_map(|(_, value)| numbers.of(*value)).collect();
    dependents.sort_unstable();
    dependents.dedup();
    if !dependents.is_empty() {
        kinds.push(Pseudo { name: "[Dependent Handles]".to_owned(), children: dependents });
    }
    let frozen: Vec<u32> = graph
        .objects()
        .filter(|object| object.generation == crate::graph::Generation::Frozen)
        .filter_map(|object| numbers.of(object.index))
        .collect();
    if !frozen.is_empty() {
        kinds.push(Pseudo { name: "[Frozen Objects]".to_owned(), children: frozen });
    }
    let count = kinds.len() as u32 + 1;
    for kind in &mut kinds {
        kind.children.iter_mut().for_each(|child| *child += count);
    }
    let root = Pseudo { name: "[.NET Roots]".to_owned(), children: (1..count).collect() };
    std::iter::once(root).chain(kinds).collect()
}

fn pseudo_name(kind: RootKind) -> String {
    match kind {
        RootKind::StrongHandle => "[Strong Handles]",
        RootKind::PinnedHandle => "[Pinned Handles]",
        RootKind::OtherHandle => "[Handles]",
        RootKind::FinalizerQueue => "[Finalizer Queue]",
        RootKind::Stack => "[Stacks, conservative]",
        RootKind::ThreadStatic => "[Thread Statics]",
        RootKind::Other => "[Other Roots]",
        RootKind::NativeGlobal => "[Native Globals]",
        RootKind::SystemClass => "[System Classes]",
        RootKind::Monitor => "[Monitors]",
        RootKind::Thread => "[Threads]",
        RootKind::Static => "[Statics]",
    }
    .to_owned()
}

/// Encodes nodes, one after the other.
struct Encoder<'a> {
    graph: &'a Graph,
    numbers: &'a Numbers,
    pseudo: &'a [Pseudo],
    first_type: u32,
    buffer: Vec<u32>,
}

impl Encoder<'_> {
    /// Calls `write` with the size and the bytes of each node.
    fn each(&mut self, mut write: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut node = Vec::new();
        let first = self.pseudo.len() as u32;
        for (number, pseudo) in self.pseudo.iter().enumerate() {
            node.clear();
            cint(&mut node, (number as i32 + 1) << 1);
            cint(&mut node, pseudo.children.len() as i32);
            for child in &pseudo.children {
                cint(&mut node, *child as i32 - number as i32);
            }
            write(0, &node)?;
        }
        let (graph, numbers) = (self.graph, self.numbers);
        let mut children: Vec<i32> = Vec::new();
        for object in graph.objects() {
            let Some(number) = numbers.of(object.index) else { continue };
            node.clear();
            cint(&mut node, ((self.first_type + object.of.0) << 1 | 1) as i32);
            // Sizes are 32-bit numbers with sign; larger ones are cut.
            let size = object.size.min(i32::MAX as u64);
            cint(&mut node, size as i32);
            children.clear();
            graph.for_each_reference(object.index, &mut self.buffer, |target| {
                if let Some(target) = numbers.of(target) {
                    children.push((target + first).wrapping_sub(number + first) as i32);
                }
            })?;
            cint(&mut node, children.len() as i32);
            children.iter().for_each(|child| cint(&mut node, *child));
            write(size, &node)?;
        }
        Ok(())
    }
}

/// A number in 7 bits a byte, highest first.
pub(super) fn cint(out: &mut Vec<u8>, value: i32) {
    let fits = |bits: u32| value << (32 - bits) >> (32 - bits) == value;
    let bytes = [7, 14, 21, 28].into_iter().position(fits).unwrap_or(4);
    for byte in (1..=bytes).rev() {
        out.push((value >> (byte * 7)) as u8 | 0x80);
    }
    out.push(value as u8 & 0x7f);
}

/// Counts what is written.
struct Out<W> {
    out: W,
    written: u64,
}

impl<W: Write> Out<W> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn i32(&mut self, value: i32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    fn i64(&mut self, value: i64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    /// The length counts units of UTF-16, and each unit is 1 to 3 bytes, halves of pairs too: so `StreamReaderWriter.cs` of
    /// microsoft/perfview has it. A count of bytes is read as a longer text, and nothing behind it is where it should be.
    fn string(&mut self, text: &str) -> io::Result<()> {
        self.i32(i32::try_from(text.encode_utf16().count()).unwrap_or(0))?;
        if text.is_ascii() {
            return self.bytes(text.as_bytes());
        }
        for unit in text.encode_utf16() {
            let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                0..0x80 => self.bytes(&[unit as u8])?,
                0x80..0x800 => self.bytes(&[0xc0 | (unit >> 6) as u8, low(0)])?,
                _ => self.bytes(&[0xe0 | (unit >> 12) as u8, low(6), low(0)])?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, name: &str, version: i32, lowest_reader: i32) -> io::Result<()> {
        self.bytes(&[tag::BEGIN_OBJECT, tag::BEGIN_OBJECT, tag::NULL])?;
        self.i32(version)?;
        self.i32(lowest_reader)?;
        self.string(name)?;
        self.bytes(&[tag::END_OBJECT])
    }
}
