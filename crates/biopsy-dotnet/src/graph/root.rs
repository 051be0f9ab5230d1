//! What keeps objects alive from outside.

use biopsy_model::Avma;

use super::ObjectIndex;

/// The kind of a root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RootKind {
    /// A strong handle: statics hang on these, too.
    StrongHandle,
    /// A handle that also keeps the object from moving.
    PinnedHandle,
    /// Any other kind of handle that keeps objects alive.
    OtherHandle,
    /// Waits for its finalizer to run.
    FinalizerQueue,
    /// A word on a thread's stack or in a register that looks like a reference. Conservative: it may be a left-over.
    Stack,
    /// A thread's static fields.
    ThreadStatic,
    /// Reported by the runtime, without a more exact kind.
    Other,
    /// Held by native code on behalf of everybody: JNI.
    NativeGlobal,
    /// A class that is never unloaded.
    SystemClass,
    /// A lock that is held or waited for.
    Monitor,
    /// A thread that runs.
    Thread,
    /// A static field, whose name its type knows by the address.
    Static,
}

impl RootKind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::StrongHandle,
        Self::PinnedHandle,
        Self::OtherHandle,
        Self::FinalizerQueue,
        Self::Stack,
        Self::ThreadStatic,
        Self::Other,
        Self::NativeGlobal,
        Self::SystemClass,
        Self::Monitor,
        Self::Thread,
        Self::Static,
    ];

    /// How little it tells of who holds the object, for choosing among several: the last is a word on a stack, which may be left over.
    pub(crate) fn by_what_it_tells(self) -> u8 {
        match self {
            Self::Static => 0,
            Self::ThreadStatic | Self::SystemClass => 1,
            Self::StrongHandle => 2,
            Self::PinnedHandle => 3,
            Self::OtherHandle | Self::NativeGlobal => 4,
            Self::Thread | Self::Monitor => 5,
            Self::Other => 6,
            Self::FinalizerQueue => 7,
            Self::Stack => 8,
        }
    }

    /// Its name, in reports and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StrongHandle => "strong handle",
            Self::PinnedHandle => "pinned handle",
            Self::OtherHandle => "handle",
            Self::FinalizerQueue => "finalizer queue",
            Self::Stack => "stack",
            Self::ThreadStatic => "thread static",
            Self::Other => "other",
            Self::NativeGlobal => "native global",
            Self::SystemClass => "system class",
            Self::Monitor => "monitor",
            Self::Thread => "thread",
            Self::Static => "static",
        }
    }
}

/// One root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// What it is.
    pub kind: RootKind,
    /// Where it is: the address of the handle, of the stack slot; 0 for a register or where not known.
    pub address: Avma,
    /// What it keeps alive.
    pub object: ObjectIndex,
    /// It points into the object, not at its beginning.
    pub is_interior: bool,
    /// Thread id of the system, for stacks and thread statics; else 0.
    pub thread: u32,
}
