//! Segments and regions: where the collector keeps objects.
//!
//! `GcDacVars` (`gcinterface.dac.h` of dotnet/runtime) holds addresses of the collector's variables. Workstation: one table of
//! generations. Server: one `gc_heap` per heap, in which the same variables have places of their own (`GcHeapFieldOffsets`,
//! `dac_gcheap_fields.h`). Each of the five generations (0, 1, 2, large, pinned) begins a list of segments; with regions there
//! are many small ones, and each belongs to its generation. With segments (libclrgc.so), 0 and 1 lie in the last one of 2.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::{HeapError, Problem, Problems};
use crate::graph::Generation;
use crate::layout::Layout;

/// Most heaps of a server that are believed (`MAX_SUPPORTED_CPUS`).
const MOST_HEAPS: u32 = 1024;
/// Most segments: 4 TiB of regions.
const MOST_SEGMENTS: usize = 1 << 20;
/// Generations: 0, 1, 2, large, pinned.
const GENERATIONS: u64 = 5;
/// `heap_segment_flags_readonly`: made once, never collected.
const READ_ONLY: u64 = 1;
/// `c_gc_state_planning`: what was marked is kept, the rest becomes free space.
const STATE_SWEEPING: u32 = 1;
/// Places of variables in `gc_heap`, as indexes into `GcHeapFieldOffsets` (`dac_gcheap_fields.h`).
const FIELD_ALLOC_ALLOCATED: usize = 0;
const FIELD_EPHEMERAL: usize = 1;
const FIELD_FINALIZE_QUEUE: usize = 2;
const FIELD_GENERATION_TABLE: usize = 18;

/// A stretch of memory that holds objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Number of the heap it belongs to; 0 for workstations.
    pub heap: u32,
    /// Address of the first object.
    pub start: Avma,
    /// Behind the last object.
    pub end: Avma,
    /// Of its objects.
    pub generation: Generation,
}

impl Segment {
    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

/// One heap of the collector.
#[derive(Clone, Copy, Debug)]
pub(super) struct GcHeap {
    generation_table: u64,
    ephemeral: u64,
    alloc_allocated: u64,
    pub(super) finalize_queue: u64,
}

/// The collector of one runtime.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub(super) heaps: Vec<GcHeap>,
    pub(super) is_server: bool,
    /// A background collection makes free space of garbage while the program runs.
    pub(super) is_being_swept: bool,
    /// Address of the map of handle tables; 0 where not reported.
    pub(super) handle_table_map: u64,
    generation_size: u64,
    start_segment: u64,
    /// Where a generation says where its first object is; only with segments.
    allocation_start: Option<u64>,
}

/// Reads what the collector shows of itself.
pub(super) fn read_collector(image: &dyn Image, layout: &Layout, gc: u64) -> Result<Collector, HeapError> {
    let failed = |what| HeapError::memory(what);
    let pointer = |field| -> Result<u64, HeapError> {
        let at = gc.wrapping_add(u64::from(layout.field("GcDacVars", field)?));
        image.read_u64(at).map_err(failed("the collector's variables"))
    };
    let value = |field| -> Result<u64, HeapError> {
        match pointer(field)? {
            0 => Ok(0),
            at => image.read_u64(at).map_err(failed("a variable of the collector")),
        }
    };
    let invalid = pointer("GcStructuresInvalidCnt")?;
    if invalid != 0 && image.read_u32(invalid).map_err(failed("the collector's state"))? != 0 {
        return Err(HeapError::Collecting);
    }
    let state = pointer("ConcurrentState")?;
    let is_being_swept =
        state != 0 && image.read_u32(state).map_err(failed("the collector's state"))? == STATE_SWEEPING;
    let generation_size = pointer("GenerationSize")?;
    if !(64..4096).contains(&generation_size) {
        return Err(HeapError::Damaged { what: "the size of a generation", found: generation_size });
    }
    let offsets = i32s::<3>(image, pointer("GenerationFieldOffsets")?, "offsets of generations")?;
    let [_, start_segment, allocation_start] = offsets;
    let start_segment = u64::try_from(start_segment).unwrap_or(0);
    let is_server = pointer("NHeaps")? != 0;
    let heaps = if is_server {
        server_heaps(image, pointer("NHeaps")?, value("GHeaps")?, pointer("GcHeapFieldOffsets")?)?
    } else {
        vec![GcHeap {
            generation_table: pointer("GenerationTable")?,
            ephemeral: value("EphemeralHeapSegment")?,
            alloc_allocated: value("AllocAllocated")?,
            finalize_queue: value("FinalizeQueue")?,
        }]
    };
    Ok(Collector {
        heaps,
        is_server,
        is_being_swept,
        handle_table_map: pointer("HandleTableMap")?,
        generation_size,
        start_segment,
        allocation_start: u64::try_from(allocation_start)
            .ok()
            .filter(|offset| *offset > 0 || start_segment > 0),
    })
}

