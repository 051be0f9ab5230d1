//! Who holds what a thread waits for, proven from memory alone: no symbols are needed for locks of glibc and musl.
//!
//! A thread that waits for a lock is in `futex(2)`; its second register argument says how, its first where:
//!
//! ```text
//! glibc pthread_mutex_t    0 lock (futex)  4 count  8 owner  12 users  16 kind
//! glibc pthread_rwlock_t   0 readers  4 writers  8 write phase (futex)  12 writers (futex)  24 current writer
//! glibc pthread_t          its thread id is the futex that pthread_join waits at
//! musl mutex_t             0 type  4 lock: owner | 1 << 31 (futex)
//! PI mutexes               the futex is the owner (futex(2), FUTEX_LOCK_PI)
//! ```
//!
//! Owners are known by the numbers that threads have for themselves, which in a container are not those of the dump
//! ([`OwnNumbers`]). Each is only believed when the value that was waited for, the value in memory, the neighbouring fields and the list of
//! threads agree. A condition, a semaphore or a futex of a runtime has no owner: that it is waited for is said, and never
//! called a deadlock. (Measured on glibc 2.36; offsets are those of `struct __pthread_mutex_s` and
//! `struct __pthread_rwlock_arch_t` since 2.25, x86-64.)

use biopsy_image::{GeneralRegisters, Image, MemoryExt, OwnNumbers, Thread};
use biopsy_model::Tid;
use biopsy_stacks::image::{ImageStacks, ThreadStack};

use super::state::{ThreadState, WaitKind};

const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
/// FUTEX_PRIVATE_FLAG; the next bit is FUTEX_CLOCK_REALTIME.
const PRIVATE: u64 = 128;
/// The bits of a PI futex, or one of musl, that are the owner.
const OWNER: u32 = 0x3fff_ffff;
/// Frames looked at for the function that waits.
const INNER: usize = 8;

/// What is waited for at a futex.
#[derive(Clone, PartialEq, Eq, Debug)]
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
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    Futex,
    /// A monitor of managed code (`lock` in C#).
    Monitor,
    /// `System.Threading.Lock`.
    SystemLock,
    /// A pulse of a monitor (`Monitor.Wait`).
    Pulse,
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
            Self::Monitor => "a monitor",
            Self::SystemLock => "a `System.Threading.Lock`",
            Self::Pulse => "a pulse of a monitor",
        }
    }
}

/// Who has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockOwner {
    /// A thread of the dump.
    Thread(Tid),
    /// A thread that is not in the dump: it ended, or is of another process.
    Elsewhere(Tid),
    /// Readers, who leave no name.
    Readers,
    /// This kind has no owner, or it cannot be known.
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
        let what = format!("waits for {}", self.what());
        match (self.kind, self.owner) {
            (LockKind::Join, LockOwner::Thread(tid)) => format!("waits for the end of thread {tid}"),
            (_, LockOwner::Thread(tid)) => format!("{what}, held by thread {tid}"),
            (_, LockOwner::Elsewhere(tid)) => {
                format!("{what}, held by thread {tid}, which is not in the dump")
            }
            (_, LockOwner::Readers) => format!("{what}, held by readers"),
            (_, LockOwner::NotKnown) => what,
        }
    }
}

/// The threads of the dump.
#[derive(Debug)]
pub(super) struct Tids {
    /// By the numbers that threads have for themselves: those are in their memory.
    own: OwnNumbers,
    /// No thread id is above it: `/proc/sys/kernel/pid_max` is at most 2^22.
    max: u32,
}

impl Tids {
    pub(super) fn new(image: &dyn Image) -> Self {
        Self { own: OwnNumbers::of(image), max: 1 << 22 }
    }

    fn has(&self, tid: u32) -> bool {
        tid != 0 && self.own.thread(tid).is_some()
    }

    fn could_be(&self, tid: u32) -> bool {
        tid != 0 && tid <= self.max
    }

    fn owner(&self, tid: u32) -> LockOwner {
        match self.own.thread(tid) {
            Some(tid) => LockOwner::Thread(tid),
            // It may be one whose number is not known.
            None if !self.own.is_complete() => LockOwner::NotKnown,
            None => LockOwner::Elsewhere(Tid(tid)),
        }
    }
}

