//! musl's malloc since 1.2.1 (mallocng), on x86-64.
//!
//! ```text
//!  context ─► areas of metas ─► groups, checked against each other ─► slots of each
//!  old ─► the malloc of 1.2.0 and before, which is only told
//! ```
//!
//! Groups of slots of one size are described by metas, which lie by themselves: a group's first word leads to its meta, the meta
//! leads to the group. Small groups are in a slot of a larger one. Layouts are those of `src/malloc/mallocng/meta.h` of musl; they are
//! the same from 1.2.1 to 1.2.5.

mod context;
mod group;
mod made;
mod old;
mod slots;
mod walk;

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts};

use self::context::{AREA_BYTES, CONTEXT_BYTES, Found};
use self::walk::Walk;
use crate::kept::Kept;
use crate::parts::{Parts, merged};
use crate::read::Read;

/// Reads it; `None`: the process does not use it.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let refused = |why: &str| {
        let sentence = format!("malloc of musl is not read: {why}; what it hands out is not accounted for");
        Some(Read { warnings: vec![sentence], ..Read::default() })
    };
    let context = match context::find(image)? {
        Found::Context(context) => context,
        Found::Old => return refused("it is that of musl 1.2.0 or before"),
    };
    let Some(groups) = group::all(image, &context) else {
        return refused("it has more groups of blocks than are gone through");
    };
    let sound = groups.sound.len();
    let mut walk = Walk::new(image, kept);
    walk.all(&context, &groups.sound);
    if walk.groups == 0 && sound as u64 + groups.broken > 0 {
        return refused("none of its groups of blocks is what it must be");
    }
    let mut warnings = Vec::new();
    let left_out = groups.broken.saturating_add((sound as u64).saturating_sub(walk.groups));
    if left_out > 0 {
        warnings.push(format!(
            "{left_out} of {} groups of blocks of musl's malloc were left out: they and their bookkeeping do not lead to each other",
            groups.broken.saturating_add(sound as u64)
        ));
    }
    for (class, (&counted, &found)) in context.usage.iter().zip(&walk.slots).enumerate() {
        if counted != found {
            let bytes = group::class_bytes(class).unwrap_or_default();
            warnings.push(format!(
                "malloc of musl counts {counted} places for blocks of {bytes} bytes; {found} were found"
            ));
        }
    }
    // Threads may be in the middle of taking a block or giving it back.
    let torn = walk.torn > image.threads().len().max(1) as u64;
    if torn {
        warnings
            .push(format!("of {} blocks of musl's malloc the heads are not what they must be", walk.torn));
    }
    let areas = context.areas.iter().map(|&at| at..at.saturating_add(AREA_BYTES));
    let heaps = merged(walk.heaps.into_iter().chain(areas).collect());
    let resident = heaps.iter().map(|range| parts.resident(range)).fold(0, u64::saturating_add);
    let system = heaps.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    let arena = ArenaFacts {
        address: Avma(context.address),
        heaps: heaps.len() as u64,
        system,
        resident,
        used: walk.used,
        free: walk.free,
        unknown: walk.unknown,
        ..ArenaFacts::default()
    };
    let facts = AllocatorFacts {
        name: "musl".to_owned(),
        arenas: vec![arena],
        mapped: walk.mapped_blocks,
        classes: walk.classes.into_list(),
        whole: warnings.is_empty(),
        ..AllocatorFacts::default()
    };
    Some(Read {
        facts: Some(facts),
        heaps,
        mapped: walk.mapped,
        books: std::iter::once(context.address..context.address.saturating_add(CONTEXT_BYTES)).collect(),
        warnings,
    })
}
