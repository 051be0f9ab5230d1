//! What it means that a process ended through certain functions, and what the C library says before it aborts. Data.

/// Beginnings of function names on the stack of the crash, and what they mean; what says more stands first.
#[rustfmt::skip]
const BY_FUNCTION: &[(&str, &str)] = &[
    // C and its library.
    ("__stack_chk_fail", "a buffer on the stack overflowed: the canary behind it was overwritten"),
    ("__fortify_fail", "a checked function of the C library found a buffer overflow"),
    ("__chk_fail", "a checked function of the C library found a buffer overflow"),
    ("malloc_printerr", "the heap is damaged, or memory was freed twice"),
    ("__assert_fail", "an assertion failed"),
    // C++.
    ("__cxa_pure_virtual", "a pure virtual function was called"),
    ("__cxa_call_terminate", "a C++ exception left a function that is `noexcept`"),
    // Clean-up on the way there comes first: then nothing of the throw is on the stack any more, and who calls this has no name.
    ("__gxx_personality_v0", "a C++ exception left a function that is `noexcept`"),
    ("__cxa_throw", "a C++ exception was not caught"),
    ("__cxa_rethrow", "a C++ exception was not caught"),
    ("std::thread::~thread", "a `std::thread` was destroyed while it runs"),
    ("std::terminate", "a C++ exception was not caught, or `std::terminate` was called"),
    ("__cxxabiv1::__terminate", "a C++ exception was not caught, or `std::terminate` was called"),
    // Rust's handler of SIGSEGV: it says so and aborts, and lets every other fault happen again.
    ("std::sys::pal::unix::stack_overflow", OVERFLOWED),
    ("std::sys::unix::stack_overflow", OVERFLOWED),
    // Rust: core::panicking and the functions that call it with a text of their own.
    ("core::panicking::panic_bounds_check", "a Rust panic: an index out of bounds"),
    ("core::slice::index::slice_", "a Rust panic: the range of a slice out of bounds"),
    ("core::str::slice_error_fail", "a Rust panic: the range of a string out of bounds or inside of a character"),
    ("core::option::unwrap_failed", "a Rust panic: `unwrap` of a `None`"),
    ("core::option::expect_failed", "a Rust panic: `expect` of a `None`"),
    ("core::result::unwrap_failed", "a Rust panic: `unwrap` or `expect` of an `Err`"),
    ("core::cell::panic_already", "a Rust panic: a `RefCell` that is borrowed already"),
    ("core::panicking::panic_const::panic_const_div_by_zero", "a Rust panic: a division by zero"),
    ("core::panicking::panic_const::panic_const_rem_by_zero", "a Rust panic: a division by zero"),
    ("core::panicking::panic_const", "a Rust panic: an overflow in arithmetic"),
    ("core::panicking::assert_failed", "a Rust panic: an assertion failed"),
    ("core::panicking::panic_in_cleanup", "a Rust panic while another one cleaned up"),
    ("core::panicking::panic_cannot_unwind", "a Rust panic left a function that cannot unwind"),
    ("alloc::alloc::handle_alloc_error", "out of memory: an allocation of Rust failed"),
    ("core::panicking", "a Rust panic"),
    ("rust_panic", "a Rust panic"),
    // Java.
    ("report_java_out_of_memory", "java.lang.OutOfMemoryError: the Java heap is full, and the virtual machine was told to crash then"),
    ("MemAllocator::Allocation::check_out_of_memory", "java.lang.OutOfMemoryError: the Java heap is full, and the virtual machine was told to exit then"),
    ("vm_exit_out_of_memory", "the Java virtual machine got no memory from the system"),
    ("report_vm_out_of_memory", "the Java virtual machine got no memory from the system"),
    ("VMError::report_and_die", "the Java virtual machine found a fatal error"),
    // JavaScript.
    ("v8::internal::V8::FatalProcessOutOfMemory", "the JavaScript heap is out of memory"),
    ("v8::internal::FatalProcessOutOfMemory", "the JavaScript heap is out of memory"),
    ("node::OOMErrorHandler", "the JavaScript heap is out of memory"),
    ("v8::internal::Isolate::CreateMessageOrAbort", "a JavaScript exception was not caught, and Node was told to abort then"),
    ("node::errors::TriggerUncaughtException", "a JavaScript exception was not caught"),
    ("V8_Fatal", "V8 found a fatal error"),
    ("node::OnFatalError", "Node found a fatal error"),
    ("node::Abort", "Node ended itself"),
    // Python.
    ("fatal_error", "Python found a fatal error"),
    ("_Py_FatalError", "Python found a fatal error"),
    // Go: the functions that compiled code calls, then how panics end.
    ("runtime.panicmem", "a Go panic: a nil pointer was used"),
    ("runtime.goPanicIndex", "a Go panic: an index out of range"),
    ("runtime.goPanicSlice", "a Go panic: the bounds of a slice out of range"),
    ("runtime.panicIndex", "a Go panic: an index out of range"),
    ("runtime.panicSlice", "a Go panic: the bounds of a slice out of range"),
    ("runtime.panicdivide", "a Go panic: a division by zero"),
    ("runtime.panicdottype", "a Go panic: an interface holds another type than was asserted"),
    ("runtime.panicnildottype", "a Go panic: an interface that was asserted is nil"),
    ("runtime.panicshift", "a Go panic: a negative shift"),
    ("runtime.closechan", "a Go panic: a channel was closed that is closed or nil"),
    ("runtime.chansend", "a Go panic: something was sent to a closed channel"),
    ("sync.(*WaitGroup).Add", "a Go panic: a wait group was counted down below zero, or misused"),
    ("runtime.checkdead", ALL_ASLEEP),
    // Throws where a stack may not become larger (and where the runtime itself is broken).
    ("runtime.newstack", OVERFLOWED),
    ("runtime.fatalpanic", "a Go panic"),
    ("runtime.fatalthrow", "a fatal error of Go's runtime"),
    ("runtime.throw", "a fatal error of Go's runtime"),
    ("runtime.gopanic", "a Go panic"),
    ("runtime.dieFromSignal", "a Go panic, or a fatal error of its runtime"),
    // .NET.
    ("PROCAbort", "the .NET runtime ended the process: an unhandled exception, or a fatal error of the runtime"),
];

