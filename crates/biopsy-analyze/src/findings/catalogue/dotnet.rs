//! What a .NET runtime does, and is made to do.

use super::about::{About, of_dotnet, of_memory, of_recording};

pub(super) const POOL_STARVATION: About = About {
    means: "Threads of the pool block on tasks that need a thread of the pool to complete: everything asynchronous comes late, health checks \
            and timers, too.",
    said: &[
        of_dotnet(
            "2 threads of the pool or more block on tasks at a time on average (`Wait()`, `.Result`, `GetResult()`), for 20 % of the pool's \
             time: names the method. Critical from as many as there are CPUs (4 at least) and 50 %. Without stacks: 4 adjustments of the pool \
             for want of threads",
            "stacks of waits; thread pool events",
        ),
        of_memory(
            "3 threads of the pool or more block until a task completes (warning from 8): names the methods. All workers of a pool of Java or \
             Python wait for tasks in its own queue (critical). All threads of C, C++ or Rust with one outermost function, 2 or more, wait for \
             futures in others that it calls (warning)",
            "stacks, runtime's memory",
        ),
    ],
    disproved_by: "The pool's queue is empty all the time although its threads block.",
    to_do: &[
        "Make the method that is named asynchronous: `await` instead of `.Result` or `.Wait()`",
        "Until then more threads (`ThreadPool.SetMinThreads`) hide it",
    ],
};

pub(super) const EXCEPTION_STORM: About = About {
    means: "Exceptions are thrown all the time, caught or not. Each costs tens of microseconds, and some other work that failed.",
    said: &[
        of_recording(
            "throwing and catching take 10 % of the CPU time (warning from 25 %): C++, Java, JavaScript, panics",
            "CPU samples",
        ),
        of_dotnet(
            "50 exceptions a second are thrown, caught or not (critical from 300, notice from 10): type, place, the function of the class \
         library that threw",
            "exception events",
        ),
    ],
    disproved_by: "A burst at the start that ends by itself.",
    to_do: &[
        "Look at why it is thrown in the method that is named; use the `Try...` form where failing is usual",
    ],
};

pub(super) const REGEX_BACKTRACKING: About = About {
    means: "A regular expression takes the CPU: most likely it tries very many ways to match a text that does not.",
    said: &[
        of_recording(
            "engines of regular expressions that backtrack take 30 % of the CPU time (warning from 60 %, where a thread is busy): PCRE, `std::regex`, Java, V8, Python and others",
            "CPU samples",
        ),
        of_dotnet(
            "half of the CPU time, and 0.3 cores, are in `System.Text.RegularExpressions` (critical from 0.6 cores)",
            "CPU samples",
        ),
    ],
    disproved_by: "Very many short matches, each of which is quick.",
    to_do: &[
        "Give it a time limit, or `RegexOptions.NonBacktracking`",
        "Look at the expression for repetitions inside of repetitions, and at who may choose the text",
    ],
};

pub(super) const ALLOCATION_STORM: About = About {
    means: "One place makes most of the garbage. It costs collections, which all threads feel.",
    said: &[of_dotnet(
        "one place makes 40 % of all bytes, and 100 MB are allocated a second (critical from 400 MB)",
        "allocation samples",
    )],
    disproved_by: "Collections take next to nothing of the time.",
    to_do: &["Reuse buffers (`ArrayPool<T>`), or do not copy, in the method that is named"],
};

pub(super) const GC_PINNED: About = About {
    means: "Many objects may not be moved, so the heap is full of holes around them and collections come more often.",
    said: &[of_dotnet(
        "a collection meets 1,000 pinned objects or more (critical from 2,000 and a collection a second)",
        "collections",
    )],
    disproved_by: "They lie in the pinned heap, where they are in nobody's way.",
    to_do: &[
        "Allocate buffers that must be pinned with `GC.AllocateArray(pinned: true)` or from a pool, once",
    ],
};

pub(super) const GC_PAUSES: About = About {
    means: "All threads stand still for garbage collections, so long or so often that requests feel it.",
    said: &[of_dotnet(
        "all threads stand still 10 % of the time (critical from 25 %, notice from 5 %), or for half a second at once",
        "collections",
    )],
    disproved_by: "The machine gave the collector no CPU: see whether others use the CPUs up.",
    to_do: &[
        "See who allocates, and what lives long",
        "Consider server or concurrent collection, and the memory limit",
    ],
};

pub(super) const GC_LARGE_HEAP: About = About {
    means: "Full collections stop all threads, and a heap of the same process shows one holder that keeps most of what they go through each time.",
    said: &[of_dotnet(
        "three full collections or more stop all threads 10 % of the time (critical from 25 %, notice from 5 %) or for a second at once (notice \
         from half a second), which is at least half of all pauses, and at most half of them were asked for. The heap has 500,000 live objects; one \
         holder keeps a quarter of its bytes and of its objects, with many of one type",
        "collections; a heap",
    )],
    disproved_by: "The same pauses while the holder is empty; or others used up the CPUs that the collector needed.",
    to_do: &[
        "See whether all of that has to be kept: a bound, a shorter time to live",
        "Keep it in fewer objects, or outside of the managed heap",
    ],
};

pub(super) const GC_INDUCED: About = About {
    means: "The program asks for collections itself: they are full and blocking, and make objects old that would have died young.",
    said: &[of_dotnet(
        "the program asks for collections, 3 times or more. Names who asks",
        "collections; CPU samples",
    )],
    disproved_by: "It is asked for once, after a large load that does not come again.",
    to_do: &["Look for `GC.Collect` in the program and its libraries, and leave it out"],
};

pub(super) const BLOCKED_ON_LOCK: About = About {
    means: "Threads wanted a lock before the recording began and did not get it until it ended: most likely a deadlock, or an owner that is stuck.",
    said: &[of_dotnet(
        "threads wait to enter a monitor or `Lock` from the first to the last moment: critical from 2 threads, most likely a deadlock where \
         they wait at different places. Who owns the locks tells `biopsy stacks`",
        "stacks of waits",
    )],
    disproved_by: "The owner does a long piece of work that ends.",
    to_do: &["`biopsy stacks TARGET` names the owners and where they are"],
};

pub(super) const FINALIZER_BLOCKED: About = About {
    means: "The one thread that runs finalizers waits in one of them: nothing that has a finalizer is freed any more, and memory grows.",
    said: &[
        of_dotnet("the finalizer thread waits in a finalizer", "stacks of waits"),
        of_memory("the finalizer thread waits for a lock, and who holds it", "runtime's memory"),
    ],
    disproved_by: "A second look shows it elsewhere: it waited for a moment.",
    to_do: &["Take no locks and wait for nothing in finalizers: release what is native, and no more"],
};
