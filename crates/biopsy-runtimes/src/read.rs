//! All runtimes of an image.

use biopsy_image::Image;

use crate::{Limits, Memory, MissingFiles, Module, RuntimeStrands, go, jvm, node, python};

/// Finds the runtimes of an image and reads their strands. `files`: what a dump left out of mapped files. A process may have
/// several (a Python program with a library in Go).
#[must_use]
pub fn read_strands(
    image: &dyn Image,
    files: Option<&dyn MissingFiles>,
    limits: &Limits,
) -> Vec<RuntimeStrands> {
    let memory = Memory::new(image, files, limits.cached_bytes);
    let mut found = Vec::new();
    for module in Module::all(image) {
        found.extend(go::read(&memory, &module, limits));
        found.extend(python::read(&memory, &module, limits));
        found.extend(jvm::read(&memory, &module, limits));
        found.extend(node::read(&memory, &module, limits));
    }
    found
}