/// The runtime of a language found that a stack is full, and ended the process.
pub(crate) const OVERFLOWED: &str = "the stack overflowed, which the runtime of the language found";

/// Go's runtime found that nobody can go on.
pub(crate) const ALL_ASLEEP: &str = "all goroutines are asleep: a deadlock";

/// Beginnings of what Go's maps are used by.
const MAPS: [&str; 5] = [
    "runtime.mapassign",
    "runtime.mapaccess",
    "runtime.mapiter",
    "runtime.mapdelete",
    "internal/runtime/maps.",
];

/// What the functions of a stack say of the reason.
pub(crate) fn by_functions<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'static str> {
    let first = |name: &str| BY_FUNCTION.iter().position(|(known, _)| name.starts_with(known));
    let is_map = |name: &str| MAPS.iter().any(|of_map| name.starts_with(of_map));
    let (mut found, mut inner) = (None, "");
    for name in names {
        // A map ends the program itself: what it calls (a hash, the allocator) may have other reasons.
        let dies = inner.starts_with("runtime.fatal") || inner == "runtime.throw";
        if dies && is_map(name) {
            return Some("a fatal error of Go's runtime: a map was used by several goroutines at once");
        }
        if inner == "runtime.gopanic" && name.starts_with("runtime.mapassign") {
            return Some("a Go panic: something was put into a map that is nil");
        }
        found = found.into_iter().chain(first(name)).min();
        inner = name;
    }
    BY_FUNCTION.get(found?).map(|(_, words)| *words)
}

