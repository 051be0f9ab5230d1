//! The frame of a strand that is of the program itself, and not of its language's library.

use biopsy_model::Tid;
use biopsy_runtimes::{RuntimeKind, RuntimeStrands, Strand, StrandFrame};

use crate::whose::{self, Code, Language, Whose};

/// The innermost frame of the program; of a library, or the innermost of all, where there is none.
pub(super) fn of_program(kind: RuntimeKind, frames: &[StrandFrame]) -> Option<&StrandFrame> {
    frames.get(index_of_program(kind, frames)?)
}

/// Which one that is.
pub(super) fn index_of_program(kind: RuntimeKind, frames: &[StrandFrame]) -> Option<usize> {
    whose::place(frames.iter().map(|frame| whose(kind, frame)))
}

/// Whose code a frame is.
pub(super) fn whose(kind: RuntimeKind, frame: &StrandFrame) -> Whose {
    let language = match kind {
        RuntimeKind::Go => Language::Go,
        RuntimeKind::Python => Language::Python,
        RuntimeKind::Java => Language::Java,
        RuntimeKind::Node => Language::JavaScript,
    };
    Code { language, function: Some(&frame.function), file: frame.file.as_deref(), ..Code::default() }.whose()
}

/// The strand that is on a thread, with its runtime: a thread of the language, or what runs on one at the moment.
pub(super) fn on_thread<'r>(
    runtimes: impl Iterator<Item = &'r RuntimeStrands>,
    tid: Tid,
) -> Option<(&'r RuntimeStrands, &'r Strand)> {
    let mut found = runtimes.filter_map(|runtime| {
        let mut on_it = runtime.strands.iter().filter(|strand| strand.tid == Some(tid));
        let with_frames = on_it.clone().find(|strand| !strand.frames.is_empty());
        Some((runtime, with_frames.or_else(|| on_it.next())?))
    });
    found.next()
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
