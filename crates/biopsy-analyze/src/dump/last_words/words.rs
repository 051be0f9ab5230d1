//! What ended a process, by what it wrote.

use super::super::places::StackPlace;
use super::error::Thrown;
use super::frames::Frames;

/// What follows such a text at most, in lines: a note on backtraces, a line of a log.
pub(super) const BEHIND: usize = 6;
/// Calls that are kept, the innermost.
pub(super) const CALLS: usize = 40;
/// Exceptions of one chain.
pub(super) const CHAIN: usize = 16;

/// What ended a process, by what it wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastWords {
    /// What kind of thing it is.
    pub kind: LastWordsKind,
    /// `ValueError`, `java.lang.IllegalStateException`; empty where it has none.
    pub type_name: String,
    /// Its text; empty where it has none. Redacted.
    pub text: String,
    /// Where it was thrown: the innermost function of the program, or the file and line of it.
    pub place: Option<StackPlace>,
    /// The innermost calls, from inside.
    pub calls: Vec<String>,
    /// Who wrote it.
    pub by: Writer,
    /// What became of it on its way out: `passed on as a.b.Error: text, in price (B.java:7)`.
    pub became: Vec<String>,
}

/// What a process wrote before it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastWordsKind {
    /// An exception.
    Exception,
    /// Something was thrown that is no exception: a text in JavaScript.
    Value,
    /// A promise was rejected, with a reason that is no exception.
    Rejection,
    /// A panic of Rust.
    RustPanic,
    /// A panic of Go.
    GoPanic,
    /// The runtime of Go gave up.
    GoFatal,
}

/// Who wrote what a process wrote last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// The runtime: nobody caught it.
    Runtime,
    /// The program, that had it in its hands.
    Program,
}

/// What one of the languages makes of the lines.
pub(super) struct Found {
    /// The line behind it.
    pub(super) end: usize,
    pub(super) words: LastWords,
}

impl LastWords {
    pub(super) fn new(kind: LastWordsKind, thrown: Thrown, frames: &Frames<'_>, by: Writer) -> Self {
        Self {
            kind,
            type_name: thrown.type_name,
            text: thrown.text,
            place: frames.place(),
            calls: frames.shown(CALLS),
            by,
            became: Vec::new(),
        }
    }

    /// What it is, for a sentence: `` `ValueError` was not caught ``.
    #[must_use]
    pub fn what(&self) -> String {
        let name = &self.type_name;
        match (self.kind, self.by) {
            (LastWordsKind::Exception, Writer::Runtime) => format!("`{name}` was not caught"),
            (LastWordsKind::Exception, Writer::Program) => {
                format!("the program itself wrote `{name}`, and ended")
            }
            (LastWordsKind::Value, _) => "a value was thrown that is no error, and not caught".to_owned(),
            (LastWordsKind::Rejection, _) => {
                "a promise was rejected, with a reason that is no error, and nobody handled it".to_owned()
            }
            (LastWordsKind::RustPanic, _) => "a Rust panic".to_owned(),
            (LastWordsKind::GoPanic, _) => "a panic that nobody recovered".to_owned(),
            (LastWordsKind::GoFatal, _) => format!("a fatal error of the runtime of Go: {}", self.text),
        }
    }

    /// What it wrote: type and text.
    #[must_use]
    pub fn wrote(&self) -> String {
        let what = match self.kind {
            LastWordsKind::Exception => self.type_name.as_str(),
            LastWordsKind::Value => "thrown value",
            LastWordsKind::Rejection => "rejected with the reason",
            LastWordsKind::RustPanic => "a Rust panic",
            LastWordsKind::GoPanic => "panic",
            LastWordsKind::GoFatal => "fatal error",
        };
        match self.text.as_str() {
            "" => what.to_owned(),
            text => format!("{what}: {text}"),
        }
    }

    /// A call that most of the calls are, where they are many: what calls itself.
    #[must_use]
    pub fn recurses(&self) -> Option<(&str, usize)> {
        const MANY: usize = 5;
        // Of a function that calls itself each call but the first is from the same line.
        let of = |call: &String| self.calls.iter().filter(|other| *other == call).count();
        let (call, count) = self
            .calls
            .iter()
            .take(3)
            .map(|call| (call.as_str(), of(call)))
            .max_by_key(|(_, count)| *count)?;
        (count >= MANY && count * 3 >= self.calls.len()).then_some((call, count))
    }
}