/// The same by the message that glibc aborts with: a C library whose internal functions have no names tells it all the same
/// (malloc/malloc.c, debug/, assert/assert.c).
pub(super) fn by_message(message: &str) -> Option<&'static str> {
    const HEAP: &[&str] = &[
        "free(): ",
        "malloc(): ",
        "realloc(): ",
        "calloc(): ",
        "malloc_consolidate(): ",
        "munmap_chunk(): ",
        "mremap_chunk(): ",
        "malloc_check_get_size: ",
        "double free or corruption",
        "corrupted ",
        "break adjusted to free malloc space",
    ];
    if HEAP.iter().any(|beginning| message.starts_with(beginning)) {
        return Some("the heap is damaged, or memory was freed twice");
    }
    if message.starts_with("*** stack smashing detected") {
        return Some("a buffer on the stack overflowed: the canary behind it was overwritten");
    }
    if message.starts_with("*** buffer overflow detected") {
        return Some("a checked function of the C library found a buffer overflow");
    }
    (message.contains(": Assertion `") && message.trim_end().ends_with("' failed."))
        .then_some("an assertion failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_c_library_says_of_the_reason() {
        let said = |message| by_message(message).map(|reason| reason.split(' ').next().unwrap_or_default());
        for heap in [
            "free(): double free detected in tcache 2",
            "corrupted size vs. prev_size",
            "malloc(): invalid size",
        ] {
            assert!(by_message(heap).unwrap().contains("freed twice"), "{heap}");
        }
        assert_eq!(said("*** stack smashing detected ***: terminated"), Some("a"));
        assert_eq!(said("server: pool.c:12: take: Assertion `count > 0' failed."), Some("an"));
        assert_eq!(said("my own words about free(): nothing"), None);
    }

    #[test]
    fn the_function_that_says_most_decides() {
        let of = |names: &[&'static str]| by_functions(names.iter().copied());
        let bounds =
            ["abort", "rust_panic", "core::panicking::panic_fmt", "core::panicking::panic_bounds_check"];
        assert_eq!(of(&bounds), Some("a Rust panic: an index out of bounds"));
        assert_eq!(of(&bounds[..3]), Some("a Rust panic"));
        assert_eq!(of(&["std::terminate", "__cxa_throw", "load"]), Some("a C++ exception was not caught"));
        assert_eq!(of(&["raise", "abort", "main"]), None);
        let nil = ["runtime.fatalpanic", "runtime.gopanic", "runtime.mapassign_faststr", "main.put"];
        assert_eq!(of(&nil), Some("a Go panic: something was put into a map that is nil"));
        let at_once = of(&["runtime.fatalthrow", "runtime.fatal", "runtime.mapassign_faststr", "main.put"]);
        assert!(at_once.unwrap().ends_with("by several goroutines at once"), "{at_once:?}");
        assert_eq!(of(&["runtime.fatalthrow", "runtime.fatal", "runtime.checkdead"]), Some(ALL_ASLEEP));
        assert_eq!(of(&["runtime.throw", "runtime.newstack", "runtime.morestack"]), Some(OVERFLOWED));
        let rust = ["abort", "std::sys::pal::unix::stack_overflow::imp::signal_handler", "realloc"];
        assert_eq!(of(&rust), Some(OVERFLOWED));
        let noexcept = of(&["raise", "abort", "__gxx_personality_v0", "_Unwind_Resume", "settle"]);
        assert_eq!(noexcept, Some("a C++ exception left a function that is `noexcept`"));
        // A key that cannot be hashed, and no memory for a larger map.
        let hash = ["runtime.gopanic", "runtime.typehash", "runtime.mapassign", "main.put"];
        assert_eq!(of(&hash), Some("a Go panic"));
        let memory = ["runtime.throw", "runtime.mallocgc", "runtime.mapassign_faststr", "main.put"];
        assert_eq!(of(&memory), Some("a fatal error of Go's runtime"));
    }

    /// Each name says what stands behind it: none is shadowed by a shorter one before it.
    #[test]
    fn no_name_hides_another() {
        for (name, words) in BY_FUNCTION {
            assert_eq!(by_functions([*name].into_iter()), Some(*words), "{name}");
            assert_eq!(by_functions(["raise", name, "main"].into_iter()), Some(*words), "{name}");
        }
    }

    #[test]
    fn messages_of_the_c_library_are_known_by_their_beginning() {
        for (message, words) in [
            ("free(): invalid pointer", Some("freed twice")),
            ("malloc(): unaligned tcache chunk detected", Some("freed twice")),
            ("realloc(): invalid next size", Some("freed twice")),
            ("munmap_chunk(): invalid pointer", Some("freed twice")),
            ("corrupted double-linked list", Some("freed twice")),
            ("double free or corruption (fasttop)", Some("freed twice")),
            ("*** buffer overflow detected ***: terminated", Some("buffer overflow")),
            ("a.out: a.c:3: main: Assertion `0' failed.\n", Some("assertion")),
            ("a.out: a.c:3: main: Assertion `0' failed. And more", None),
            ("free()", None),
            ("", None),
            ("terminate called without an active exception", None),
        ] {
            let said = by_message(message);
            assert_eq!(said.is_some(), words.is_some(), "{message}");
            assert!(said.unwrap_or_default().contains(words.unwrap_or_default()), "{message}: {said:?}");
        }
    }
}
