//! What gets more and more.

use super::about::{About, of_dotnet, of_recording};

pub(super) const RUNAWAY_THREADS: About = About {
    means: "Threads are started and do not end. Each costs memory, and one day no more can be started.",
    said: &[of_recording(
        "8 more threads (those that a .NET runtime starts for listeners, and fewer than 100 with those of its pool, aside) at the end than at the start, a third more, and still growing",
        "thread starts; metrics",
    )],
    disproved_by: "A pool that grows to its size under new load, and stops there.",
    to_do: &[
        "Look at where the new ones wait, and at who starts them",
        "Record longer: does the number come to rest?",
    ],
};

pub(super) const MEMORY_GROWTH: About = About {
    means: "Memory grows steadily. Growth is what is seen; whether it is a leak, a cache that fills, or work that piles up, it does not say.",
    said: &[of_recording(
        "anonymous memory grows by 8 MB and 10 %, in a straight line, to the end. Critical when a limit is less than an hour away. Of .NET: silent below 64 MB and a notice above while there were fewer than three collections, since until then a heap only fills its room; a notice below 32 MB; says when the growth is outside of the managed heap. A notice below 64 MB of a virtual machine (Java, Node, Go), and of a job that computes all the time and answers nobody: a compiler takes what its work needs",
        "metrics; page faults in samples say where",
    )],
    disproved_by: "It comes to rest: a cache at its bound, a heap that is collected at last.",
    to_do: &[
        "Record longer, or again in an hour: does it come to rest?",
        "Of .NET: take two snapshots some time apart (`biopsy snapshot`), and see which type grew and what keeps it",
    ],
};

pub(super) const KEPT_ALLOCATIONS: About = About {
    means: "Native memory (`malloc`, `operator new` and their like) is allocated at one place and most of it is not given back. The function that \
            allocates is named; a leak, a cache that fills and work that has only begun look the same.",
    said: &[of_recording(
        "`--allocations`, of a native process: at one place ten sampled allocations or more were not given back, 1 MB and 1 MB a minute of them, \
         a quarter of all that was not given back, and half of what is allocated there. A warning while the memory of the process grows, a notice \
         otherwise. Says for how much of the time allocations were watched: what was given back in between was not seen",
        "allocations",
    )],
    disproved_by: "A later recording in which the place keeps nothing: it was set up once, or the cache is full.",
    to_do: &[
        "Look who should give back what is allocated there, and on which way out it does not",
        "Record again later: a cache comes to its bound, a leak does not",
    ],
};

pub(super) const MEMORY_IN_USE: About = About {
    means: "A profile of the heap says where the memory was allocated that is in use at that moment. It is no fault by itself.",
    said: &[of_recording(
        "always, of a profile that has allocations and no time (a heap profile of Go). One place is named from a quarter of what is in use on",
        "allocations",
    )],
    disproved_by: "Nothing: it says what the profile has. What is in use is not what grows.",
    to_do: &[
        "Take another profile later: what has become more is what grows",
        "Look who holds what is allocated there",
    ],
};

pub(super) const GROWING_TYPE: About = About {
    means: "Memory grows, and a heap of the same process shows one type that accounts for it. Not who keeps the objects.",
    said: &[of_recording(
        "memory grows (as `memory-growth`), and in a heap snapshot of the same process one type has a quarter of the live bytes, and at least \
         half as many as memory grew by. Not who holds them. Silent where three snapshots say that there is ever less more of it",
        "metrics or runtime events; a heap",
    )],
    disproved_by: "A second snapshot in which that type has not grown.",
    to_do: &[
        "See in the snapshot what keeps the objects of that type",
        "Take a second snapshot, and see whether it is the same that grows",
    ],
};

pub(super) const KEPT_BY_ALLOCATOR: About = About {
    means: "The program has given memory back, and its allocator keeps it instead of returning it to the system: free blocks lie between used \
            ones, each arena keeps its own, or threads keep them. The process looks larger than what it uses.",
    said: &[of_recording(
        "in a snapshot, at least 64 MB and a quarter of the memory of the process are free blocks of its allocator; a warning from 256 MB and half \
         on. Tells how many arenas have how much of it",
        "a snapshot",
    )],
    disproved_by: "A moment later most of it is in use again: the program needs that much at its peaks.",
    to_do: &[
        "See whether memory stays at its peak after load has gone: then it is kept, and not leaked",
        "Fewer arenas (`MALLOC_ARENA_MAX=2`), returning memory (`malloc_trim`, `MALLOC_TRIM_THRESHOLD_`), or an allocator that returns it",
    ],
};

