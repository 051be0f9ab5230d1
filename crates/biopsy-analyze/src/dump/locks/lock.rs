//! What a thread waits for, and who has it.

use biopsy_model::{Confidence, Tid};
use biopsy_stacks::ahead::LockFamily;

/// What is waited for at a futex.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockWait {
    /// Address of the futex.
    pub futex: u64,
    /// Address of the lock that it is a part of: what threads that wait for the same have in common.
    pub lock: u64,
    /// What it is.
    pub kind: LockKind,
    /// Who has it.
    pub owner: LockOwner,
    /// Type of the managed object that is locked, for locks of managed code.
    pub object: Option<String>,
    /// What this was read from, in words.
    pub proof: String,
    /// Who holds it, or would give what is waited for, as far as it is known: the owner too.
    pub holders: Vec<Holder>,
    /// It waits for a limited time.
    pub timed: bool,
    /// The mutex of the condition that is waited at: the thread takes it again.
    pub mutex: Option<u64>,
    /// Of a semaphore: the code behind the wait gives back what it takes, so that it counts slots, and not work to be done.
    pub gives_back: bool,
    /// How many hold it, by the lock's own word.
    pub held_by: Option<u32>,
    /// How code gives it back, for locks that do not say who has them.
    pub family: Option<LockFamily>,
}

/// A thread that holds a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Which.
    pub thread: Tid,
    /// How sure that is.
    pub confidence: Confidence,
    /// The function that gives the lock back, where that was found; it, or one that it called, took it.
    pub site: Option<String>,
    /// It holds it together with others: to read.
    pub shared: bool,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A read-write lock, to read.
    RwLockRead,
    /// A read-write lock, to write (or not known which).
    RwLockWrite,
    /// The end of a thread.
    Join,
    /// A condition variable: somebody has to signal it.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// Something else.
    #[default]
    Futex,
    /// A lock that is waited for by trying again and again.
    Spin,
    /// A monitor of managed code (`lock` in C#).
    Monitor,
    /// `System.Threading.Lock`.
    SystemLock,
    /// A pulse of a monitor (`Monitor.Wait`).
    Pulse,
    /// That a variable that a function keeps is made at its first use: one thread makes it, others wait.
    Initialization,
    /// That something is done that is done once (`Once`, `OnceLock`, `pthread_once`, `std::call_once`): one thread does it, others wait.
    Once,
    /// The lock of an interpreter: whoever has it runs, alone.
    Interpreter,
}

impl LockKind {
    /// `a mutex`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Mutex => "a mutex",
            Self::RwLockRead => "a read-write lock, to read",
            Self::RwLockWrite => "a read-write lock, to write",
            Self::Join => "the end of a thread",
            Self::Condition => "a condition variable",
            Self::Semaphore => "a semaphore",
            Self::Barrier => "a barrier",
            Self::Futex => "a futex",
            Self::Spin => "a spin lock",
            Self::Monitor => "a monitor",
            Self::SystemLock => "a `System.Threading.Lock`",
            Self::Pulse => "a pulse of a monitor",
            Self::Initialization => "the initialization of a static variable",
            Self::Once => "what is done once",
            Self::Interpreter => "the lock of the interpreter",
        }
    }

    /// Somebody holds it, and gives it back.
    #[must_use]
    pub fn is_held(self) -> bool {
        match self {
            Self::Mutex
            | Self::RwLockRead
            | Self::RwLockWrite
            | Self::Spin
            | Self::Monitor
            | Self::SystemLock
            | Self::Initialization
            | Self::Once
            | Self::Interpreter => true,
            Self::Join | Self::Condition | Self::Semaphore | Self::Barrier | Self::Futex | Self::Pulse => {
                false
            }
        }
    }

    /// One of those who could give it is enough: a semaphore. Of a lock that several hold all have to let go.
    #[must_use]
    pub fn any_is_enough(self) -> bool {
        self == Self::Semaphore
    }
}

/// Who has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LockOwner {
    /// A thread of the dump.
    Thread(Tid),
    /// A thread that is not in the dump: it ended, or is of another process.
    Elsewhere(Tid),
    /// Readers, who leave no name.
    Readers,
    /// This kind has no owner, or it cannot be known.
    #[default]
    NotKnown,
}

impl LockWait {
    /// The thread it waits for, when it is in the dump.
    #[must_use]
    pub fn thread(&self) -> Option<Tid> {
        match self.owner {
            LockOwner::Thread(tid) => Some(tid),
            LockOwner::Elsewhere(_) | LockOwner::Readers | LockOwner::NotKnown => None,
        }
    }

    /// Who holds it, with how sure that is: what the lock says, or else what was inferred.
    #[must_use]
    pub fn known_holders(&self) -> Vec<Holder> {
        match self.owner {
            LockOwner::Thread(thread) if self.holders.iter().all(|holder| holder.thread != thread) => {
                vec![Holder { thread, confidence: Confidence::Certain, site: None, shared: false }]
            }
            _ => self.holders.clone(),
        }
    }

    /// How sure the owner is: `Certain` where the lock says it.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        let owner = self.thread();
        let inferred = self.holders.iter().filter(|holder| Some(holder.thread) == owner);
        inferred.map(|holder| holder.confidence).next().unwrap_or(Confidence::Certain)
    }

    /// `a mutex at 0x55...`, `the monitor of App.Feed at 0x7f...`.
    #[must_use]
    pub fn what(&self) -> String {
        let at = self.lock;
        match (self.kind, &self.object) {
            (LockKind::Join, _) => "the end of a thread".to_owned(),
            (LockKind::Monitor, Some(object)) => format!("the monitor of `{object}` at {at:#x}"),
            (LockKind::Pulse, Some(object)) => format!("a pulse of the monitor of `{object}` at {at:#x}"),
            (kind, _) => format!("{} at {at:#x}", kind.words()),
        }
    }

    /// `waits for a mutex at 0x55..., held by thread 4711`.
    #[must_use]
    pub fn words(&self) -> String {
        let what = match self.kind {
            LockKind::Spin => format!("tries again and again to get {}", self.what()),
            _ => format!("waits for {}", self.what()),
        };
        let sure = match self.confidence() {
            Confidence::Certain => String::new(),
            other => format!("{} ", other.words()),
        };
        match (self.kind, self.owner) {
            (LockKind::Join, LockOwner::Thread(tid)) => format!("waits for the end of thread {tid}"),
            (_, LockOwner::Thread(tid)) => format!("{what}, {sure}held by thread {tid}"),
            (_, LockOwner::Elsewhere(tid)) => {
                format!("{what}, held by thread {tid}, which is not in the dump")
            }
            (_, LockOwner::Readers) => {
                let known: Vec<String> = self
                    .holders
                    .iter()
                    .filter(|holder| holder.confidence > Confidence::Possible)
                    .map(|holder| holder.thread.to_string())
                    .collect();
                match known.as_slice() {
                    [] => format!("{what}, held by readers"),
                    [one] => format!("{what}, held by readers, very likely thread {one}"),
                    all => format!("{what}, held by readers, very likely threads {}", all.join(", ")),
                }
            }
            (_, LockOwner::NotKnown) => what,
        }
    }
}
