//! glibc's malloc, 2.26 to current, on 64 bits.
//!
//! ```text
//!  find ─► arenas ─► heaps of each ─► walk, chunk by chunk ─► caches of threads, fast bins
//!  mapped ─► blocks with a mapping of their own
//! ```

mod cache;
mod chunk;
mod find;
mod heaps;
mod mapped;
mod spans;
mod walk;

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks};

use self::cache::Caches;
use self::find::{Arenas, Layout};
use self::heaps::Heap;
use self::spans::Spans;
use crate::blocks::Classes;
use crate::kept::Kept;
use crate::parts::Parts;
use crate::read::Read;
use crate::window::Window;

/// Reads it; `None`: the process does not use it, or nothing of it was recognised.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let Arenas { layout, addresses, data } = find::arenas(image)?;
    let parameters = mapped::parameters(image, &data);
    let mut walk = Walk::new(image, layout, kept);
    for (number, &arena) in addresses.iter().enumerate() {
        let Ok(top) = image.read_u64(arena + layout.top) else {
            walk.astray(arena, "its end could not be read");
            continue;
        };
        let heaps = match number {
            // Nothing was ever taken from it.
            0 if data.contains(top) => Some(Vec::new()),
            0 => heaps::of_main(image, parameters.and_then(|known| known.start), top).map(|heap| vec![heap]),
            _ => heaps::of_other(image, layout, arena, top),
        };
        match heaps {
            Some(heaps) if heaps.iter().any(|heap| walk.has_some_of(&heap.range)) => {
                walk.astray(arena, "its memory and that of another overlap");
            }
            Some(heaps) => walk.arena(arena, top, &heaps, parts),
            None => walk.astray(arena, "its heaps could not be told apart"),
        }
    }
    let cached =
        walk.caches.count(&mut walk.window, &mut walk.classes, walk.kept, &walk.told_apart, &mut walk.left);
    let mut mapped = Vec::new();
    let expected = parameters.map(|known| known.mapped);
    let heaps: Vec<Range<u64>> = walk.heaps.into_iter().map(|(start, end)| start..end).collect();
    for piece in parts.unexplained(&heaps) {
        if expected.is_some_and(|expected| mapped.len() as u64 >= expected.count) {
            break;
        }
        mapped::find(&mut walk.window, &piece, &mut mapped);
    }
    let mut blocks = Blocks::default();
    for &(chunk, bytes) in &mapped {
        walk.kept.mapped(chunk, bytes);
        blocks.add(bytes);
        walk.classes.used(bytes);
    }
    if let Some(expected) = expected.filter(|expected| *expected != blocks) {
        walk.warnings.push(format!(
            "glibc counts {} blocks of {} bytes that have mappings of their own; {} of {} bytes were found",
            expected.count, expected.bytes, blocks.count, blocks.bytes
        ));
    }
    let whole = walk.warnings.is_empty() && walk.arenas.iter().all(|arena| arena.unknown == 0);
    let facts = AllocatorFacts {
        name: "glibc".to_owned(),
        arenas: walk.arenas,
        mapped: blocks,
        cached,
        classes: walk.classes.into_list(),
        whole,
    };
    let mut mapped: Vec<Range<u64>> = mapped.into_iter().map(|(at, bytes)| at..at + bytes).collect();
    mapped.sort_by_key(|range| range.start);
    let books = addresses.iter().take(1).map(|arena| *arena..arena.saturating_add(layout.size)).collect();
    Some(Read { facts: Some(facts), heaps, mapped, books, warnings: walk.warnings })
}

/// Going through all arenas.
struct Walk<'i, 'k> {
    image: &'i dyn Image,
    window: Window<'i>,
    layout: Layout,
    classes: Classes,
    caches: Caches,
    kept: &'k mut Kept,
    /// Blocks that were seen in use: no list of free ones can be longer.
    left: u64,
    arenas: Vec<ArenaFacts>,
    /// Ends of all heaps, by their starts. None overlaps another.
    heaps: BTreeMap<u64, u64>,
    told_apart: Spans,
    warnings: Vec<String>,
}

impl<'i, 'k> Walk<'i, 'k> {
    fn new(image: &'i dyn Image, layout: Layout, kept: &'k mut Kept) -> Self {
        Self {
            image,
            window: Window::new(image),
            layout,
            classes: Classes::default(),
            caches: Caches::default(),
            kept,
            left: 0,
            arenas: Vec::new(),
            heaps: BTreeMap::new(),
            told_apart: Spans::default(),
            warnings: Vec::new(),
        }
    }

    /// Whether some of this memory is in a heap already.
    fn has_some_of(&self, range: &Range<u64>) -> bool {
        self.heaps.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    fn astray(&mut self, arena: u64, why: &str) {
        self.warnings.push(format!("the arena at 0x{arena:x} of glibc's malloc was left out: {why}"));
    }

    fn arena(&mut self, arena: u64, top: u64, heaps: &[Heap], parts: &Parts<'_>) {
        let mut facts = ArenaFacts {
            address: Avma(arena),
            heaps: heaps.len() as u64,
            system: self.image.read_u64(arena + self.layout.system).unwrap_or_default(),
            ..ArenaFacts::default()
        };
        for heap in heaps {
            let walked =
                walk::walk(&mut self.window, heap, top, &mut self.classes, &mut self.caches, self.kept);
            for (sum, more) in [(&mut facts.used, walked.used), (&mut facts.free, walked.free)] {
                sum.count += more.count;
                sum.bytes += more.bytes;
            }
            facts.unknown += walked.unknown;
            self.told_apart.add(heap.first, walked.to);
            if heap.range.contains(&top) {
                facts.top = heap.range.end - top;
            }
            facts.resident += parts.resident(&heap.range);
            self.heaps.insert(heap.range.start, heap.range.end);
        }
        // Where the data segment cannot grow, the main arena has memory from elsewhere, and does not say where.
        let found = heaps.iter().map(|heap| heap.range.end - heap.range.start).fold(0, u64::saturating_add);
        if facts.system > found {
            self.warnings.push(format!(
                "the arena at 0x{arena:x} of glibc's malloc has {} bytes from the system, of which {found} were found",
                facts.system
            ));
        }
        self.left = self.left.saturating_add(facts.used.count);
        let fast = cache::fast(&mut self.window, arena, self.layout, &self.told_apart, &mut self.left);
        let mut sums = Blocks::default();
        fast.iter().flatten().for_each(|&(_, size)| sums.add(size));
        // They are blocks that look used, so that they are not more than these.
        let fits = sums.count <= facts.used.count && sums.bytes <= facts.used.bytes;
        match fast.filter(|_| fits) {
            Some(fast) => {
                for (chunk, size) in fast {
                    self.classes.is_cached(size);
                    self.kept.is_cached(chunk);
                }
                facts.fast = sums;
                facts.used.count -= sums.count;
                facts.used.bytes -= sums.bytes;
            }
            None => self.warnings.push(format!("the fast bins of the arena at 0x{arena:x} lead astray")),
        }
        self.arenas.push(facts);
    }
}
