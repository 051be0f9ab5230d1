//! What managed runtimes have for their heaps, and what of it is in use: all runtimes of an image that are read.

use biopsy_image::Image;
use biopsy_model::footprint::RuntimeHeap;

use crate::{Limits, Memory, MissingFiles, Module, go, jvm};

/// Finds the runtimes of an image and reads what their memory is for. A runtime that is there and is not understood is a warning, in a
/// heap without pools.
#[must_use]
pub fn read_heaps(image: &dyn Image, files: Option<&dyn MissingFiles>, limits: &Limits) -> Vec<RuntimeHeap> {
    let memory = Memory::new(image, files, limits.cached_bytes);
    let mut found = Vec::new();
    for module in Module::all(image) {
        found.extend(go::read_heap(&memory, &module, limits));
        found.extend(jvm::read_heap(&memory, &module, limits));
    }
    found
}
