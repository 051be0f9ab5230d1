//! Go: packages of its standard library, and modules that were downloaded.

use super::Whose;

/// Packages of the standard library, by their first part.
#[rustfmt::skip]
const STANDARD: &[&str] = &[
    "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed",
    "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter",
    "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort",
    "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe",
    "vendor", "weak",
];

/// Those that are how a program runs and waits.
const PLUMBING: &[&str] = &["context", "internal", "runtime", "sync", "syscall", "time", "unsafe"];

/// Where other people's modules lie: the module cache, and copies of it. A path in it has the version: `gin@v1.9.1/context.go`.
const DOWNLOADED: &[&str] = &["/pkg/mod/", "/vendor/", "@v"];

pub(super) fn whose(name: &str, file: &str) -> Whose {
    match standard(name) {
        Some(package) if PLUMBING.contains(&package) => Whose::Plumbing,
        Some(_) => Whose::Library,
        None if DOWNLOADED.iter().any(|part| file.contains(part)) => Whose::Library,
        // What the compiler or the linker made: `type:.eq.main.key`, `go:main.inittasks`; and assembly without a package.
        None if name.starts_with("type:") || name.starts_with("go:") || name.starts_with("_rt0_") => {
            Whose::Plumbing
        }
        None => Whose::Program,
    }
}

/// The first part of the package, for a function of the standard library: `net` of `net/http.(*conn).serve`.
pub(super) fn standard(name: &str) -> Option<&'static str> {
    // `example.com/net/http` has a dot in its first part; `sort_orders` has no package.
    let (path, _) = name.split_once(['(', '[']).unwrap_or((name, ""));
    let is_host = path.split_once('/').is_some_and(|(first, _)| first.contains('.'));
    let package = name.split_once(['.', '/']).map(|(package, _)| package).filter(|_| !is_host)?;
    STANDARD.iter().find(|known| **known == package).copied()
}
