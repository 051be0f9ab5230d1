//! Entry point for fuzzing: a made-up program with an arena of malloc, objects of C++, and small objects of CPython, changed as the bytes say.
//! Any panic and any unbounded work is a bug. A test reads the same program as it is.

mod file;
mod program;

use biopsy_allocators::UsedBlock;
use biopsy_model::Avma;

pub use program::Program;

use crate::{NativeHeap, read};

/// Bytes of one change.
const CHANGE: usize = 5;
/// Changes of one program.
const CHANGES: usize = 256;
/// Blocks and objects that are read.
const MOST: usize = 10_000;
/// Blocks that nobody has, besides.
const FALSE_BLOCKS: usize = 8;

/// Reads the blocks of a made-up program. The first byte says of how many blocks that nobody has the next ones tell (where, and how large), the
/// rest changes words.
///
/// # Panics
/// When what is read does not fit together.
pub fn fuzz_blocks(bytes: &[u8]) {
    let Some((&count, mut bytes)) = bytes.split_first() else { return };
    let (mut program, own) = Program::new();
    let mut claimed = Vec::new();
    for _ in 0..usize::from(count) % FALSE_BLOCKS {
        let Some((&[low, high, size, shift], rest)) = bytes.split_first_chunk::<4>() else { break };
        let start = program.address(u16::from_le_bytes([low, high]).into());
        claimed.push(UsedBlock { start: Avma(start), size: u64::from(size) << (shift % 64) });
        bytes = rest;
    }
    for &[low, high, how, by, more] in bytes.as_chunks::<CHANGE>().0.iter().take(CHANGES) {
        program.change(u16::from_le_bytes([low, high]).into(), how, u16::from_le_bytes([by, more]));
    }
    let memory = biopsy_allocators::with_blocks(&program, &[], MOST);
    // Most changes of the arena make it none; its blocks are there for all that.
    let mut blocks = memory.blocks.unwrap_or(own);
    blocks.extend(claimed);
    let heap = read(&program, blocks, &memory.areas, &Default::default(), MOST).expect("nothing is spilled");
    fits_together(&heap);
}

/// Everything is held or lost, and blocks do not overlap.
fn fits_together(heap: &NativeHeap) {
    let (all, live) = heap.graph.totals();
    assert_eq!(live, Some(all), "what is lost has a root too");
    assert!(heap.graph.len() <= 2 * MOST, "more blocks than allowed");
    let mut end = 0;
    for object in heap.graph.objects() {
        assert!(object.address.0 >= end, "blocks overlap at {}", object.address);
        end = object.address.0.saturating_add(object.size);
        assert!(heap.graph.type_of(object.of).is_some(), "{} is of no type", object.address);
    }
    for root in heap.graph.roots() {
        assert!((root.object.0 as usize) < heap.graph.len(), "{root:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Names of types with their objects, and of roots.
    fn found(heap: &NativeHeap) -> (BTreeMap<String, usize>, BTreeSet<String>) {
        let mut types = BTreeMap::new();
        for object in heap.graph.objects() {
            let of = heap.graph.type_of(object.of).expect("it has one");
            *types.entry(of.name.clone()).or_default() += 1;
        }
        let names = heap.graph.roots().iter().filter_map(|root| heap.graph.static_at(root.address));
        (types, names.map(|(_, name)| name.to_owned()).collect())
    }

    #[test]
    fn a_made_program_is_told_as_it_was_made() {
        let (program, own) = Program::new();
        let memory = biopsy_allocators::with_blocks(&program, &[], MOST);
        let blocks = memory.blocks.expect("glibc is understood");
        assert!(own.iter().all(|block| blocks.contains(block)), "{own:#x?} {blocks:#x?}");
        let heap =
            read(&program, blocks, &memory.areas, &Default::default(), MOST).expect("nothing is spilled");
        fits_together(&heap);
        let (types, names) = found(&heap);
        assert_eq!(heap.facts.runtime, "CPython 3.11.7");
        for (name, count) in [
            ("Session", 2),
            ("Row (shared)", 1),
            ("text", 1),
            ("array of pointers", 2),
            ("module", 1),
            ("dict", 1),
            ("dict entries", 1),
            ("list", 1),
            ("list items", 1),
            ("type", 1),
            ("Invoice", 2),
            ("str", 3),
            ("free object", 1),
        ] {
            assert_eq!(types.get(name), Some(&count), "{name}: {types:#?}");
        }
        let of_free = heap
            .graph
            .objects()
            .find(|object| heap.graph.type_of(object.of).is_some_and(|of| of.name == "free object"));
        let referred =
            heap.graph.references(of_free.expect("it is there").index).expect("nothing is spilled");
        assert_eq!(referred.len(), 0, "it holds nothing");
        for name in ["global sessions", "static app.CACHE", "static Invoice.printed", "lost"] {
            assert!(names.contains(name), "{name}: {names:#?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_changes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_blocks(&bytes);
        }
    }
}
