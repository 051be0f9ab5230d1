//! What a process died of.

use super::about::{About, of_memory};

/// A dump of what crashed.
const SIGNAL: &str = "a signal, the fault address";

pub(super) const NULL_POINTER: About = About {
    means: "The program used an object that is not there: a pointer was null when it was read, written or called.",
    said: &[of_memory("died at a null pointer, or a field of one; or a small number was called", SIGNAL)],
    disproved_by: "The registers at the fault hold no small number: then the address was made by arithmetic.",
    to_do: &["Look in the function that is named for where the pointer comes from, and when it may be null"],
};

pub(super) const STACK_OVERFLOW: About = About {
    means: "A stack was used up, mostly by a function that calls itself without end, sometimes by very large variables on it.",
    said: &[of_memory(
        "died just below the end of a stack",
        "a signal, the fault address, the mapping of the stack",
    )],
    disproved_by: "The stack is short and its frames are small: then the stack pointer was overwritten.",
    to_do: &["Look at the frames that repeat, and what should have ended them"],
};

pub(super) const BAD_POINTER: About = About {
    means: "The program used an address that holds nothing of the kind: freed, overwritten, or made of other data.",
    said: &[of_memory(
        "died at an address that is unmapped, guarded, read-only, not executable, overwritten with text or a pattern of freed memory",
        SIGNAL,
    )],
    disproved_by: "The mapping is missing from the dump alone: see whether it is whole.",
    to_do: &["Run it with AddressSanitizer or Valgrind: the mistake is most likely earlier than the crash"],
};

pub(super) const ABORT: About = About {
    means: "The program, or a library in it, ended itself because it found something wrong: a failed assertion, a damaged heap, a panic.",
    said: &[of_memory(
        "ended itself: a failed check, a panic, an exception that nobody caught; with the message of the C library, the type and text of a C++ \
         exception, the text of a Go panic where they can be read",
        "a signal, functions on the way",
    )],
    disproved_by: "Another process sent the signal: then no thread is in `abort`.",
    to_do: &["Read the message, and look at the frames between `abort` and your own code"],
};

pub(super) const FATAL_SIGNAL: About = About {
    means: "The process died of a signal that says little by itself: an illegal instruction, an arithmetic error, a limit (CPU time, file size), a \
            system call that a filter does not allow; or of one that ends a process which has no function for it: a write to a closed pipe or \
            connection (SIGPIPE), a timer, SIGUSR1; or somebody ended it (SIGTERM, SIGKILL, SIGHUP, SIGINT).",
    said: &[of_memory(
        "died of another signal: critical; a warning where somebody ended it. Signals that leave no core are told of dumps that biopsy made as the \
         process ended (`dump --on crash`): debuggers stop at them, too, where the program handles them",
        "a signal",
    )],
    disproved_by: "The dump was asked for (`gcore`, `SIGQUIT`): then nothing crashed.",
    to_do: &[
        "Look at the instruction and the thread that got the signal",
        "Of SIGPIPE: ignore it, and handle EPIPE where it writes; of SIGTERM and SIGKILL: look who sent it, and why",
    ],
};

pub(super) const UNHANDLED_EXCEPTION: About = About {
    means: "An exception reached the end of a thread, and the runtime ended the process. The exception is the cause; the abort is only its end.",
    said: &[of_memory(
        "a .NET process died of an exception: its type, HRESULT, redacted message, inner exceptions; a Go process ends by a panic that nobody \
         recovered; a process ends itself with another status than 0 behind an exception or a panic (Python, Java, JavaScript, .NET, Go, Rust) that \
         it wrote to its standard error, where that is a file: its runtime because nobody caught it, or, and then that is said, the program itself",
        "runtime's memory; what it wrote last (`dump --on exit!=0`)",
    )],
    disproved_by: "The exception was caught, and something else raised the signal afterwards.",
    to_do: &["Look at the innermost exception and the method that threw it"],
};
