//! What threads do with their time: run, switch, wait for each other, for disks and for peers.

use super::about::{About, of_dotnet, of_recording};

pub(super) const CPU_BOUND: About = About {
    means: "The process is slow because it computes: a thread has the CPU, or wants it, nearly all the time. It is no fault by itself; a \
            job that is meant to compute looks the same.",
    said: &[of_recording(
        "a thread runs (or is ready to) 70 % of the time, or the process uses 70 % of all CPUs (notice from 40 %). Names the function with 20 % of the CPU time of its own, or the deepest one below which half of it is. A warning where somebody waits for it (connections that others made, or several of its own threads); a job that computes and answers nobody is a notice, and so is a server at full load: 10 % of its CPU time is sending and receiving, and half of it is spread over 12 functions or more",
        "CPU samples, thread states",
    )],
    disproved_by: "Requests that are no faster when that function is made faster, or a recording of a time when all was well that shows \
                   the same.",
    to_do: &[
        "Look at the function that is named, and at who calls it, in the CPU flame graph",
        "Record a time when it is well, and hold both together: `biopsy compare GOOD BAD`",
    ],
};

pub(super) const KERNEL_TIME: About = About {
    means: "The program makes the kernel work: many small system calls, page faults or copies. The kernel is rarely at fault itself.",
    said: &[of_recording(
        "half of the CPU time is inside the kernel, switching aside",
        "CPU samples with kernel frames",
    )],
    disproved_by: "Kernel frames that belong to interrupts of other programs, or a program whose very job it is to move data.",
    to_do: &[
        "Look in the CPU flame graph at the kernel frames below the function that is named",
        "Make fewer and larger calls: larger buffers, batches, fewer mappings",
    ],
};

pub(super) const SWITCH_STORM: About = About {
    means: "Threads hand very small pieces of work to each other, or take turns at a lock for very short times. Each switch costs \
            microseconds and cold caches.",
    said: &[of_recording(
        "20,000 context switches of the threads' own will a second and core in use, or 25 % of the CPU time in the scheduler",
        "thread states, samples",
    )],
    disproved_by: "A server of very many small requests, each of which needs its one switch.",
    to_do: &[
        "See under `activated by` which threads wake each other",
        "Hand over larger pieces of work, or use fewer threads",
    ],
};

pub(super) const LOCK_CONVOY: About = About {
    means: "Threads stand in a row for one lock: more of them make nothing faster. They get on, one at a time; it is not a deadlock.",
    said: &[
        of_recording(
            "3 threads or more queue at one place for a lock, 1.5 of them at a time on average, for 20 % of their time (critical from 50 %). \
             Locks of language runtimes are made of conditions: there 4 threads, half of their time, and nearly all waiting ended by each \
             other are asked for, and it is a warning, or a notice where the place has no name",
            "stacks of waits; or system call and who woke whom",
        ),
        of_dotnet(
            "3 threads or more queue at one place, 1.5 at a time, for 20 % of their time (critical from 50 %): the runtime's own count",
            "contention events",
        ),
    ],
    disproved_by: "Waits that another thread than those in the queue ends: then they are workers without work.",
    to_do: &[
        "Do less while the lock is held, above all nothing that waits",
        "Split the lock, or keep a copy of what is only read",
    ],
};

pub(super) const LOCK_CONTENTION: About = About {
    means: "Threads lose time waiting for locks, but in no one place: several locks, or one that is taken in many places. The threads get on.",
    said: &[of_recording("as `lock-convoy`, in no one place", "stacks of waits")],
    disproved_by: "Waits that turn out to be for work: a pool's own queue is a lock and a condition, too.",
    to_do: &["Look at the waiting flame graph for the callers of the lock functions"],
};

pub(super) const SINGLE_THREAD_BOTTLENECK: About = About {
    means: "One thread does the work that all others wait for, and it has no time left. More CPUs or more of the others do not help.",
    said: &[of_recording(
        "one thread runs 85 % of the time and ends half of what the others wait for locks and conditions, and 0.8 threads wait for it on average (warning from 1.5, critical from 3). Threads that a runtime has for its own work do not count",
        "thread states, wake-ups",
    )],
    disproved_by: "Others that wait just as long while that thread is idle.",
    to_do: &[
        "Look at that thread's CPU flame graph",
        "Make its work cheaper, or spread it over several threads",
    ],
};

pub(super) const DISK_BOUND: About = About {
    means: "Threads wait for the disk: reads that no cache had, or writes that must be safe before the program goes on.",
    said: &[of_recording(
        "a thread waits 50 % of the time for disks (critical from 75 %, notice from 30 %); or, *through others*: threads wait for each other, and those who end their waits had just waited for a disk, one thread's worth in all; or a thread *flushes again and again*: waiting and the kernel's work in `fsync` and its like, 50 times a second, counted together",
        "kernel frames or system call of waits; without a trace the kernel's own account",
    )],
    disproved_by: "A thread whose only task is to write in the background while nobody waits for it.",
    to_do: &[
        "See in the waiting flame graph which calls wait, and for which file",
        "Write and flush several records at once; keep what is read often in memory",
    ],
};

pub(super) const SLOW_PEER: About = About {
    means: "The process waits for answers from somewhere else: what is slow is another server, or the way to it.",
    said: &[of_recording(
        "a thread receives from sockets 50 % of the time, in 5 waits or more of 5 ms or more each, of a process that asks others. Silent where all its connections were made by others: a server at rest; a notice where the side cannot be told, or where a thread that is recorded too ends the waits. Names the function in which most is waited, and the peer",
        "waits, lists of sockets",
    )],
    disproved_by: "The peer is a client of this process that has nothing to ask: then the wait is idleness.",
    to_do: &[
        "Capture the peer at the same time, if it is yours",
        "See whether calls could go out together instead of one after another",
    ],
};

pub(super) const SLEEP_LOOP: About = About {
    means: "The program looks again and again whether something has happened, and sleeps in between. Each look comes late by up to the \
            length of the sleep. A deliberate pace looks the same and is fine.",
    said: &[of_recording(
        "a thread sleeps 50 % of the time, 20 times a second or more, and neither runs a quarter of the time nor waits for something else a tenth of it",
        "waits",
    )],
    disproved_by: "The pace is meant: a rate limit, a timer, a heart-beat.",
    to_do: &["See what the function waits for, and whether it can be told instead of looking"],
};
