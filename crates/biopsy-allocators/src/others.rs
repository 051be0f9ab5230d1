//! Who else hands out memory in a process, and is not read.

use biopsy_image::Image;
use biopsy_model::footprint::{AllocatorFacts, RuntimeMemory};

/// How the name of a file goes on behind its beginning.
#[derive(Clone, Copy)]
enum Rest {
    /// In any way: libraries have versions and variants.
    Any,
    /// With a version, or not at all: `python3.11` and `node` are what they say, `node_exporter` is not.
    Version,
}

/// It has memory beside that of malloc.
const JAVA: &str = "the Java virtual machine";

/// The beginnings of files' names, and who it is.
const OTHERS: [(&[u8], Rest, &str); 10] = [
    (b"libjemalloc", Rest::Any, "jemalloc"),
    (b"libmimalloc", Rest::Any, "mimalloc"),
    (b"libtcmalloc", Rest::Any, "tcmalloc"),
    (b"ld-musl", Rest::Any, "musl"),
    (b"libjvm.so", Rest::Any, JAVA),
    (b"libpython", Rest::Any, "Python"),
    (b"python", Rest::Version, "Python"),
    (b"nodejs", Rest::Version, "Node"),
    (b"node", Rest::Version, "Node"),
    (b"libcoreclr.so", Rest::Any, ".NET outside of its heap"),
];

/// Whether a file of this name has this beginning and goes on in this way.
fn is_of(file: &[u8], beginning: &[u8], rest: Rest) -> bool {
    let Some(behind) = file.strip_prefix(beginning) else { return false };
    match rest {
        Rest::Any => true,
        Rest::Version => behind.first().is_none_or(|byte| byte.is_ascii_digit() || *byte == b'.'),
    }
}

/// A sentence for each that is loaded and not among those that were `read`.
pub(crate) fn notes(image: &dyn Image, read: &[AllocatorFacts], runtimes: &[RuntimeMemory]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for path in image.mappings().iter().filter_map(|mapping| mapping.path()) {
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let other = OTHERS.iter().find(|(beginning, rest, _)| is_of(file, beginning, *rest));
        let other = other.map(|(_, _, name)| *name);
        names.extend(other.filter(|name| !names.contains(name)));
    }
    let note = |name| {
        format!("memory that {name} hands out is not told apart: it is among what is not accounted for")
    };
    let has_java = runtimes.iter().any(|runtime| runtime.name.starts_with("Java"));
    let is_read = |name: &&str| read.iter().any(|facts| facts.name == *name) || has_java && *name == JAVA;
    names.into_iter().filter(|name| !is_read(name)).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(file: &[u8]) -> Option<&'static str> {
        OTHERS.iter().find(|(beginning, rest, _)| is_of(file, beginning, *rest)).map(|(_, _, name)| *name)
    }

    #[test]
    fn files_are_known_by_their_names() {
        for (file, name) in [
            ("libjemalloc.so.2", Some("jemalloc")),
            ("libmimalloc-secure.so.2.1", Some("mimalloc")),
            ("libtcmalloc_minimal.so.4", Some("tcmalloc")),
            ("ld-musl-x86_64.so.1", Some("musl")),
            ("libjvm.so", Some("the Java virtual machine")),
            ("libpython3.11.so.1.0", Some("Python")),
            ("python", Some("Python")),
            ("python3", Some("Python")),
            ("python3.11", Some("Python")),
            ("python3.13t", Some("Python")),
            ("node", Some("Node")),
            ("node18", Some("Node")),
            ("nodejs", Some("Node")),
            ("libcoreclr.so", Some(".NET outside of its heap")),
            // Programs of other languages that are called after what they look after.
            ("node_exporter", None),
            ("node-problem-detector", None),
            ("nodetool", None),
            ("pythonista", None),
            ("python-agent", None),
            ("libjava.so", None),
            ("xlibjemalloc.so", None),
            ("", None),
        ] {
            assert_eq!(who(file.as_bytes()), name, "{file}");
        }
    }
}
