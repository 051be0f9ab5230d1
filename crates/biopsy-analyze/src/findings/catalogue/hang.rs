//! What threads and operations wait for at one moment.

use super::about::{About, of_memory};

pub(super) const DEADLOCK: About = About {
    means: "Threads hold what the next one wants, in a circle: none of them ever goes on, and whoever comes by waits behind them.",
    said: &[of_memory(
        "threads wait for each other in a circle; owners are read from the locks (threads of Python and Java too), or inferred from the code \
         that gives them back, which is said",
        "memory of the locks; code, for those that keep no owner",
    )],
    disproved_by: "A second look that shows one of the threads elsewhere; or, where an owner is inferred, that it gave the lock away before.",
    to_do: &[
        "Take the locks in the same order everywhere, or hold only one of them at a time",
        "The process does not recover: take a dump if more is to be known, then restart it",
    ],
};

pub(super) const STRAND_DEADLOCK: About = About {
    means: "Goroutines or tasks wait for each other in a circle, or all of a program wait and nobody is left who could end it.",
    said: &[of_memory(
        "goroutines or tasks wait for each other in a circle, or all goroutines of a program for each other",
        "the runtime's memory; the code ahead of each goroutine",
    )],
    disproved_by: "A second look that shows one of them elsewhere, or something outside that completes what they wait for.",
    to_do: &["Look at the places that are named: who was to send, complete or unlock, and why it did not"],
};

pub(super) const WAITS_FOR_PROCESS: About = About {
    means: "What this process waits for lies in another one: a lock on a file, a child that does not end, a full or empty pipe.",
    said: &[of_memory(
        "a thread waits for another process (a lock on a file, a child, a semaphore, a pipe), and what the one at the end of the chain does: a warning where that one was stopped by a signal. A \
         `deadlock` may lead through processes too, also where they wait at different semaphores or conditions of memory that they share",
        "what `/proc` says at the same time (`stacks`)",
    )],
    disproved_by: "A second look in which it waits for something else.",
    to_do: &["Look at the process at the end of the chain: `biopsy stacks PID`"],
};

pub(super) const SILENT_PEER: About = About {
    means: "Threads wait for an answer of another process of this machine, which has not even read what it was sent: it is that one that hangs.",
    said: &[of_memory(
        "threads wait at a socket for an answer of a process of this machine that has not read what it was sent: a warning where none of its \
         threads runs, reads or waits for data; a notice where its event loop was told of it once and is not told again (`EPOLLET`, a one-shot \
         descriptor), and a warning where that loop is of the same process",
        "what `/proc` says at the same time",
    )],
    disproved_by: "A second look in which the bytes were read, or an answer came.",
    to_do: &[
        "Look at the other process: `biopsy stacks PID`",
        "Give the call a time limit: whoever waits without one hangs with its peer",
    ],
};

pub(super) const NEVER_WOKEN: About = About {
    means: "Somebody waits, and nobody is left who would end that: the signal was lost, is never sent, or its sender is gone.",
    said: &[of_memory(
        "somebody waits, and nobody is left who would end that: goroutines at a wait group that no code ahead of any other counts down \
         (warning) or at a channel that nobody takes from (notice); conditions that no code of the program signals, semaphores whose slots \
         were lost (warning); locks without an owner that no thread, and no goroutine, is about to give back (notice); conditions whose waiters are all that could come to code that signals one (notice); a process all of whose threads wait, without a \
         limit, for what only another of them could give (notice); threads at one \
         monitor of Java that wait for different things (notice)",
        "the runtime's memory; code",
    )],
    disproved_by: "A thread, timer or process that is started later and ends the wait: a second look in which it is over.",
    to_do: &[
        "Look at the place that is named: who was to signal, release or count down, and which way out of it leaves that out",
        "Look a second time with `--looks 3`: what still stands there does not go on by itself",
    ],
};

pub(super) const STUCK_WAIT: About = About {
    means: "Somebody waits for an answer of another part of the program (a future, an event, a barrier, room in a queue), without a limit. At one \
            moment that is usual; who would give the answer, memory does not say.",
    said: &[of_memory(
        "threads other than the main one, goroutines, tasks or async operations wait without a limit for what somebody was to give them (a \
         future, latch, barrier, event, pulse, semaphore, room in a queue, the end of a process that it started; a child that waits until its output \
         is read is named), and nothing says who: a notice from 2 on. Workers that wait \
         for work are left out. Of one, or of the main thread alone, it is an information, and so it is of those at a condition, a \
         semaphore, an atomic, a pulse, a channel, `Atomics.wait` of JavaScript, a `connect`, an `open` or a message queue where nothing else was found: who stands alone first, then the most, who takes work at last. So \
         it is of those who wait for data of a connection whose other end only their own process has, and at last of any connection; of those who \
         wait for room that only their own process could make, and of a process that has called `exit` and whose end waits, it is a notice. Threads that sleep \
         inside of SQLite for the lock of its database are a notice from 2 on, with who did the same work and went on",
        "stacks; the runtime's memory",
    )],
    disproved_by: "A second look in which they stand elsewhere, or wait for the next answer.",
    to_do: &[
        "Look again: `biopsy stacks TARGET --looks 3 --every 2s`",
        "Look at who should complete, set or release what is waited for, on the way of errors too",
    ],
};

