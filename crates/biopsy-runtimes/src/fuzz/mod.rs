//! Entry point for fuzzing: small made-up images of Go, Python, Java and Node.js processes, changed as the bytes say, through every reader of
//! this crate. Any panic and any unbounded work is a bug. Tests read the same images as they are.

mod go_heap;
mod go_image;
mod java_heap;
mod java_image;
mod made_image;
pub(crate) mod made_module;
mod node_image;
mod python_image;

pub use go_heap::go_heap_image;
pub use go_image::go_image;
pub use java_heap::JavaHeapPlaces;
pub use java_image::{JavaPlaces, java_image};
pub use made_image::MadeImage;
pub use node_image::node_image;
pub use python_image::python_image;

use rustc_hash::FxHashMap;

use biopsy_model::footprint::RuntimeHeap;

use crate::{
    Holder, Limits, Memory, Module, RuntimeStrands, Strand, StrandId, StrandState, go, jvm, node, python,
    read_heaps,
};

/// Bytes of one change.
const CHANGE: usize = 4;
/// Changes of one image.
const CHANGES: usize = 256;

/// Reads a made-up image. The first byte says of which runtime, the second of which version, then each four bytes change a word: which
/// (two bytes), how, and by what.
pub fn fuzz_strands(bytes: &[u8]) {
    let Some(([which, minor], changes)) = bytes.split_first_chunk::<2>() else { return };
    let mut image = match which % 4 {
        0 => go_image(19 + u32::from(minor % 8)),
        1 => python_image(8 + u32::from(minor % 6)),
        2 => java_image(u64::from(minor % 8)).0,
        _ => node_image(u64::from(minor % 8)).0,
    };
    for [low, high, how, by] in changes.as_chunks::<CHANGE>().0.iter().take(CHANGES) {
        image.change(u16::from_le_bytes([*low, *high]).into(), *how, *by);
    }
    for runtime in read(&image) {
        fits_together(&runtime);
        assert!(runtime.strands.len() <= Limits::small().strands, "more strands than allowed");
        let frames: usize = runtime.strands.iter().map(|strand| strand.frames.len()).sum();
        // What was inlined into the last frame still counts to it, and tasks have frames of their own.
        assert!(frames <= Limits::small().frames * 65, "more frames than allowed");
    }
}

/// Reads the heap of a made-up image, with the same meaning of the bytes; the first says whether it is of Go or of Java.
pub fn fuzz_heaps(bytes: &[u8]) {
    let Some(([which, minor], changes)) = bytes.split_first_chunk::<2>() else { return };
    let mut image = match which % 2 {
        0 => go_heap_image(19 + u32::from(minor % 8)),
        _ => {
            let (mut image, places) = java_image(1);
            image.word(places.heap.collectors[usize::from(minor % 3)], 1);
            image
        }
    };
    for [low, high, how, by] in changes.as_chunks::<CHANGE>().0.iter().take(CHANGES) {
        image.change(u16::from_le_bytes([*low, *high]).into(), *how, *by);
    }
    for heap in read_heaps(&image, None, &Limits::small()) {
        heap_fits_together(&heap);
    }
}

/// Areas are by address, in no other one, and of pools that there are.
///
/// # Panics
/// When they are not.
pub fn heap_fits_together(heap: &RuntimeHeap) {
    assert!(heap.areas.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start), "{heap:#x?}");
    for area in &heap.areas {
        assert!(area.range.start < area.range.end && area.pool < heap.memory.pools.len(), "{heap:#x?}");
        assert!(area.used <= area.range.end - area.range.start, "{heap:#x?}");
    }
    assert!(
        !heap.memory.pools.is_empty() || !heap.warnings.is_empty(),
        "neither read nor said why: {heap:?}"
    );
}

/// What is said of strands is about strands that are there.
///
/// # Panics
/// When it is not.
pub fn fits_together(runtime: &RuntimeStrands) {
    let strands: FxHashMap<StrandId, &Strand> =
        runtime.strands.iter().map(|strand| (strand.id, strand)).collect();
    assert_eq!(strands.len(), runtime.strands.len(), "each strand has an id of its own: {runtime:#?}");
    for strand in &runtime.strands {
        let Some(wait) = &strand.wait else { continue };
        assert_ne!(strand.state, StrandState::Running, "it waits, and runs: {strand:#?}");
        for owner in &wait.owners {
            let Holder::Strand(id) = owner.holder else { continue };
            let holder = strands.get(&id).unwrap_or_else(|| panic!("the owner is not there: {runtime:#?}"));
            assert!(owner.frame.is_none_or(|frame| frame < holder.frames.len()), "{owner:?} of {holder:#?}");
        }
    }
    let holder = runtime.interpreter_lock.as_ref().and_then(|lock| lock.holder);
    assert!(
        holder.is_none_or(|id| strands.contains_key(&id)),
        "who has the interpreter is not there: {runtime:#?}"
    );
}

/// All strands of a made-up image.
#[must_use]
pub fn read(image: &MadeImage) -> Vec<RuntimeStrands> {
    let limits = Limits::small();
    let memory = Memory::new(image, None, limits.cached_bytes);
    let mut found = Vec::new();
    for module in Module::all(image) {
        found.extend(go::read(&memory, &module, &limits));
        let python = image.python.as_ref().map(|(runtime, minor)| python::Version::made(*runtime, *minor));
        found.extend(jvm::read(&memory, &module, &limits));
        found.extend(node::read(&memory, &module, &limits));
        found.extend(python.and_then(|version| python::read_version(&memory, &module, &limits, version)));
    }
    found
}
