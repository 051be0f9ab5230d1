//! What a thread was doing.

/// What a thread was doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ThreadState {
    /// Executing its own code, or ready to.
    Running,
    /// In a system call.
    InSystemCall {
        /// Its number, where it is known.
        number: Option<u32>,
        /// Its name, or `system call N`.
        name: String,
        /// What it waits for.
        wait: WaitKind,
        /// In words: `waits for events on descriptor 5`.
        words: String,
    },
    /// The dump has no registers of it.
    #[default]
    Unknown,
}

/// What a system call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum WaitKind {
    /// A futex: a lock, a condition or another thread's end.
    Futex,
    /// One of several descriptors.
    Events,
    /// Data to read, or a peer.
    Input,
    /// Room to write, or a device.
    Output,
    /// A new connection.
    Connection,
    /// Time.
    Time,
    /// A child process.
    Child,
    /// A signal.
    Signal,
    /// A lock on a file, a semaphore or queue of the kernel.
    KernelObject,
    /// Its own end.
    End,
    /// Something else, or nothing: the call may just have been running.
    Other,
}

impl ThreadState {
    /// In words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Running => "runs its own code",
            Self::InSystemCall { words, .. } => words,
            Self::Unknown => "not known: the dump has no registers of it",
        }
    }

    /// What it waits for, in a system call.
    #[must_use]
    pub fn wait(&self) -> Option<WaitKind> {
        match self {
            Self::InSystemCall { wait, .. } => Some(*wait),
            Self::Running | Self::Unknown => None,
        }
    }
}
