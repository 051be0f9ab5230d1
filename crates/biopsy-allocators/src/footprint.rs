//! All memory of a process, by what it is for.

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::{AllocatorFacts, Footprint, FootprintPart, MemoryKind};

use crate::kept::{Kept, UsedBlock};
use crate::others;
use crate::parts::{Parts, overlap};
use crate::readers::Found;

/// Tells what the memory of an image is for. `managed`: the parts of it that managed runtimes have for their heaps, by address.
#[must_use]
pub fn footprint(image: &dyn Image, managed: &[Range<u64>]) -> Footprint {
    read(image, managed, Kept::default()).footprint
}

/// What the memory of a process is for, and the blocks of native code.
#[derive(Debug)]
pub struct NativeMemory {
    /// What it is for.
    pub footprint: Footprint,
    /// The blocks in use, by address; `None`: no allocator was understood, or there are too many.
    pub blocks: Option<Vec<UsedBlock>>,
    /// Memory that the allocators have, used and free, and their bookkeeping in data of modules, by address.
    pub areas: Vec<Range<u64>>,
}

/// The same, with all blocks that are in use, up to `most`.
#[must_use]
pub fn with_blocks(image: &dyn Image, managed: &[Range<u64>], most: usize) -> NativeMemory {
    read(image, managed, Kept::up_to(most))
}

fn read(image: &dyn Image, managed: &[Range<u64>], kept: Kept) -> NativeMemory {
    let parts = Parts::of(image, managed);
    let read = Found::in_image(image, &parts, kept);
    let mut sums = Sums::default();
    for part in parts.iter() {
        let range = [part.mapping.range()];
        let (mut resident, mut reserved) = (part.resident(), part.mapping.size());
        for (of, kind) in [
            (managed, Some(MemoryKind::ManagedHeap)),
            (&read.mapped, Some(MemoryKind::Allocated)),
            // What is used and free in them is known by block.
            (&read.heaps, None),
        ] {
            let (here, addresses) = (overlap(of, &part.runs), overlap(of, &range));
            resident = resident.saturating_sub(here);
            reserved = reserved.saturating_sub(addresses);
            if let Some(kind) = kind {
                sums.add(kind, here, addresses);
            }
        }
        sums.add(part.kind.clone(), resident, reserved);
    }
    let mut warnings = parts.warnings;
    warnings.extend(read.warnings);
    let allocators = read.allocators;
    warnings.extend(others::notes(image, &allocators));
    for allocator in &allocators {
        sums.add_arenas(allocator);
    }
    let footprint = Footprint {
        pid: image.process().pid,
        parts: sums.into_list(),
        allocators,
        warnings,
        ..Footprint::default()
    };
    let mut areas = read.heaps;
    areas.extend(read.mapped);
    areas.extend(read.books);
    areas.sort_unstable_by_key(|range| range.start);
    NativeMemory { footprint, blocks: read.blocks, areas }
}

/// Memory by kind.
#[derive(Default)]
struct Sums {
    parts: Vec<FootprintPart>,
}

impl Sums {
    fn add(&mut self, kind: MemoryKind, resident: u64, reserved: u64) {
        if resident == 0 && reserved == 0 {
            return;
        }
        let at = self.parts.iter().position(|part| part.kind == kind).unwrap_or_else(|| {
            self.parts.push(FootprintPart { kind, ..FootprintPart::default() });
            self.parts.len() - 1
        });
        if let Some(part) = self.parts.get_mut(at) {
            part.resident = part.resident.saturating_add(resident);
            part.reserved = part.reserved.saturating_add(reserved);
        }
    }

    /// Blocks in use are taken to be in memory as far as their arenas are: who allocates writes.
    fn add_arenas(&mut self, allocator: &AllocatorFacts) {
        let sum = |of: fn(&biopsy_model::footprint::ArenaFacts) -> u64| {
            allocator.arenas.iter().map(of).fold(0, u64::saturating_add)
        };
        let (system, resident) = (sum(|arena| arena.system), sum(|arena| arena.resident));
        let unknown = sum(|arena| arena.unknown).min(resident);
        let used = sum(|arena| arena.used.bytes).saturating_sub(allocator.cached.bytes);
        let allocated = used.min(resident - unknown);
        self.add(MemoryKind::Allocated, allocated, used);
        self.add(MemoryKind::AllocatorFree, resident - unknown - allocated, system.saturating_sub(used));
        self.add(MemoryKind::Unaccounted, unknown, 0);
    }

    fn into_list(mut self) -> Vec<FootprintPart> {
        self.parts.sort_by_key(|part| std::cmp::Reverse(part.resident));
        self.parts
    }
}