struct Wait<'a> {
    image: &'a dyn Image,
    tids: &'a Tids,
    futex: u64,
    operation: u64,
    private: bool,
    /// The value that was waited for to change.
    expected: u32,
    /// The value now.
    word: Option<u32>,
    /// What the functions say, where they have names.
    named: Option<LockKind>,
}

pub(super) fn find(
    image: &dyn Image,
    tids: &Tids,
    thread: &Thread,
    stack: Option<&ThreadStack>,
    stacks: &ImageStacks,
    state: &ThreadState,
) -> Option<LockWait> {
    if state.wait() != Some(WaitKind::Futex) {
        return None;
    }
    let GeneralRegisters { rdi: futex, rsi, rdx, .. } = *thread.registers.as_ref()?;
    let wait = Wait {
        image,
        tids,
        futex,
        operation: rsi & 0x7f,
        private: rsi & PRIVATE != 0,
        expected: rdx as u32,
        word: image.read_u32(futex).ok(),
        named: stack.and_then(|stack| named(stacks, stack)),
    };
    let plain = || LockWait {
        futex,
        lock: futex,
        kind: wait.named.unwrap_or(LockKind::Futex),
        owner: LockOwner::NotKnown,
        object: None,
        proof: String::new(),
    };
    let waits = matches!(wait.operation, FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2);
    if !waits {
        return None;
    }
    let proven = wait
        .priority_inheritance()
        .or_else(|| wait.join())
        .or_else(|| wait.glibc_mutex())
        .or_else(|| wait.glibc_rwlock())
        .or_else(|| wait.musl_mutex());
    Some(proven.unwrap_or_else(plain))
}

impl Wait<'_> {
    fn at(&self, offset: i64) -> Option<u32> {
        self.image.read_u32(self.futex.checked_add_signed(offset)?).ok()
    }

    fn is_wait(&self) -> bool {
        matches!(self.operation, FUTEX_WAIT | FUTEX_WAIT_BITSET)
    }

    fn is(&self, kinds: &[LockKind]) -> bool {
        self.named.is_none_or(|named| kinds.contains(&named))
    }

    fn priority_inheritance(&self) -> Option<LockWait> {
        if !matches!(self.operation, FUTEX_LOCK_PI | FUTEX_LOCK_PI2) {
            return None;
        }
        let owner = self.word? & OWNER;
        self.tids.could_be(owner).then(|| LockWait {
            futex: self.futex,
            lock: self.futex,
            kind: LockKind::Mutex,
            owner: self.tids.owner(owner),
            object: None,
            proof: "a mutex with priority inheritance: its futex is its owner".to_owned(),
        })
    }

    /// The kernel clears the word and wakes waiters when a thread ends, and does so as for a shared futex.
    fn join(&self) -> Option<LockWait> {
        let word = self.word?;
        let fits = self.is_wait() && !self.private && word == self.expected && self.tids.has(word);
        (fits && self.is(&[LockKind::Join])).then(|| LockWait {
            futex: self.futex,
            lock: self.futex,
            kind: LockKind::Join,
            owner: self.tids.owner(word),
            object: None,
            proof: "the futex holds the id of the thread, and is the word that the kernel clears at its end"
                .to_owned(),
        })
    }

    fn glibc_mutex(&self) -> Option<LockWait> {
        // 2 is "locked, with waiters"; a timed lock waits by bit set, as do locks of runtimes, so that names must agree.
        let waits = match self.operation {
            FUTEX_WAIT => true,
            FUTEX_WAIT_BITSET => self.named == Some(LockKind::Mutex),
            _ => false,
        };
        if !waits || self.expected != 2 || self.word != Some(2) || !self.is(&[LockKind::Mutex]) {
            return None;
        }
        let (owner, users, kind) = (self.at(8)?, self.at(12)?, self.at(16)?);
        // Types 0 to 3; robust 16, inheriting 32, protecting 64, shared 128, elision 256 and 512.
        let sane = kind & 0xf <= 3 && kind < 0x400 && (1..1 << 24).contains(&users);
        let believed = self.tids.has(owner) || (self.named.is_some() && self.tids.could_be(owner));
        (sane && believed).then(|| LockWait {
            futex: self.futex,
            lock: self.futex,
            kind: LockKind::Mutex,
            owner: self.tids.owner(owner),
            object: None,
            proof: format!(
                "`futex` waits for a value other than 2 at {:#x}; there is 2 (locked, with waiters), and {owner} in the field of \
                 the owner",
                self.futex
            ),
        })
    }

    fn glibc_rwlock(&self) -> Option<LockWait> {
        let rwlock = [LockKind::RwLockRead, LockKind::RwLockWrite];
        if !self.is_wait() || !self.is(&rwlock) || self.word != Some(self.expected) {
            return None;
        }
        // Offset of the futex in the lock, and what it waits for: bit 0 the phase or the lock, bit 1 "somebody waits".
        let candidates = [
            (8_i64, 3_u32, LockKind::RwLockRead),
            (12, 3, LockKind::RwLockWrite),
            (8, 2, LockKind::RwLockWrite),
        ];
        candidates.into_iter().find_map(|(offset, expected, kind)| {
            if self.expected != expected
                || self.named.is_some_and(|named| named == LockKind::RwLockRead && kind != named)
            {
                return None;
            }
            let (readers, writer) = (self.at(-offset)?, self.at(24 - offset)?);
            let lock = self.futex.checked_sub(offset.unsigned_abs())?;
            // Readers: bit 0 write phase, bit 1 a writer has it or wants it, bit 2 a reader waits, above them their number.
            if expected == 2 {
                return (self.named.is_some() && writer == 0 && readers >> 3 > 0).then(|| LockWait {
                    futex: self.futex,
                    lock,
                    kind,
                    owner: LockOwner::Readers,
                    object: None,
                    proof: format!("{} readers have the lock at {lock:#x}", readers >> 3),
                });
            }
            (readers & 2 != 0 && self.tids.has(writer)).then(|| LockWait {
                futex: self.futex,
                lock,
                kind: self.named.unwrap_or(kind),
                owner: self.tids.owner(writer),
                object: None,
                proof: format!(
                    "the read-write lock at {lock:#x} has {writer} in the field of the current writer"
                ),
            })
        })
    }

    fn musl_mutex(&self) -> Option<LockWait> {
        let word = self.word?;
        let (owner, kind) = (word & OWNER, self.at(-4)?);
        let fits = self.is_wait()
            && word == self.expected
            && word >> 31 == 1
            && self.tids.has(owner)
            && kind & 0xf <= 3
            && kind < 0x100
            && self.is(&[LockKind::Mutex]);
        fits.then(|| LockWait {
            futex: self.futex,
            lock: self.futex.saturating_sub(4),
            kind: LockKind::Mutex,
            owner: self.tids.owner(owner),
            object: None,
            proof: "the futex holds the owner and the mark of waiters".to_owned(),
        })
    }
}

