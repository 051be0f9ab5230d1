//! Reading a `.gcdump`.

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use biopsy_model::{Avma, Pid};

use super::{HEAP_DUMP, MAGIC, MEMORY_GRAPH, PSEUDO, TICKS_OF_1970, TICKS_PER_SECOND, UNDEFINED, tag};
use crate::graph::{Graph, GraphBuilder, HeapType, Node, Root, RootKind, mark};

/// What a `.gcdump` says.
#[derive(Clone, Debug)]
pub struct GcDump {
    /// The objects. Roots are the objects that pseudo nodes lead to.
    pub graph: Graph,
    /// Name of the process.
    pub process_name: String,
    /// Its pid.
    pub pid: Pid,
    /// When it was collected, seconds since 1970 as the clock of that machine showed them: the zone is not reported.
    pub local_unix_seconds: Option<i64>,
    /// The program that wrote it.
    pub tool: String,
    /// References that lead to no object.
    pub dangling: u64,
    /// Objects that could not be taken over: they have no address of their own.
    pub left_out: u64,
    /// Why what stands behind the graph (process, time, tool) is not known, or not all.
    pub incomplete: Option<ReadError>,
}

/// Longest name that is believed, in bytes.
const MOST_NAME: usize = 1 << 20;

/// Reads a file that is in memory.
///
/// # Errors
/// The field that is not as it should be, and where.
pub fn read(bytes: &[u8]) -> Result<GcDump, ReadError> {
    let mut cursor = Cursor::new(bytes);
    let magic = string(&mut cursor, "magic")?;
    if magic != MAGIC {
        return Err(
            cursor.error("magic", ReadErrorKind::Unexpected { expected: 20, found: magic.len() as u64 })
        );
    }
    let version = begin(&mut cursor, HEAP_DUMP)?;
    begin(&mut cursor, MEMORY_GRAPH)?;
    cursor.i64("bytes of all nodes")?;
    cursor.u32("root")?;
    let mut builder = GraphBuilder::new();
    let mut is_pseudo = Vec::new();
    // A type takes 12 bytes at least.
    for _ in 0..count(&mut cursor, "types", 12)? {
        let name = string(&mut cursor, "name of a type")?;
        let size = cursor.u32("size of a type")?.cast_signed();
        let module = string(&mut cursor, "module of a type")?;
        is_pseudo.push((name.starts_with(PSEUDO), name == UNDEFINED, size));
        builder.push_type(HeapType { name, module, ..HeapType::default() });
    }
    let nodes = count(&mut cursor, "nodes", 4)?;
    let mut places = cursor.sub("places of nodes", nodes * 4)?;
    let blob_bytes = count(&mut cursor, "bytes of nodes", 1)?;
    let blob_offset = cursor.offset();
    let blob = cursor.take("nodes", blob_bytes)?;
    let addresses = count(&mut cursor, "addresses", 8)?;
    let addresses = cursor.take("addresses", addresses * 8)?.as_chunks::<8>().0;
    let address = |node: usize| Avma(addresses.get(node).map_or(0, |eight| u64::from_le_bytes(*eight)));
    let mut rooted = Vec::new();
    // Each reference has a byte of its own in the blob: where nodes share places, few bytes would become many references.
    let mut unread = blob_bytes;
    let mut without_address = 0;
    for number in 0..nodes {
        let place = places.u32("place of a node")? as usize;
        let mut node = Cursor::at(blob.get(place..).unwrap_or_default(), blob_offset + place as u64);
        let of = cint(&mut node, "type of a node")?;
        let type_index = (of >> 1) as usize;
        let Some((in_brackets, undefined, type_size)) = is_pseudo.get(type_index).copied() else {
            return Err(node.error(
                "type of a node",
                ReadErrorKind::OverLimit { claimed: type_index as u64, limit: is_pseudo.len() as u64 },
            ));
        };
        // Objects of COM and of JavaScript have names in brackets as well, and addresses.
        let pseudo = undefined || (in_brackets && address(number) == Avma(0));
        let size = if of & 1 == 1 { cint(&mut node, "size of a node")? } else { type_size };
        let children = usize::try_from(cint(&mut node, "children of a node")?).unwrap_or(usize::MAX);
        let most = node.remaining().min(unread);
        if children > most {
            return Err(node.error(
                "children of a node",
                ReadErrorKind::OverLimit { claimed: children as u64, limit: most as u64 },
            ));
        }
        unread -= children;
        let mut edges = 0;
        for _ in 0..children {
            let child = cint(&mut node, "a child of a node")?;
            let target = address(number.wrapping_add_signed(child as isize));
            if target == Avma(0) {
                continue;
            }
            if pseudo {
                rooted.push(target);
            } else {
                builder.push_edge(target);
                edges += 1;
            }
        }
        if !pseudo && address(number) != Avma(0) {
            builder.push(Node {
                address: address(number),
                of: crate::graph::TypeIndex(type_index as u32),
                size: u64::try_from(size).unwrap_or(0),
                edges,
            });
        } else if !pseudo {
            // Its references have no object to belong to.
            builder.drop_edges(edges);
            without_address += 1;
        }
    }
    let mut behind = Trailer::default();
    let incomplete = behind.read(&mut cursor, version).err();
    let io = |_| Cursor::new(&[]).error("graph", ReadErrorKind::UnexpectedEnd { needed: 0, found: 0 });
    let (mut graph, left_out, dangling) = builder.finish().map_err(io)?;
    let mut roots: Vec<Root> = rooted
        .into_iter()
        .filter_map(|target| graph.find(target))
        .map(|object| Root { kind: RootKind::Other, address: Avma(0), object, is_interior: false, thread: 0 })
        .collect();
    roots.sort_by_key(|root| root.object);
    roots.dedup();
    graph.set_roots(roots, Vec::new());
    let live = mark(&graph).map_err(io)?;
    graph.set_live(live);
    let Trailer { process_name, pid, local_unix_seconds, tool } = behind;
    let left_out = left_out + without_address;
    Ok(GcDump { graph, process_name, pid, local_unix_seconds, tool, dangling, left_out, incomplete })
}

