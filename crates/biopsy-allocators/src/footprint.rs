//! All memory of a process, by what it is for.

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::{
    AllocatorFacts, Footprint, FootprintPart, MemoryKind, RuntimeArea, RuntimeHeap, RuntimeMemory,
};

use crate::kept::{Kept, UsedBlock};
use crate::others;
use crate::parts::{Parts, merged, overlap, without};
use crate::readers::Found;

/// Memory that managed runtimes have.
#[derive(Default, Debug)]
pub struct Managed<'a> {
    /// Heaps as a whole, by address.
    pub heaps: &'a [Range<u64>],
    /// Runtimes that are known by pools.
    pub runtimes: Vec<RuntimeHeap>,
}

/// Tells what the memory of an image is for. `managed`: the parts of it that managed runtimes have for their heaps, by address.
#[must_use]
pub fn footprint(image: &dyn Image, managed: &[Range<u64>]) -> Footprint {
    with_runtimes(image, Managed { heaps: managed, runtimes: Vec::new() }, 0).footprint
}

/// The same with runtimes that are known by pools; and all blocks that are in use, up to `most`, 0: none are wanted.
#[must_use]
pub fn with_runtimes(image: &dyn Image, managed: Managed<'_>, most: usize) -> NativeMemory {
    read(image, managed, if most > 0 { Kept::up_to(most) } else { Kept::default() })
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
    read(image, Managed { heaps: managed, runtimes: Vec::new() }, Kept::up_to(most))
}

fn read(image: &dyn Image, managed: Managed<'_>, kept: Kept) -> NativeMemory {
    let Managed { heaps, runtimes } = managed;
    let mut claimed = heaps.to_vec();
    claimed.extend(runtimes.iter().flat_map(|one| &one.areas).map(|area| area.range.clone()));
    let parts = Parts::of(image, &claimed);
    let read = Found::in_image(image, &parts, kept);
    // Of what both a runtime and an allocator say to have, arenas are known block by block.
    let taken = merged(read.heaps.iter().chain(&read.mapped).cloned().collect());
    let managed = without(&parts.managed, &taken);
    let mut sums = Sums::default();
    let mut warnings = Vec::new();
    let pooled = Pooled::of(&parts, heaps, &taken, runtimes, &mut sums, &mut warnings);
    // What is in a pool is of the pool's kind.
    let by_kind = without(&managed, &pooled.memory);
    let mut of_arenas: u64 = 0;
    for part in parts.iter() {
        let range = [part.mapping.range()];
        let (mut resident, mut reserved) = (part.resident(), part.mapping.size());
        of_arenas = of_arenas.saturating_add(overlap(&read.heaps, &range));
        for (of, kind) in [
            (&by_kind, Some(MemoryKind::ManagedHeap)),
            (&pooled.memory, None),
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
    warnings.extend(parts.warnings);
    if managed != parts.managed {
        warnings.push(
            "memory of a managed heap is said to be of an allocator as well, and counts as that".to_owned(),
        );
    }
    warnings.extend(read.warnings);
    let allocators = read.allocators;
    warnings.extend(others::notes(image, &allocators, &pooled.runtimes));
    sums.add_arenas(&allocators, of_arenas);
    let footprint = Footprint {
        pid: image.process().pid,
        parts: sums.into_list(),
        allocators,
        runtimes: pooled.runtimes,
        warnings,
        ..Footprint::default()
    };
    let mut areas = read.heaps;
    areas.extend(read.mapped);
    areas.extend(read.books);
    areas.sort_unstable_by_key(|range| range.start);
    NativeMemory { footprint, blocks: read.blocks, areas }
}

/// What runtimes have by pools.
#[derive(Default)]
pub(crate) struct Pooled {
    /// All of it, by address.
    pub(crate) memory: Vec<Range<u64>>,
    pub(crate) runtimes: Vec<RuntimeMemory>,
}

impl Pooled {
    /// Adds what of each area is in memory to its pool and to the sums; what is in use of an area is taken to be in memory as far as the
    /// area is. Memory that is in `heaps` or `taken`, or in a runtime before, is not given again.
    fn of(
        parts: &Parts<'_>,
        heaps: &[Range<u64>],
        taken: &[Range<u64>],
        runtimes: Vec<RuntimeHeap>,
        sums: &mut Sums,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut pooled = Self::default();
        let mut given = merged(heaps.iter().chain(taken).cloned().collect());
        for RuntimeHeap { mut memory, areas, warnings: more } in runtimes {
            warnings.extend(more);
            if memory.pools.is_empty() {
                continue;
            }
            let areas: Vec<RuntimeArea> =
                areas.into_iter().filter(|area| area.pool < memory.pools.len()).collect();
            for area in &areas {
                let Some(pool) = memory.pools.get_mut(area.pool) else { continue };
                let mut left = area.used;
                for piece in without(std::slice::from_ref(&area.range), &given) {
                    let (resident, reserved) = (parts.resident(&piece), parts.reserved(&piece));
                    let (used, addresses) = (left.min(resident), left.min(reserved));
                    left -= addresses.max(used);
                    pool.resident = pool.resident.saturating_add(resident);
                    pool.reserved = pool.reserved.saturating_add(reserved);
                    sums.add(pool.kind.clone(), used, addresses);
                    sums.add(MemoryKind::ManagedFree, resident - used, reserved - addresses);
                }
            }
            let own = merged(areas.into_iter().map(|area| area.range).collect());
            pooled.memory.extend(without(&own, &given));
            given = merged(given.into_iter().chain(own).collect());
            pooled.runtimes.push(memory);
        }
        pooled.memory = merged(pooled.memory);
        pooled
    }
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

    /// Blocks in use are taken to be in memory as far as their arenas are: who allocates writes. `addresses`: of all arenas, which is not
    /// always what these say of themselves.
    fn add_arenas(&mut self, allocators: &[AllocatorFacts], mut addresses: u64) {
        let mut take = |wanted: u64| {
            let taken = wanted.min(addresses);
            addresses -= taken;
            taken
        };
        let mut elsewhere: u64 = 0;
        for allocator in allocators {
            let sum = |of: fn(&biopsy_model::footprint::ArenaFacts) -> u64| {
                allocator.arenas.iter().map(of).fold(0, u64::saturating_add)
            };
            let resident = sum(|arena| arena.resident);
            let unknown = sum(|arena| arena.unknown).min(resident);
            let used = sum(|arena| arena.used.bytes).saturating_sub(allocator.cached.bytes);
            let allocated = used.min(resident - unknown);
            let free = resident - unknown - allocated;
            for (kind, bytes) in [
                (MemoryKind::Allocated, allocated),
                (MemoryKind::AllocatorFree, free),
                (MemoryKind::Unaccounted, unknown),
            ] {
                self.add(kind, bytes, take(bytes));
            }
            elsewhere = elsewhere.saturating_add(used - allocated);
        }
        // Of addresses that are not in memory, those of blocks in use, and the others.
        self.add(MemoryKind::Allocated, 0, take(elsewhere));
        self.add(MemoryKind::AllocatorFree, 0, take(u64::MAX));
    }

    fn into_list(mut self) -> Vec<FootprintPart> {
        self.parts.sort_by_key(|part| std::cmp::Reverse(part.resident));
        self.parts
    }
}
