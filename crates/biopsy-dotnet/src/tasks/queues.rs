//! Work that waits for the thread pool, timers, requests of a web server.

use biopsy_model::Avma;
use rustc_hash::{FxHashMap, FxHashSet};

use super::objects::Fields;
use super::operations::Operations;
use crate::graph::{Graph, TypeIndex};
use crate::runtime::Runtime;

/// Segments of a queue, and timers of a list, at most.
const LINKS: usize = 10_000_000;
/// `RequestProcessingStatus` of Kestrel: from handing to the application up to the end of the response.
const IN_FLIGHT: std::ops::RangeInclusive<u32> = 3..=5;

#[derive(Clone, Copy)]
enum Kind {
    WorkQueue,
    LocalQueue,
    TimerQueue,
    Connection,
}

pub(super) fn count(runtime: &Runtime<'_>, graph: &Graph, operations: &mut Operations) {
    let mut kinds: FxHashMap<TypeIndex, Kind> = FxHashMap::default();
    for (index, of) in graph.types().iter().enumerate() {
        let kind = match of.name.as_str() {
            "System.Threading.ThreadPoolWorkQueue" => Kind::WorkQueue,
            "System.Threading.ThreadPoolWorkQueue+WorkStealingQueue" => Kind::LocalQueue,
            "System.Threading.TimerQueue" => Kind::TimerQueue,
            name if is_connection(name) => {
                operations.requests.get_or_insert(0);
                Kind::Connection
            }
            _ => continue,
        };
        kinds.insert(TypeIndex(index as u32), kind);
    }
    if kinds.is_empty() {
        return;
    }
    let mut fields = Fields::new(runtime);
    for object in graph.objects() {
        match kinds.get(&object.of) {
            None => {}
            Some(Kind::WorkQueue) => {
                for name in ["workItems", "highPriorityWorkItems"] {
                    let queue = fields.reference(object.address, name);
                    *operations.queued.get_or_insert(0) +=
                        queue.map_or(0, |queue| concurrent_queue(&mut fields, queue));
                }
            }
            Some(Kind::LocalQueue) => {
                let head = fields.number(object.address, "m_headIndex").unwrap_or(0);
                let tail = fields.number(object.address, "m_tailIndex").unwrap_or(0);
                let waiting = u64::from(tail.wrapping_sub(head)).min(1 << 20);
                if tail.wrapping_sub(head).cast_signed() > 0 {
                    *operations.queued.get_or_insert(0) += waiting;
                }
            }
            Some(Kind::TimerQueue) => {
                for name in ["_shortTimers", "_longTimers"] {
                    let first = fields.reference(object.address, name);
                    links(&mut fields, first, "_next", |_, _| operations.timers += 1);
                }
            }
            Some(Kind::Connection) => {
                let status = fields.number(object.address, "_requestProcessingStatus");
                if status.is_some_and(|status| IN_FLIGHT.contains(&status)) {
                    *operations.requests.get_or_insert(0) += 1;
                }
            }
        }
    }
}

/// HTTP/1 connections and HTTP/2 and 3 streams of Kestrel: each works on one request at a time.
fn is_connection(name: &str) -> bool {
    const SPACE: &str = "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.";
    let Some(rest) = name.strip_prefix(SPACE) else { return false };
    let plain = rest.split(['<', '[']).next().unwrap_or(rest);
    matches!(plain, "Http.Http1Connection" | "Http2.Http2Stream" | "Http3.Http3Stream")
        && !name.ends_with(']')
}

/// Items of a `ConcurrentQueue<T>`: a list of segments, each a ring with positions that only grow.
fn concurrent_queue(fields: &mut Fields<'_, '_>, queue: Avma) -> u64 {
    let mut items = 0;
    let first = fields.reference(queue, "_head");
    links(fields, first, "_nextSegment", |fields, segment| {
        items += segment_items(fields, segment).unwrap_or(0)
    });
    items
}

/// Calls `each` for the objects of a list, each once: a list that runs in a circle ends where it is closed.
fn links<'r, 'i>(
    fields: &mut Fields<'r, 'i>,
    first: Option<Avma>,
    field: &'static str,
    mut each: impl FnMut(&mut Fields<'r, 'i>, Avma),
) {
    let mut seen = FxHashSet::default();
    let mut next = first;
    while let Some(object) = next.filter(|object| seen.len() < LINKS && seen.insert(*object)) {
        each(fields, object);
        next = fields.reference(object, field);
    }
}

fn segment_items(fields: &mut Fields<'_, '_>, segment: Avma) -> Option<u64> {
    /// `PaddedHeadAndTail`: head and tail lie on cache lines of their own (`PaddingHelpers.CACHE_LINE_SIZE`, 64 or 128).
    const LINE: u64 = 64;
    let base = fields.place(segment, "_headAndTail")?;
    let memory = fields.runtime.memory();
    let head = memory.u32(base.checked_add(LINE)?).ok()?;
    let tail = memory.u32(base.checked_add(2 * LINE)?).ok()?;
    let slots = fields.reference(segment, "_slots")?;
    let slots = memory.u32(slots.0.checked_add(8)?).ok()?;
    let frozen = fields.number(segment, "_frozenForEnqueues").is_some_and(|word| word & 0xff != 0);
    // Freezing adds twice the length to the tail.
    let tail = if frozen { tail.wrapping_sub(slots.wrapping_mul(2)) } else { tail };
    let waiting = tail.wrapping_sub(head);
    (waiting <= slots).then_some(u64::from(waiting))
}
