//! What the memory of HotSpot is for: the Java heap by the spaces of its collector, metaspace, the code cache, the card table.
//!
//! ```text
//! tables ─┬─► Universe::_collectedHeap ─► spaces (Serial, Parallel, G1)
//!         ├─► CodeCache::_heaps ─► code
//!         └─► BarrierSet::_barrier_set ─► card table
//! variables of libjvm ─► contexts of metaspace ─► metaspace
//! ```

mod code;
mod found;
mod metaspace;
mod spaces;
#[cfg(test)]
mod tests;

use std::ops::Range;

use biopsy_model::footprint::{MemoryKind, RuntimeHeap};
use found::Found;

use super::vm::Opened;
use crate::areas::ordered;
use crate::{Limits, Memory, Module};

/// What the virtual machine in this module has; `None` when there is none.
#[must_use]
pub fn read_heap(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeHeap> {
    let mut heap = RuntimeHeap::default();
    "Java".clone_into(&mut heap.memory.name);
    let opened = match Opened::read(memory, module)? {
        Ok(opened) => opened,
        Err(refused) => {
            heap.warnings
                .push(format!("memory of the Java virtual machine: not read, because {}", refused.why));
            return Some(heap);
        }
    };
    let mut found = Found { memory, tables: &opened.tables, heap };
    let collector = spaces::read(&mut found, &opened.flags);
    let warn = |why: &str, what: &str| format!("{what}: not read, because {why}");
    // Without what its packager adds: `17.0.15+6-Debian-1deb12u1`.
    let version = opened.version.split(['+', '-']).next().unwrap_or_default();
    let name = match collector {
        Ok(collector) => format!("Java {version} ({collector})"),
        Err(why) => {
            found.heap.warnings.push(warn(&why, "Java heap"));
            format!("Java {version}")
        }
    };
    if let Err(why) = metaspace::read(&mut found, module, limits) {
        found.heap.warnings.push(warn(why, "metaspace"));
    }
    if code::read(&mut found).is_none() {
        found.heap.warnings.push(warn("its heaps were not found", "code cache"));
    }
    if let Some(table) = card_table(&found) {
        found.whole("card table", MemoryKind::RuntimeData, table);
    }
    let mut heap = found.heap;
    heap.memory.name = name;
    heap.memory.whole = heap.warnings.is_empty();
    heap.areas = ordered(heap.areas);
    Some(heap)
}

/// What the collectors say by cards which memory was written.
fn card_table(found: &Found<'_>) -> Option<Range<u64>> {
    let barriers = found.memory.pointer(found.tables.variable("BarrierSet", "_barrier_set")?)?;
    let table = found.word(barriers, "CardTableBarrierSet", "_card_table")?;
    let start = found.word(table, "CardTable", "_byte_map")?;
    let bytes = found.word(table, "CardTable", "_byte_map_size")?;
    // A card is 128 bytes or more.
    let range = start..start.checked_add(bytes)?;
    (range.start > 0 && range.start < range.end && range.end < 1 << 47).then_some(range)
}
