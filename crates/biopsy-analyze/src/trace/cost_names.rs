//! Names of functions that a program pays for without doing its own work. Data: no list of names is ever complete, and what is not
//! in it stays the program's own.

use crate::trace::function::{FunctionKind, FunctionRow};

/// What is paid for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Cost {
    /// Memory from the allocator and back.
    Allocation,
    /// Garbage is looked for and collected.
    Collection,
    /// Throwing and catching, with the stack that is written into an exception.
    Exceptions,
    /// The engine of a kind of regular expression that backtracks.
    Regex,
    /// Pages that are touched for the first time.
    PageFaults,
    /// Memory is asked from the kernel or given back to it.
    Mappings,
    /// Files are written through to the disk.
    Flush,
    /// Processes and threads are started and end.
    Processes,
    /// Sending and receiving.
    Sockets,
}

impl Cost {
    /// Inside of the other one it is counted by itself.
    pub(crate) fn is_apart_from(self, outer: Cost) -> bool {
        match self {
            Cost::PageFaults | Cost::Mappings | Cost::Collection => outer == Cost::Allocation,
            Cost::Allocation
            | Cost::Exceptions
            | Cost::Regex
            | Cost::Flush
            | Cost::Processes
            | Cost::Sockets => false,
        }
    }
}

/// What a function costs, by its name.
pub(crate) fn cost_of(row: &FunctionRow) -> Option<Cost> {
    match row.kind {
        FunctionKind::Kernel => of_kernel(&row.name),
        FunctionKind::Native | FunctionKind::Jit => of_user(row),
        FunctionKind::Unknown | FunctionKind::Heading => None,
    }
}

fn of_kernel(name: &str) -> Option<Cost> {
    let bare = name.split('.').next().unwrap_or(name);
    let call = bare.split_once("_sys_").map_or(bare, |(_, call)| call);
    let named = |list: &[(&[&str], Cost)]| {
        list.iter().find(|(names, _)| names.contains(&call)).map(|(_, cost)| *cost)
    };
    named(KERNEL)
}

#[rustfmt::skip]
const KERNEL: &[(&[&str], Cost)] = &[
    (&["asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault", "do_mem_abort"], Cost::PageFaults),
    (&["madvise", "do_madvise", "munmap", "mmap", "mmap_pgoff", "ksys_mmap_pgoff", "brk", "mremap"], Cost::Mappings),
    (&["fsync", "fdatasync", "msync", "syncfs", "sync", "sync_file_range", "do_fsync", "vfs_fsync_range"], Cost::Flush),
    (&["clone", "clone3", "fork", "vfork", "kernel_clone", "execve", "execveat", "do_exit", "do_group_exit", "exit_group", "wait4", "waitid"], Cost::Processes),
    (&["sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "connect", "accept4", "sock_write_iter", "sock_read_iter",
       "sock_sendmsg", "sock_recvmsg"], Cost::Sockets),
];

fn of_user(row: &FunctionRow) -> Option<Cost> {
    if let Some((_, cost)) = MODULES.iter().find(|(prefix, _)| row.module.starts_with(prefix)) {
        return Some(*cost);
    }
    if !row.named {
        return None;
    }
    let name = row.name.as_str();
    let bare = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    let bare = bare.strip_prefix("GI_").unwrap_or(bare).trim_start_matches('_');
    if let Some((_, cost)) = EXACT.iter().find(|(names, _)| names.contains(&bare)) {
        return Some(*cost);
    }
    BEGINNINGS
        .iter()
        .find(|(prefixes, _)| prefixes.iter().any(|prefix| bare.starts_with(prefix)))
        .map(|(_, cost)| *cost)
}

/// Libraries that do nothing else.
const MODULES: &[(&str, Cost)] = &[
    ("libjemalloc", Cost::Allocation),
    ("libmimalloc", Cost::Allocation),
    ("libtcmalloc", Cost::Allocation),
    ("libonig", Cost::Regex),
    ("libpcre", Cost::Regex),
];

/// Whole names, without underscores before them.
#[rustfmt::skip]
const EXACT: &[(&[&str], Cost)] = &[
    (&["malloc", "free", "calloc", "realloc", "cfree", "memalign", "posix_memalign", "aligned_alloc", "reallocarray", "int_malloc",
       "int_free", "int_realloc", "malloc_consolidate", "libc_malloc", "libc_free", "libc_calloc", "libc_realloc", "unlink_chunk",
       "rust_alloc", "rust_dealloc", "rust_realloc", "rust_alloc_zeroed", "rdl_alloc", "rdl_dealloc", "g_malloc", "g_free", "g_slice_alloc",
       "tc_malloc", "tc_free", "mi_malloc", "mi_free", "je_malloc", "je_free", "Znwm", "Znam", "ZdlPv", "ZdlPvm", "ZdaPv",
       "runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice", "runtime.newarray"], Cost::Allocation),
    (&["gc_collect_main", "gc_collect_generations", "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcAssistAlloc1",
       "runtime.gcDrain", "runtime.gcDrainN", "runtime.bgsweep", "runtime.bgscavenge", "runtime.sweepone", "runtime.gcStart",
       "runtime.wbBufFlush", "runtime.gcMarkDone", "runtime.gcMarkTermination", "ConcurrentGCThread::run"], Cost::Collection),
    (&["Unwind_RaiseException", "Unwind_Resume", "Unwind_Find_FDE", "Unwind_Resume_or_Rethrow", "cxa_throw", "cxa_rethrow",
       "cxa_allocate_exception", "cxa_free_exception", "cxa_begin_catch", "cxa_end_catch", "gxx_personality_v0", "rust_eh_personality",
       "JVM_FillInStackTrace", "Java_java_lang_Throwable_fillInStackTrace", "java_lang_Throwable::fill_in_stack_trace",
       "java.lang.Throwable.fillInStackTrace", "java.lang.Throwable.<init>", "runtime.gopanic"], Cost::Exceptions),
    (&["(regular expression)", "regexec", "re_search", "re_match", "re_search_internal", "pattern_match"], Cost::Regex),
];

