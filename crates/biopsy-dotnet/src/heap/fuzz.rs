//! Entry for fuzzing: a heap in made-up memory that the bytes damage.

use biopsy_model::Avma;

use super::synthetic::{GC, Synthetic};
use super::{Heap, HeapOptions};
use crate::graph::Graph;
use crate::runtime::ManagedThread;

/// Damages a small heap and walks it: each 6 bytes are an area, an offset in words, and what to write (a small number, an
/// address of another place, or ones). Nothing may panic; objects may not overlap; a walk may not take for ever.
pub fn fuzz_heap(bytes: &[u8]) {
    let mut memory = Synthetic::new();
    for change in bytes.as_chunks::<6>().0.iter().take(64) {
        let [area, low, high, kind, value_low, value_high] = *change;
        let areas = &memory.memory.areas;
        let Some((start, length)) =
            areas.get(usize::from(area) % areas.len()).map(|(start, bytes)| (*start, bytes.len()))
        else {
            continue;
        };
        let offset = (usize::from(u16::from_le_bytes([low, high])) * 8) % length;
        let value = u64::from(u16::from_le_bytes([value_low, value_high]));
        let place = areas.get(usize::from(kind >> 4) % areas.len()).map_or(0, |(start, _)| *start);
        let value = match kind & 3 {
            0 => value,
            1 => place + value * 8,
            2 => !value,
            _ => value << 32 | value,
        };
        memory.put(start + offset as u64, value);
    }
    let Ok(heap) = Heap::of(&memory, Avma(GC), vec![thread()]) else { return };
    let options = HeapOptions { threads: 1, spill: None };
    let Ok((mut graph, mut problems)) = heap.walk(&options) else { return };
    check(&graph);
    if heap.find_live(&mut graph, &mut problems).is_ok() {
        let _ = graph.by_type();
    }
}

/// A thread that has room for objects in the middle of the youngest generation.
pub(super) fn thread() -> ManagedThread {
    let start = super::synthetic::YOUNG;
    ManagedThread {
        address: Avma(0),
        id: 1,
        os_id: 0,
        own_os_id: 0,
        state: 0,
        cooperative: false,
        dead: false,
        background: false,
        pool_worker: false,
        finalizer: false,
        name: None,
        object: None,
        last_thrown: None,
        current_exception: None,
        frame: Avma(0),
        allocation: (Avma(start + 0x20), Avma(start + 0x100 - 24)),
    }
}

fn check(graph: &Graph) {
    let mut end = Avma(0);
    for object in graph.objects() {
        assert!(object.address >= end, "objects overlap at {}", object.address);
        end = Avma(object.address.0.saturating_add(object.size));
        assert_eq!(graph.find(object.address), Some(object.index));
    }
}