/// What comes behind the graph.
#[derive(Default)]
struct Trailer {
    process_name: String,
    pid: Pid,
    local_unix_seconds: Option<i64>,
    tool: String,
}

/// Since this version of `GCHeapDump` what is known of the .NET heap is an object of its own.
const WITH_HEAP_INFO: u32 = 8;

impl Trailer {
    /// Fills in what there is, as far as it is as usual.
    fn read(&mut self, cursor: &mut Cursor<'_>, version: u32) -> Result<(), ReadError> {
        if cursor.rest().first() == Some(&tag::BYTE) {
            cursor.skip("64 bit", 2)?;
        }
        expect(cursor, "end of the graph", &[tag::END_OBJECT])?;
        if version < WITH_HEAP_INFO {
            cursor.skip("sizes and counts", 25)?;
            // Before version 5 nothing follows.
            return if version < 5 { Ok(()) } else { self.process(cursor) };
        }
        cursor.skip("64 bit and sampling", 9)?;
        let mut known = None;
        if object(cursor, "JavaScript heap", &mut known)? {
            expect(cursor, "end of the JavaScript heap", &[tag::END_OBJECT])?;
        }
        if object(cursor, ".NET heap", &mut known)? {
            cursor.i64("bytes of segments")?;
            known = None;
            for _ in 0..count(cursor, "segments", 8)? {
                object(cursor, "a segment", &mut known)?;
                // The end of the pinned heap came with version 1.
                let ends = if known == Some(0) { 6 } else { 7 };
                cursor.skip("addresses of a segment", ends * 8)?;
                expect(cursor, "end of a segment", &[tag::END_OBJECT])?;
            }
            expect(cursor, "end of the .NET heap", &[tag::END_OBJECT])?;
        }
        self.process(cursor)?;
        let multipliers = count(cursor, "multipliers", 4)?;
        cursor.skip("multipliers", multipliers * 4)?;
        // Tagged fields come behind; of files with interop information the tool is not read.
        if cursor.rest().first() == Some(&tag::STRING) {
            cursor.skip("tool", 1)?;
            self.tool = string(cursor, "tool")?;
        }
        Ok(())
    }

    fn process(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        string(cursor, "log")?;
        let ticks = cursor.i64("time")?;
        self.local_unix_seconds = (ticks > 0).then(|| (ticks - TICKS_OF_1970).div_euclid(TICKS_PER_SECOND));
        string(cursor, "machine")?;
        self.process_name = string(cursor, "process")?;
        self.pid = Pid(cursor.u32("pid")?);
        cursor.skip("sizes", 16)
    }
}

