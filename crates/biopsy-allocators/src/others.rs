//! Who else hands out memory in a process, and is not read.

use biopsy_image::Image;
use biopsy_model::footprint::AllocatorFacts;

/// The beginnings of files' names, and who it is.
const OTHERS: [(&[u8], &str); 9] = [
    (b"libjemalloc", "jemalloc"),
    (b"libmimalloc", "mimalloc"),
    (b"libtcmalloc", "tcmalloc"),
    (b"ld-musl", "musl"),
    (b"libjvm.so", "the Java virtual machine"),
    (b"libpython", "Python"),
    (b"python", "Python"),
    (b"node", "Node"),
    (b"libcoreclr.so", ".NET outside of its heap"),
];

/// A sentence for each that is loaded and not among those that were `read`.
pub(crate) fn notes(image: &dyn Image, read: &[AllocatorFacts]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for path in image.mappings().iter().filter_map(|mapping| mapping.path()) {
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let other = OTHERS.iter().find(|(beginning, _)| file.starts_with(beginning)).map(|(_, name)| *name);
        names.extend(other.filter(|name| !names.contains(name)));
    }
    let note = |name| {
        format!("memory that {name} hands out is not told apart: it is among what is not accounted for")
    };
    let is_read = |name: &&str| read.iter().any(|facts| facts.name == *name);
    names.into_iter().filter(|name| !is_read(name)).map(note).collect()
}
