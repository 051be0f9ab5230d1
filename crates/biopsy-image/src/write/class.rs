//! Importance of memory.

/// Memory by importance, the most important first: contents are written in this order, and a size ceiling drops from the
/// end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Stacks from 128 bytes below the stack pointer on, and the memory at the thread pointer.
    Stacks,
    /// Small parts of mapped files that name them and say how to unwind them; the list of modules of the dynamic linker.
    Modules,
    /// Private memory: heaps, and the process's own copies of pages of files.
    Private,
    /// Memory that may be shared: memfds, System V, `/dev/shm`.
    Shared,
    /// What is in files too.
    Files,
}

impl Class {
    /// All, by importance.
    pub const ALL: [Self; 5] = [Self::Stacks, Self::Modules, Self::Private, Self::Shared, Self::Files];

    /// Place in [`Class::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Stacks => 0,
            Self::Modules => 1,
            Self::Private => 2,
            Self::Shared => 3,
            Self::Files => 4,
        }
    }

    /// Whether the bytes change when the process writes, so that they must come from the frozen copy.
    #[must_use]
    pub fn needs_freeze(self) -> bool {
        match self {
            Self::Stacks | Self::Modules | Self::Private => true,
            Self::Shared | Self::Files => false,
        }
    }
}
