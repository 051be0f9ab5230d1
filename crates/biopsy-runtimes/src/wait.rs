//! What a strand waits for, and who has it.

use biopsy_model::{Avma, MonoNanos, Tid};

use crate::{Confidence, StrandId};

/// What a strand waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrandWait {
    /// What kind of thing.
    pub kind: WaitKind,
    /// Address of the thing: what those who wait for the same have in common.
    pub address: Option<Avma>,
    /// For a wait for any of several things (`select`): the others. It is stuck only if all are.
    pub others: Vec<Avma>,
    /// Type of the thing, where the language knows one.
    pub object: Option<String>,
    /// The descriptor, where it is input or output.
    pub descriptor: Option<u32>,
    /// The runtime's own words for it (`chan receive`), empty where it has none.
    pub reason: String,
    /// Since when at the latest, where the runtime keeps that.
    pub since: Option<MonoNanos>,
    /// It ends by itself at some time: it has a timeout.
    pub ends_by_itself: bool,
    /// Nothing that the program can still do ends it (a channel that is nil).
    pub never_ends: bool,
    /// Several may wait for the thing, and whoever ends a wait wakes any one of them.
    pub wakes_one: bool,
    /// Who has the thing, or would end the wait; readers may be several. Empty: not known.
    pub owners: Vec<Owner>,
    /// Why nobody is left who would end it, as far as that can be known.
    pub nobody: Option<String>,
    /// It waits for a task that nobody has begun, and that lies in the queue of this pool ([`Strand::pool`](crate::Strand::pool)).
    pub queued_in: Option<u64>,
    /// The expression that is awaited, as the source has it up to its arguments, where the runtime keeps the source.
    pub awaited: Option<String>,
}

impl StrandWait {
    /// A wait of which only this is known.
    #[must_use]
    pub fn of(kind: WaitKind, reason: &str) -> Self {
        Self {
            kind,
            address: None,
            others: Vec::new(),
            object: None,
            descriptor: None,
            reason: reason.to_owned(),
            since: None,
            ends_by_itself: matches!(kind, WaitKind::Timer),
            never_ends: false,
            wakes_one: false,
            owners: Vec::new(),
            nobody: None,
            queued_in: None,
            awaited: None,
        }
    }
}

/// Who has what is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Who.
    pub holder: Holder,
    /// How sure that is.
    pub confidence: Confidence,
    /// Frame of the holder's strand in which it is held: index into its frames.
    pub frame: Option<usize>,
    /// What this was read from, in words.
    pub proof: String,
}

/// A strand, or a thread that is none of this runtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Holder {
    /// A strand of the same runtime.
    Strand(StrandId),
    /// A thread of the system.
    Thread(Tid),
}

/// A kind of thing that is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// A lock that one may have.
    Mutex,
    /// A read-write lock, to read.
    ReadLock,
    /// A read-write lock, to write.
    WriteLock,
    /// A monitor of an object, to enter it.
    Monitor,
    /// A signal of a condition, or a notification.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A counter that has to reach zero (a wait group, a latch).
    WaitGroup,
    /// Room in a channel or queue, or somebody who takes.
    ChannelSend,
    /// Something in a channel or queue.
    ChannelReceive,
    /// Any of several channels.
    Select,
    /// A time.
    Timer,
    /// A descriptor, by way of the runtime's poller or a system call.
    Io,
    /// The end of a strand.
    Join,
    /// A task, promise or future.
    Future,
    /// The lock of the interpreter.
    InterpreterLock,
    /// The garbage collector.
    Collection,
    /// Work: strands of the runtime itself, and idle workers.
    Idle,
    /// Something else; see the reason.
    Other,
}

impl WaitKind {
    /// `a mutex`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Mutex => "a mutex",
            Self::ReadLock => "a read-write lock, to read",
            Self::WriteLock => "a read-write lock, to write",
            Self::Monitor => "a monitor",
            Self::Condition => "a condition",
            Self::Semaphore => "a semaphore",
            Self::WaitGroup => "a wait group",
            Self::ChannelSend => "a channel, to send",
            Self::ChannelReceive => "a channel, to receive",
            Self::Select => "one of several channels",
            Self::Timer => "a time",
            Self::Io => "input or output",
            Self::Join => "the end of another",
            Self::Future => "a future",
            Self::InterpreterLock => "the lock of the interpreter",
            Self::Collection => "the garbage collector",
            Self::Idle => "work",
            Self::Other => "something",
        }
    }

    /// One of those who could end it is enough; of a lock or a wait group all have to let go.
    #[must_use]
    pub fn any_is_enough(self) -> bool {
        matches!(
            self,
            Self::ChannelSend | Self::ChannelReceive | Self::Select | Self::Semaphore | Self::Condition
        )
    }

    /// Whoever has it can be named, and is one or more strands: circles of these are deadlocks.
    #[must_use]
    pub fn is_held(self) -> bool {
        match self {
            Self::Mutex
            | Self::ReadLock
            | Self::WriteLock
            | Self::Monitor
            | Self::Join
            | Self::Future
            | Self::InterpreterLock => true,
            Self::Condition
            | Self::Semaphore
            | Self::WaitGroup
            | Self::ChannelSend
            | Self::ChannelReceive
            | Self::Select
            | Self::Timer
            | Self::Io
            | Self::Collection
            | Self::Idle
            | Self::Other => false,
        }
    }
}