pub(super) const LEAK: About = About {
    means: "The same holder keeps more objects in each snapshot than in the one before. Type, holder and field are named; whether somebody \
            still needs the objects, no snapshot says.",
    said: &[of_recording(
        "three snapshots or more of one process (`biopsy snapshot --every`, `--into`, `capture --snapshots`); at one place in the tree of holders there are more \
         objects each time, that keep 1 MiB and 3 % more alive than at first, and the last interval grew 0.4 times as fast as those before it \
         or faster. Silent for what came to rest: a cache at its bound, a warm-up, a burst; of native memory also where the \
         process itself does not grow any more at the end of the recording. Where allocations were recorded beside them \
         (`--allocations`), it names the function that allocates most of the type",
        "heap snapshots",
    )],
    disproved_by: "A later snapshot in which the place has not grown.",
    to_do: &[
        "Look who adds to the holder that is named, and who should remove from it",
        "Ask who leads there: `biopsy heap FILE --path-to TYPE`",
    ],
};

pub(super) const NEVER_RELEASED: About = About {
    means: "Event handlers, timers or callbacks of cancellation tokens keep a large part of a .NET heap alive; or load contexts that were told \
            to unload are still there; or objects wait for their finalizer. Whose they are is named.",
    said: &[of_recording(
        "1,000 handlers of one event, timers or callbacks of tokens that live long that call objects of one type and keep 4 MiB and 10 % of \
         what is alive (a notice: one moment cannot say whether they are needed); as many objects in the finalizer queue; three load contexts \
         told to unload that something still leads to",
        "a heap snapshot from memory",
    )],
    disproved_by: "The program needs all of them at that moment: as many clients are connected, as many documents are open.",
    to_do: &[
        "Look where the objects that are named end, and release what they have registered there",
        "Take three snapshots: `biopsy snapshot --every`. What grows each time is a leak",
    ],
};

pub(super) const WASTED_MEMORY: About = About {
    means: "A large part of a .NET heap would not be needed: strings of equal contents, collections with nothing in them or with far too much \
            room, arrays that are mostly empty.",
    said: &[of_recording(
        "one of these wastes 8 MiB and 15 % of what is alive. Of strings it is counted which are equal; what they say is neither kept nor shown",
        "a heap snapshot from memory",
    )],
    disproved_by: "The room is about to be filled: the snapshot was taken while a cache or a table was being loaded.",
    to_do: &["Look where the field that is named is filled"],
};

pub(super) const DESCRIPTOR_GROWTH: About = About {
    means: "Files or sockets are opened and not closed. At the limit of descriptors the process can open nothing, and accept no one.",
    said: &[of_recording(
        "open descriptors grow by 16 and 20 %, in a straight line, to the end. Names the file, the peer and state of the sockets, or the address at which \
         connections were accepted, that there are most more of, and the function that opens them",
        "metrics; lists of descriptors at start and end; CPU samples",
    )],
    disproved_by: "More clients are connected than before, and each has its one socket.",
    to_do: &["Look at what is opened most, and who should close it, on the way of errors, too"],
};

pub(super) const MANAGED_HEAP_GROWTH: About = About {
    means: "More is alive after each stretch of garbage collections: something keeps objects. What, only a snapshot tells.",
    said: &[of_dotnet(
        "what is left after collections grows by 16 MB and 30 %, from each third of the recording to the next",
        "collections, memory of the process, counters",
    )],
    disproved_by: "It comes to rest when caches are full or the load goes.",
    to_do: &["Take two snapshots some time apart (`biopsy snapshot`): which type grew, and what keeps it"],
};

pub(super) const HEAP_FRAGMENTATION: About = About {
    means: "The heap is full of holes between large objects that live long: memory is used that holds nothing.",
    said: &[of_dotnet(
        "30 % of the heap, and 64 MB, are free room between objects, and most of the heap are large objects",
        "counters, collections",
    )],
    disproved_by: "The free room goes after the next full, compacting collection.",
    to_do: &[
        "Take large buffers from `ArrayPool<T>`, in few sizes, or read in pieces of less than 85,000 bytes",
        "`GCSettings.LargeObjectHeapCompactionMode` closes the holes once, at the price of a long pause",
    ],
};

pub(super) const TIMER_GROWTH: About = About {
    means: "Timers, or tokens that cancel after a time, are made and never disposed. The runtime keeps each, and all its callback refers to.",
    said: &[of_dotnet(
        "active timers rise at each reading, by 500 and by half",
        "counters; CPU samples say who makes them",
    )],
    disproved_by: "As many requests with a time limit are open at once as there are timers.",
    to_do: &["Dispose timers and `CancellationTokenSource`s with the object they belong to"],
};
