//! Roots on stacks and in registers, conservatively: each word that points into an object counts.
//!
//! Exact roots would need the collector's own descriptions of each frame (GC info). A word that is left over from an earlier
//! call, or a number that happens to look like an address, keeps an object alive here that the collector would take; never the
//! other way round. Such roots say that they are of a stack.

use biopsy_image::{Image, mapping};
use biopsy_model::Avma;

use super::found_roots::{Found, words};
use crate::graph::{Graph, ObjectIndex, Root, RootKind};
use crate::runtime::ManagedThread;

/// Bytes below the stack pointer that a leaf function may use (System V ABI).
const RED_ZONE: u64 = 128;
/// Most bytes of one stack. The usual limit is 8 MiB, main threads may have more.
const MOST_BYTES: u64 = 256 << 20;

pub(super) fn find(image: &dyn Image, threads: &[ManagedThread], graph: &Graph, found: &mut Found) {
    let mut without = 0u32;
    for thread in threads.iter().filter(|thread| thread.os_id != 0 && !thread.dead) {
        let of_image = image.threads().iter().find(|one| one.tid.0 == thread.os_id);
        let Some(registers) = of_image.and_then(|one| one.registers) else {
            without += 1;
            continue;
        };
        let mut add = |address: u64, value: u64| {
            let holder = graph.find_holder(Avma(value));
            if let Some((object, is_start)) = holder.filter(|(object, _)| !is_free(graph, *object)) {
                let root = Root {
                    kind: RootKind::Stack,
                    address: Avma(address),
                    object,
                    is_interior: !is_start,
                    thread: thread.os_id,
                };
                found.roots.push(root);
            }
        };
        registers.to_words().into_iter().for_each(|value| add(0, value));
        let low = registers.rsp.saturating_sub(RED_ZONE) & !7;
        let Some(stack) = mapping::find(image.mappings(), registers.rsp) else { continue };
        let low = low.max(stack.start);
        words(image, low, stack.end.saturating_sub(low).min(MOST_BYTES), add);
    }
    if without > 0 {
        found.missing(format!(
            "{without} threads have no registers: what only their stacks hold may count as garbage"
        ));
    }
}

/// Whether it is a gap: what once was there left words behind.
fn is_free(graph: &Graph, object: ObjectIndex) -> bool {
    let of = graph.object(object).and_then(|object| graph.type_of(object.of));
    of.is_none_or(|of| of.is_free)
}
