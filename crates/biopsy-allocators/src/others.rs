//! Who else hands out memory in a process, and is not read.

use biopsy_image::Image;

/// The beginnings of files' names, and who it is.
const OTHERS: [(&[u8], &str); 9] = [
    (b"libjemalloc", "jemalloc"),
    (b"libmimalloc", "mimalloc"),
    (b"libtcmalloc", "tcmalloc"),
    (b"ld-musl", "malloc of musl"),
    (b"libjvm.so", "the Java virtual machine"),
    (b"libpython", "Python"),
    (b"python", "Python"),
    (b"node", "Node"),
    (b"libcoreclr.so", ".NET outside of its heap"),
];

/// A sentence for each that is loaded.
pub(crate) fn notes(image: &dyn Image) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for path in image.mappings().iter().filter_map(|mapping| mapping.path()) {
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let other = OTHERS.iter().find(|(beginning, _)| file.starts_with(beginning)).map(|(_, name)| *name);
        names.extend(other.filter(|name| !names.contains(name)));
    }
    let note = |name| {
        format!("memory that {name} hands out is not told apart: it is among what is not accounted for")
    };
    names.into_iter().map(note).collect()
}