/// The beginning of an object that may be null (then `false`). `known` is the version of the type before: of several objects
/// of one type only the first says it.
fn object(cursor: &mut Cursor<'_>, field: &'static str, known: &mut Option<u32>) -> Result<bool, ReadError> {
    if expect(cursor, field, &[tag::NULL, tag::BEGIN_OBJECT, tag::BEGIN_PRIVATE_OBJECT])? == tag::NULL {
        return Ok(false);
    }
    let types = [tag::OBJECT_REFERENCE, tag::BEGIN_OBJECT, tag::BEGIN_PRIVATE_OBJECT];
    if expect(cursor, field, &types)? == tag::OBJECT_REFERENCE {
        cursor.skip("place of the type", 4)?;
        return Ok(true);
    }
    expect(cursor, field, &[tag::NULL])?;
    *known = Some(cursor.u32("version of a type")?);
    cursor.skip("lowest reader of a type", 4)?;
    string(cursor, "name of a type")?;
    expect(cursor, "end of a type", &[tag::END_OBJECT])?;
    Ok(true)
}

/// The next byte, which must be one of these.
fn expect(cursor: &mut Cursor<'_>, field: &'static str, tags: &[u8]) -> Result<u8, ReadError> {
    let before = *cursor;
    let found = cursor.u8(field)?;
    if tags.contains(&found) {
        return Ok(found);
    }
    let expected = tags.first().copied().unwrap_or_default().into();
    Err(before.error(field, ReadErrorKind::Unexpected { expected, found: found.into() }))
}

/// The beginning of an object of this type; tells the version of the type.
fn begin(cursor: &mut Cursor<'_>, name: &'static str) -> Result<u32, ReadError> {
    for expected in [tag::BEGIN_OBJECT, tag::BEGIN_OBJECT, tag::NULL] {
        expect(cursor, "beginning of an object", &[expected])?;
    }
    let version = cursor.u32("version")?;
    cursor.skip("lowest reader", 4)?;
    let before = *cursor;
    if string(cursor, name)? != name {
        return Err(before.error(name, ReadErrorKind::Unexpected { expected: name.len() as u64, found: 0 }));
    }
    cursor.skip("end of a type", 1)?;
    Ok(version)
}

/// A number of things of at least `bytes` bytes each, which must fit what remains.
fn count(cursor: &mut Cursor<'_>, field: &'static str, bytes: usize) -> Result<usize, ReadError> {
    let before = *cursor;
    let claimed = cursor.u32(field)?;
    let limit = cursor.remaining() / bytes;
    if claimed as usize > limit {
        let kind = ReadErrorKind::OverLimit { claimed: claimed.into(), limit: limit as u64 };
        return Err(before.error(field, kind));
    }
    Ok(claimed as usize)
}

fn string(cursor: &mut Cursor<'_>, field: &'static str) -> Result<String, ReadError> {
    let before = *cursor;
    let length = cursor.u32(field)?.cast_signed();
    if length < 0 {
        return Ok(String::new());
    }
    if length as usize > MOST_NAME {
        let kind = ReadErrorKind::OverLimit { claimed: length as u64, limit: MOST_NAME as u64 };
        return Err(before.error(field, kind));
    }
    // Units of UTF-16 in 1 to 3 bytes each, halves of pairs too.
    let mut units = Vec::with_capacity((length as usize).min(cursor.remaining()));
    for _ in 0..length {
        let first = u16::from(cursor.u8(field)?);
        let mut next = || Ok::<_, ReadError>(u16::from(cursor.u8(field)?) & 0x3f);
        units.push(match first {
            0..0x80 => first,
            0x80..0xe0 => (first & 0x1f) << 6 | next()?,
            _ => (first & 0xf) << 12 | next()? << 6 | next()?,
        });
    }
    Ok(String::from_utf16_lossy(&units))
}

/// A number in 7 bits a byte, highest first, of 5 bytes at most.
pub(super) fn cint(cursor: &mut Cursor<'_>, field: &'static str) -> Result<i32, ReadError> {
    let mut byte = cursor.u8(field)?;
    let mut value = i32::from(byte) << 25 >> 25;
    for _ in 0..4 {
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        byte = cursor.u8(field)?;
        value = value << 7 | i32::from(byte & 0x7f);
    }
    Ok(value)
}