pub(super) const ORPHANED_LOCK: About = About {
    means: "The process was forked while another thread of its parent held a lock. In the child nobody can give it back: it waits for ever.",
    said: &[of_memory(
        "the only thread of a process waits for a lock that another thread of its parent held at `fork`",
        "what `/proc` says at the same time (`stacks`)",
    )],
    disproved_by: "The lock lies in memory that is shared with the parent, which can still give it back.",
    to_do: &[
        "After `fork` in a program with threads, call nothing but what is safe in signal handlers until `exec`",
        "Start programs with `posix_spawn`, or take the lock in `pthread_atfork`",
    ],
};

pub(super) const ABANDONED_LOCK: About = About {
    means: "The thread that holds a lock has ended without giving it back. Whoever wants it waits for ever.",
    said: &[of_memory(
        "a lock is held by a thread that is not there any more",
        "memory of the locks, the list of threads",
    )],
    disproved_by: "The owner is a thread that the dump lacks: see whether all threads are in it.",
    to_do: &["Look for a thread that returns, is cancelled or throws between locking and unlocking"],
};

pub(super) const LOCK_QUEUE: About = About {
    means: "At one moment that is usual; where it stays so, what the holder does is the reason.",
    said: &[of_memory(
        "threads wait for one that holds a lock (notice from 2, warning from 5); where that one waits for the end of another thread, what that other one does \
         is told. A moment, not a proof",
        "memory of the locks; code, for those that keep no owner",
    )],
    disproved_by: "A second look in which others wait, or somebody else holds the lock.",
    to_do: &["Look again: `biopsy stacks TARGET --looks 3`", "Do less while the lock is held"],
};

pub(super) const NO_PROGRESS: About = About {
    means: "Threads want a lock and got it at none of several moments. Whoever holds it is stuck, has ended, or takes very long; who that is, \
            could not be read.",
    said: &[of_memory(
        "in several looks at least a second apart, threads that want a lock stand in the same place and did not run in between (warning from \
         one, critical from ten), and neither `deadlock` nor `lock-queue` says whom they wait for",
        "stacks; how often the kernel let each thread run (of dumps: stacks alone)",
    )],
    disproved_by: "A later look that shows one of them elsewhere.",
    to_do: &["Look at the other threads that did not run: one of them most likely has the lock"],
};

pub(super) const STRANDS_WAIT: About = About {
    means: "Very many goroutines stand in one place: they pile up behind what one of them, or somebody outside, does not give.",
    said: &[of_memory(
        "goroutines wait in one place: 5 or more for a lock whose holder does not run (warning) or for a connection of a pool (notice), 100 or \
         more to send (warning), 10,000 or more to receive (notice)",
        "runtime's memory",
    )],
    disproved_by: "Their number falls by itself: a burst that is worked off.",
    to_do: &["Look at who receives, or holds the lock, and what that one waits for"],
};

pub(super) const HELD_UP: About = About {
    means: "Several threads wait in one place, and not where workers rest: far below them is the request or task that they were at. Each needs \
            what somebody else has: a row of a table, an entry of a cache, a connection of a pool.",
    said: &[of_memory(
        "4 threads or more with equal stacks wait at a lock, condition or other futex with 8 functions of the program below it (notice)",
        "stacks",
    )],
    disproved_by: "It is where its workers rest, deep in a framework that counts as the program's own; or a second look finds them elsewhere.",
    to_do: &[
        "Look at the threads that are named as being at work, too: one of them may have what is waited for",
        "Ask the program for its own locks (`SHOW ENGINE INNODB STATUS`, `pg_locks`)",
    ],
};

pub(super) const EQUAL_THREADS: About = About {
    means: "A pool that waits for work looks like this; so do threads that pile up behind something.",
    said: &[of_memory("20 threads or more stand in the same place (warning from 200)", "stacks")],
    disproved_by: "It is the place where the pool waits for work.",
    to_do: &["Compare with a second look: do they grow, and do they still stand there?"],
};

pub(super) const FULL_CHANNEL: About = About {
    means: "Writers wait because a bounded channel is full: whoever should read from it is too slow, or has ended.",
    said: &[of_memory(
        "async operations wait for room in a bounded channel (warning from 10, unless others of the same method have just got through). Threads in two functions or more put into full channels, \
         and every other thread of the program waits for their end or is the main thread asleep (warning)",
        "managed heap; stacks",
    )],
    disproved_by: "The channel is there to slow the writers down, and its reader is at work; of threads: a reader that was asleep.",
    to_do: &["Look at what became of the reader, and whether it writes to who writes to it"],
};

pub(super) const WAITING_OPERATIONS: About = About {
    means: "Many asynchronous operations await one object that does not complete: a semaphore that is not released, a promise that nobody keeps.",
    said: &[of_memory(
        "20 async operations or more await one object (warning from 100), or 50 equal ones await objects of one kind (notice). \
         20 tasks of asyncio or calls of async functions of JavaScript at one `await` of the program (notice, warning from 200)",
        "managed heap; the runtime's memory",
    )],
    disproved_by: "They wait for work, as consumers of a queue do.",
    to_do: &["Look at who should complete the object, on the way of errors, too"],
};