/// How names begin, without underscores before them.
#[rustfmt::skip]
const BEGINNINGS: &[(&[&str], Cost)] = &[
    (&["operator new", "operator delete", "CollectedHeap::", "MemAllocator::", "OptoRuntime::new_", "InstanceKlass::allocate_instance",
       "v8::internal::Heap::AllocateRaw", "Builtins_AllocateIn"], Cost::Allocation),
    (&["v8::internal::Heap::CollectGarbage", "v8::internal::Heap::Scavenge", "v8::internal::Scavenge", "v8::internal::MarkCompact",
       "v8::internal::ConcurrentMarking", "v8::internal::Sweeper", "v8::internal::MinorMarkCompact", "v8::internal::MinorGC",
       "v8::internal::IncrementalMarking", "v8::internal::MarkingVisitor", "VM_G1", "VM_GenCollect", "VM_Collect", "VM_Parallel", "G1ParTask", "G1Evacuate", "G1CMConcurrent",
       "GangWorker::run", "PSScavenge", "PSParallelCompact", "ZDriver", "ZMark", "ShenandoahControl"], Cost::Collection),
    (&["OptoRuntime::handle_exception", "OptoRuntime::rethrow", "SharedRuntime::raw_exception_handler", "SharedRuntime::compute_compiled_exc_handler",
       "InterpreterRuntime::exception_handler", "Runtime1::exception_handler", "Exceptions::_throw", "v8::internal::Isolate::Throw",
       "v8::internal::Isolate::CaptureSimpleStackTrace", "v8::internal::Isolate::CaptureAndSetErrorStack", "v8::internal::ErrorUtils::Construct",
       "Builtins_ErrorConstructor"], Cost::Exceptions),
    (&["Builtins_RegExp", "v8::internal::RegExp", "v8::internal::NativeRegExp", "v8::internal::IrregexpInterpreter", "java.util.regex.",
       "sre_ucs", "sre_SRE", "std::__detail::_Executor", "std::__detail::__regex_algo", "std::regex_", "boost::re_detail", "pcre_", "pcre2_",
       "onig_", "S_regmatch", "Perl_regexec", "php_pcre_"], Cost::Regex),
];

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::Nanos;

    fn row(kind: FunctionKind, module: &str, name: &str) -> FunctionRow {
        FunctionRow {
            name: name.to_owned(),
            module: module.to_owned(),
            kind,
            named: true,
            whose: crate::whose::Whose::Program,
            file: None,
            line: None,
            cpu_self: Nanos(0),
            cpu_total: Nanos(0),
            wait_self: Nanos(0),
            wait_total: Nanos(0),
        }
    }

    #[test]
    fn names_tell_what_is_paid_for() {
        let (kernel, native) = (FunctionKind::Kernel, FunctionKind::Native);
        for (kind, module, name, cost) in [
            (kernel, "", "asm_exc_page_fault", Some(Cost::PageFaults)),
            (kernel, "", "__x64_sys_madvise", Some(Cost::Mappings)),
            (kernel, "", "__arm64_sys_fdatasync", Some(Cost::Flush)),
            (kernel, "", "do_syscall_64", None),
            (native, "libc.so.6", "__GI___libc_malloc", Some(Cost::Allocation)),
            (native, "libc.so.6", "_int_free", Some(Cost::Allocation)),
            (native, "libstdc++.so.6", "operator new(unsigned long)", Some(Cost::Allocation)),
            (native, "libstdc++.so.6", "__cxa_throw", Some(Cost::Exceptions)),
            (native, "shop", "free_list", None),
            (native, "shop", "pattern_matches", None),
            (native, "libpcre2-8.so.0", "match", Some(Cost::Regex)),
            (native, "shop", "match", None),
            (FunctionKind::Jit, "[javascript]", "(regular expression)", Some(Cost::Regex)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern$Loop.match", Some(Cost::Regex)),
            (FunctionKind::Unknown, "", "malloc", None),
        ] {
            assert_eq!(cost_of(&row(kind, module, name)), cost, "{name} of {module}");
        }
    }
}