/// What the innermost functions with a name say.
fn named(stacks: &ImageStacks, stack: &ThreadStack) -> Option<LockKind> {
    const NAMES: &[(&str, LockKind)] = &[
        ("pthread_mutex_lock", LockKind::Mutex),
        ("pthread_mutex_timedlock", LockKind::Mutex),
        ("pthread_mutex_clocklock", LockKind::Mutex),
        ("lll_lock_wait", LockKind::Mutex),
        ("pthread_rwlock_rdlock", LockKind::RwLockRead),
        ("pthread_rwlock_timedrdlock", LockKind::RwLockRead),
        ("pthread_rwlock_wrlock", LockKind::RwLockWrite),
        ("pthread_rwlock_timedwrlock", LockKind::RwLockWrite),
        ("pthread_cond_wait", LockKind::Condition),
        ("pthread_cond_timedwait", LockKind::Condition),
        ("pthread_cond_clockwait", LockKind::Condition),
        ("pthread_clockjoin_ex", LockKind::Join),
        ("pthread_timedjoin_ex", LockKind::Join),
        ("pthread_join", LockKind::Join),
        ("pthread_barrier_wait", LockKind::Barrier),
        ("new_sem_wait", LockKind::Semaphore),
        ("sem_wait", LockKind::Semaphore),
        ("sem_timedwait", LockKind::Semaphore),
        ("sem_clockwait", LockKind::Semaphore),
        ("std::sys::sync::condvar::futex::Condvar", LockKind::Condition),
        ("std::sys::sync::mutex::futex::Mutex", LockKind::Mutex),
    ];
    let frames = stack.frames.iter().take(INNER).filter_map(|frame| stacks.place(frame.place));
    let mut names =
        frames.flat_map(|place| &place.functions).map(|function| function.name.trim_start_matches('_'));
    names.find_map(|name| {
        let known = NAMES.iter().find(|(known, _)| name.starts_with(known))?;
        Some(known.1)
    })
}
