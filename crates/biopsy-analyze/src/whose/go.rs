//! Go: packages of its standard library, and modules that were downloaded.

use super::answer::Whose;

/// Packages of the standard library, by their first part.
#[rustfmt::skip]
const STANDARD: &[&str] = &[
    "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed",
    "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter",
    "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort",
    "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe",
    "vendor", "weak",
];

/// How a program waits.
#[rustfmt::skip]
const PLUMBING: &[&str] = &[
    "internal/", "runtime.findRunnable", "runtime.futex", "runtime.gopark", "runtime.lock", "runtime.mcall",
    "runtime.note", "runtime.park", "runtime.schedule", "runtime.sema", "runtime.stop", "runtime.usleep", "sync.",
    "sync/", "syscall.", "time.Sleep",
];

/// Where other people's modules lie: the module cache, and copies of it. A path in it has the version: `gin@v1.9.1/context.go`.
const DOWNLOADED: &[&str] = &["/pkg/mod/", "/vendor/"];

pub(super) fn whose(name: &str, file: &str) -> Whose {
    if is_standard(name) {
        let waits = PLUMBING.iter().any(|prefix| name.starts_with(prefix));
        return if waits { Whose::Plumbing } else { Whose::Library };
    }
    // What the compiler or the linker made: `type:.eq.main.key`, `go:main.inittasks`.
    if ["type:", "go:", "_rt0_"].iter().any(|prefix| name.starts_with(prefix)) {
        Whose::Plumbing
    } else if DOWNLOADED.iter().any(|part| file.contains(part)) || has_version(file) {
        Whose::Library
    } else {
        Whose::Program
    }
}

/// `gin@v1.9.1/context.go`; `/home/me@vps/main.go` is somebody's own.
fn has_version(file: &str) -> bool {
    file.split("@v").skip(1).any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// A function of the standard library: `net/http.(*conn).serve`.
pub(super) fn is_standard(name: &str) -> bool {
    // `example.com/net/http` has a dot in its first part; `sort_orders` has no package.
    let (path, _) = name.split_once(['(', '[']).unwrap_or((name, ""));
    let is_host = path.split_once('/').is_some_and(|(first, _)| first.contains('.'));
    let package = name.split_once(['.', '/']).map(|(package, _)| package);
    !is_host && package.is_some_and(|package| STANDARD.contains(&package))
}
