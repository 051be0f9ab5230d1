//! What the thread that traces is told to do, and why it holds a process.

/// From those who hold a [`super::Caught`] or the catcher.
#[derive(Debug)]
pub(super) enum Command {
    /// Let a held process go.
    Release(u64),
    /// Catch nothing more; hand out what is at its end.
    Close,
    /// Let everything go that is not held, catch nothing more.
    Finish,
}

/// Why threads are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It ends, with this wait status.
    End(i32),
    /// This signal is about to end it.
    Signal(i32),
    /// It has run for long enough.
    Time,
}