fn server_heaps(image: &dyn Image, count: u64, heaps: u64, offsets: u64) -> Result<Vec<GcHeap>, HeapError> {
    let failed = || HeapError::memory("a heap of the server collector");
    let count = image.read_u32(count).map_err(failed())?;
    if count == 0 || count > MOST_HEAPS {
        return Err(HeapError::Damaged { what: "the number of heaps", found: count.into() });
    }
    let offsets = i32s::<20>(image, offsets, "offsets of heaps")?;
    let offset = |field: usize| -> Result<u64, HeapError> {
        let offset = offsets.get(field).copied().unwrap_or(-1);
        u64::try_from(offset)
            .map_err(|_| HeapError::Damaged { what: "the place of a variable", found: field as u64 })
    };
    let mut found = Vec::new();
    for number in 0..u64::from(count) {
        let heap = image.read_u64(heaps.wrapping_add(number * 8)).map_err(failed())?;
        let value = |field| -> Result<u64, HeapError> {
            image.read_u64(heap.wrapping_add(offset(field)?)).map_err(failed())
        };
        found.push(GcHeap {
            generation_table: heap.wrapping_add(offset(FIELD_GENERATION_TABLE)?),
            ephemeral: value(FIELD_EPHEMERAL)?,
            alloc_allocated: value(FIELD_ALLOC_ALLOCATED)?,
            finalize_queue: value(FIELD_FINALIZE_QUEUE)?,
        });
    }
    Ok(found)
}

fn i32s<const N: usize>(image: &dyn Image, at: u64, what: &'static str) -> Result<[i32; N], HeapError> {
    let mut bytes = vec![0; N * 4];
    image.read_exact(at, &mut bytes).map_err(HeapError::memory(what))?;
    let mut numbers = [0; N];
    for (number, four) in numbers.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *number = i32::from_le_bytes(*four);
    }
    Ok(numbers)
}

/// All segments, by address, none twice. Those that make no sense are counted and left out.
pub(super) fn read_segments(
    image: &dyn Image,
    layout: &Layout,
    collector: &Collector,
    problems: &mut Problems,
) -> Result<Vec<Segment>, HeapError> {
    let field = |name| layout.field("HeapSegment", name).map(u64::from);
    let [allocated, mem, flags, next] = [field("Allocated")?, field("Mem")?, field("Flags")?, field("Next")?];
    let failed = || HeapError::memory("a segment of the heap");
    let mut segments = Vec::new();
    let mut seen = FxHashSet::default();
    for (number, heap) in collector.heaps.iter().enumerate() {
        for generation in 0..GENERATIONS {
            let first = heap.generation_table.wrapping_add(generation * collector.generation_size);
            let mut at = image.read_u64(first.wrapping_add(collector.start_segment)).map_err(failed())?;
            // A list that runs in a circle meets what it has seen.
            while at != 0 && seen.insert(at) && seen.len() <= MOST_SEGMENTS {
                let read = |offset: u64| image.read_u64(at.wrapping_add(offset));
                let numbers = (read(mem), read(allocated), read(flags), read(next));
                let (Ok(start), Ok(allocated), Ok(flags), Ok(following)) = numbers else {
                    problems.add(at, Problem::Unreadable, 0);
                    break;
                };
                let end = if at == heap.ephemeral { heap.alloc_allocated } else { allocated };
                let kind = match generation {
                    _ if flags & READ_ONLY != 0 => Generation::Frozen,
                    0 => Generation::Gen0,
                    1 => Generation::Gen1,
                    2 => Generation::Gen2,
                    3 => Generation::Large,
                    _ => Generation::Pinned,
                };
                let segment =
                    Segment { heap: number as u32, start: Avma(start), end: Avma(end), generation: kind };
                if start > end || start % 8 != 0 {
                    problems.add(at, Problem::BadSegment, 0);
                } else if at == heap.ephemeral {
                    split_ephemeral(image, collector, heap, segment, &mut segments);
                } else if start < end {
                    segments.push(segment);
                }
                at = following;
            }
        }
    }
    segments.sort_by_key(|segment: &Segment| segment.start);
    let mut end = Avma(0);
    segments.retain(|segment| {
        let good = segment.start >= end;
        if good {
            end = segment.end;
        } else {
            problems.add(segment.start.0, Problem::BadSegment, segment.bytes());
        }
        good
    });
    Ok(segments)
}

/// Without regions, generations 0 and 1 are the end of one segment, each from its first object on.
fn split_ephemeral(
    image: &dyn Image,
    collector: &Collector,
    heap: &GcHeap,
    whole: Segment,
    segments: &mut Vec<Segment>,
) {
    let inside = |address: &Avma| (whole.start..=whole.end).contains(address) && address.0.is_multiple_of(8);
    let begin = |generation: u64| {
        let offset = collector.allocation_start?;
        let at = heap.generation_table.wrapping_add(generation * collector.generation_size);
        image.read_u64(at.wrapping_add(offset)).ok().map(Avma).filter(inside)
    };
    let parts = match (begin(1), begin(0)) {
        (Some(one), Some(zero)) if one <= zero => vec![
            Segment { end: one, generation: Generation::Gen2, ..whole },
            Segment { start: one, end: zero, generation: Generation::Gen1, ..whole },
            Segment { start: zero, generation: Generation::Gen0, ..whole },
        ],
        _ => vec![whole],
    };
    segments.extend(parts.into_iter().filter(|part| part.start < part.end));
}
