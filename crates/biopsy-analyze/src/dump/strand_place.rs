//! The frame of a strand that is of the program itself, and not of its language's library.

use biopsy_runtimes::{RuntimeKind, StrandFrame};

/// Packages of Go's standard library, by their first part.
const GO: &[&str] = &[
    "archive",
    "bufio",
    "bytes",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "weak",
];
/// What packages of the class libraries of Java begin with.
const JAVA: &[&str] =
    &["java.", "javax.", "jdk.", "sun.", "com.sun.", "java/", "javax/", "jdk/", "sun/", "com/sun/"];

/// The innermost frame of the program; the innermost of all where there is none.
pub(super) fn of_program(kind: RuntimeKind, frames: &[StrandFrame]) -> Option<&StrandFrame> {
    frames.iter().find(|frame| !is_of_library(kind, frame)).or_else(|| frames.first())
}

pub(super) fn is_of_library(kind: RuntimeKind, frame: &StrandFrame) -> bool {
    let (function, file) = (&*frame.function, frame.file.as_deref().unwrap_or_default());
    match kind {
        RuntimeKind::Go => {
            let package = function.split(['.', '/']).next().unwrap_or_default();
            // `example.com/net/http` has a dot in its first part.
            let is_host = function.split_once('/').is_some_and(|(first, _)| first.contains('.'));
            !is_host && GO.contains(&package)
        }
        RuntimeKind::Python => {
            let of_interpreter = file.contains("/lib/python3") && !file.contains("-packages/");
            of_interpreter || file.starts_with('<')
        }
        RuntimeKind::Java => JAVA.iter().any(|package| function.starts_with(package)),
        RuntimeKind::Node => file.starts_with("node:") || file.is_empty(),
    }
}

/// `main.transfer (bank.go:52)`.
pub(super) fn words(frame: &StrandFrame) -> String {
    let file = frame.file.as_deref().and_then(|file| file.rsplit('/').next()).filter(|file| !file.is_empty());
    match (file, frame.line) {
        (Some(file), Some(line)) => format!("{} ({file}:{line})", frame.function),
        (Some(file), None) => format!("{} ({file})", frame.function),
        (None, _) => frame.function.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> StrandFrame {
        StrandFrame {
            function: function.into(),
            file: Some(file.into()),
            line: Some(7),
            ..StrandFrame::default()
        }
    }

    #[test]
    fn the_program_is_told_from_the_library() {
        let place = |kind, frames: &[StrandFrame]| of_program(kind, frames).map(words);
        let go = [
            frame("runtime.gopark", "/usr/lib/go/src/runtime/proc.go"),
            frame("net/http.(*conn).serve", "/usr/lib/go/src/net/http/server.go"),
            frame("example.com/net/http.work", "/src/work.go"),
        ];
        assert_eq!(place(RuntimeKind::Go, &go).unwrap(), "example.com/net/http.work (work.go:7)");
        let python = [
            frame("Condition.wait", "/usr/lib/python3.11/threading.py"),
            frame("get", "/usr/lib/python3/dist-packages/pool.py"),
        ];
        assert_eq!(place(RuntimeKind::Python, &python).unwrap(), "get (pool.py:7)");
        assert_eq!(place(RuntimeKind::Go, &go[..1]).unwrap(), "runtime.gopark (proc.go:7)");
        assert_eq!(place(RuntimeKind::Go, &[]), None);
    }
}
