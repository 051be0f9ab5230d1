//! Which runtimes there are, and what they call their strands.

/// A language runtime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuntimeKind {
    /// Go.
    Go,
    /// CPython.
    Python,
    /// HotSpot, the virtual machine of OpenJDK.
    Java,
    /// Node.js, with V8.
    Node,
}

impl RuntimeKind {
    /// As its makers write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "Go",
            Self::Python => "Python",
            Self::Java => "Java",
            Self::Node => "Node.js",
        }
    }
}

/// What a strand is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StrandKind {
    /// A goroutine.
    Goroutine,
    /// A thread of the language, which is one of the system.
    Thread,
    /// A thread of the language that is on one of the system only while it runs (Java).
    VirtualThread,
    /// A task of an event loop (asyncio), or a promise.
    Task,
}

impl StrandKind {
    /// `goroutine`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Goroutine => "goroutine",
            Self::Thread => "thread",
            Self::VirtualThread => "virtual thread",
            Self::Task => "task",
        }
    }
}
