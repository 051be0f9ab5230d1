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
    /// Keys, hashes, handshakes.
    Cryptography,
    /// Packing and unpacking.
    Compression,
    /// Objects become text or bytes, and back.
    Serialization,
    /// Code and patterns are compiled while the program runs.
    Compilation,
    /// Sorting.
    Sorting,
    /// Copying and moving of memory, of items of arrays.
    Copying,
    /// Texts are joined.
    Joining,
    /// Texts and lists are searched from one end to the other.
    Searching,
    /// Numbers and times become text.
    Formatting,
    /// Tables of hashes are asked.
    Lookups,
    /// The clock is read.
    Clock,
    /// The CPU is given back for a moment: whoever does it in a loop waits without sleeping.
    Yielding,
}

/// All of them, in words.
pub(crate) const WORDS: &[(Cost, &str)] = &[
    (Cost::Allocation, "allocation of memory"),
    (Cost::Collection, "garbage collection"),
    (Cost::Exceptions, "throwing and catching exceptions"),
    (Cost::Regex, "matching of regular expressions"),
    (Cost::PageFaults, "page faults"),
    (Cost::Mappings, "taking memory from the kernel and giving it back"),
    (Cost::Flush, "flushing files to the disk"),
    (Cost::Processes, "starting and ending processes and threads"),
    (Cost::Sockets, "sending and receiving"),
    (Cost::Cryptography, "cryptography"),
    (Cost::Compression, "compressing and unpacking"),
    (Cost::Serialization, "turning objects into text or bytes and back"),
    (Cost::Compilation, "compiling code or patterns while the program runs"),
    (Cost::Sorting, "sorting"),
    (Cost::Copying, "copying and moving memory"),
    (Cost::Joining, "joining texts, which copies them"),
    (Cost::Searching, "searching texts or lists from one end to the other"),
    (Cost::Formatting, "formatting text"),
    (Cost::Lookups, "looking things up in tables"),
    (Cost::Clock, "reading the clock"),
    (Cost::Yielding, "yielding: giving the CPU back and asking again at once, a busy wait"),
];

impl Cost {
    /// Inside of the other one it is counted by itself.
    pub(crate) fn is_apart_from(self, outer: Cost) -> bool {
        let of_memory = matches!(self, Cost::PageFaults | Cost::Mappings | Cost::Collection);
        of_memory && outer == Cost::Allocation || !self.is_work() && outer.is_work()
    }

    /// A kind of work that a program may well be there for. Only the largest of these is worth a line.
    pub(crate) fn is_work(self) -> bool {
        match self {
            Cost::Allocation
            | Cost::Collection
            | Cost::Exceptions
            | Cost::Regex
            | Cost::PageFaults
            | Cost::Mappings
            | Cost::Flush
            | Cost::Processes
            | Cost::Sockets => false,
            Cost::Cryptography
            | Cost::Compression
            | Cost::Serialization
            | Cost::Compilation
            | Cost::Sorting
            | Cost::Copying
            | Cost::Joining
            | Cost::Searching
            | Cost::Formatting
            | Cost::Lookups
            | Cost::Clock
            | Cost::Yielding => true,
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
    (&["sched_yield"], Cost::Yielding),
    (&["clock_gettime", "gettimeofday"], Cost::Clock),
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
    if let Some(rest) = bare.strip_prefix("java.util.regex.Pattern") {
        return of_java_pattern(rest);
    }
    if let Some((_, cost)) = EXACT.iter().find(|(names, _)| names.contains(&bare)) {
        return Some(*cost);
    }
    BEGINNINGS
        .iter()
        .find(|(prefixes, _)| prefixes.iter().any(|prefix| bare.starts_with(prefix)))
        .map(|(_, cost)| *cost)
}

/// A pattern of Java parses its text by its own methods and by constructors of its nodes; the nodes match. `Pattern.matches` does both, so
/// that what it calls decides.
fn of_java_pattern(rest: &str) -> Option<Cost> {
    let method = rest.rsplit('.').next().unwrap_or(rest);
    let of_pattern = rest.starts_with('.');
    match method {
        "matches" | "split" | "splitAsStream" | "matcher" | "asPredicate" if of_pattern => None,
        _ if of_pattern && !method.starts_with("lambda$") => Some(Cost::Compilation),
        "" | "<init>" | "study" | "add" => Some(Cost::Compilation),
        _ => Some(Cost::Regex),
    }
}

/// Libraries that do nothing else.
const MODULES: &[(&str, Cost)] = &[
    ("libjemalloc", Cost::Allocation),
    ("libmimalloc", Cost::Allocation),
    ("libtcmalloc", Cost::Allocation),
    ("libonig", Cost::Regex),
    ("libpcre", Cost::Regex),
    ("libcrypto", Cost::Cryptography),
    ("libssl", Cost::Cryptography),
    ("libgnutls", Cost::Cryptography),
    ("System.Security.Cryptography", Cost::Cryptography),
    ("libz.", Cost::Compression),
    ("libzstd", Cost::Compression),
    ("liblzma", Cost::Compression),
    ("libbz2", Cost::Compression),
    ("System.IO.Compression", Cost::Compression),
    ("System.Text.Json", Cost::Serialization),
    ("Newtonsoft.Json", Cost::Serialization),
    ("_json.cpython-", Cost::Serialization),
    ("_pickle.cpython-", Cost::Serialization),
    ("_csv.cpython-", Cost::Serialization),
    ("pyexpat.cpython-", Cost::Serialization),
    ("System.Private.Xml", Cost::Serialization),
    ("libclrjit", Cost::Compilation),
    ("System.Reflection.Emit", Cost::Compilation),
    ("Microsoft.CodeAnalysis", Cost::Compilation),
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
    (&["sched_yield", "std::this_thread::yield", "std::thread::yield_now", "runtime.osyield", "runtime.Gosched", "java.lang.Thread.yield",
       "java.lang.Thread.yield0", "JVM_Yield", "System.Threading.Thread.Yield", "System.Threading.Thread.SpinWait", "pthread_yield"], Cost::Yielding),
    (&["clock_gettime", "vdso_clock_gettime", "gettimeofday", "runtime.nanotime", "runtime.nanotime1", "runtime.walltime", "time.Now", "time.Since",
       "java.lang.System.nanoTime", "java.lang.System.currentTimeMillis", "System.Diagnostics.Stopwatch.GetTimestamp",
       "System.DateTime.get_UtcNow", "System.DateTime.get_Now", "clock_gettime_2", "std::time::Instant::now"], Cost::Clock),
    (&["qsort", "qsort_r", "msort_with_tmp", "quicksort", "introsort_loop", "list_sort_impl", "list_sort", "Builtins_ArrayTimSort",
       "Builtins_ArrayPrototypeSort"], Cost::Sorting),
    (&["mempcpy", "bcopy", "list_ass_slice", "list_slice", "runtime.memmove", "runtime.typedslicecopy",
       "System.Buffer.Memmove", "System.Buffer.BlockCopy", "System.Buffer.BulkMoveWithWriteBarrier",
       "System.Array.Copy", "System.Array.CopyTo", "System.Array.Resize", "java.util.Arrays.copyOf", "java.util.Arrays.copyOfRange",
       "java.util.ArrayList.fastRemove", "java.util.ArrayList.remove", "java.util.ArrayList.add", "java.util.ArrayList.grow",
       "System.Collections.Generic.List`1.RemoveAt", "System.Collections.Generic.List`1.Insert",
       "Builtins_ArrayPrototypeShift", "Builtins_ArrayPrototypeUnshift", "Builtins_ArrayPrototypeSplice", "Builtins_ArrayPrototypeSlice",
       "Builtins_ArrayPrototypeConcat", "Builtins_ArrayShift", "Builtin_ArrayUnshift", "Builtins_CloneFastJSArray"], Cost::Copying),
    (&["strcat", "strncat", "runtime.concatstrings", "runtime.concatstring2", "runtime.concatstring3", "PyUnicode_Append", "PyUnicode_Concat",
       "unicode_concatenate", "PyBytes_Concat", "bytes_concat", "list_concat", "tuple_concat", "System.String.Concat", "System.String.Join",
       "Builtins_StringAdd_CheckNone", "Builtins_StringPrototypeConcat", "java.lang.String.concat"], Cost::Joining),
    (&["strlen", "strcmp", "strncmp", "strcasecmp", "strstr", "strchr", "memchr", "memcmp", "memmem", "bcmp", "list_contains", "list_index", "list_count",
       "PySequence_Contains", "java.util.ArrayList.indexOf", "java.util.ArrayList.indexOfRange", "java.util.ArrayList.contains",
       "java.util.LinkedList.node", "java.util.LinkedList.get", "java.lang.String.indexOf", "java.lang.String.contains", "internal/bytealg.Count", "internal/bytealg.CountString",
       "internal/bytealg.IndexByteString", "System.Collections.Generic.List`1.Contains", "System.Collections.Generic.List`1.IndexOf",
       "System.Array.IndexOf", "System.Linq.Enumerable.Contains", "System.Linq.Enumerable.Count", "System.Linq.Enumerable.Any",
       "Builtins_ArrayIncludes", "Builtins_ArrayIndexOf", "Builtins_ArrayPrototypeIndexOf", "Builtins_ArrayIncludesSmi",
       "Builtins_ArrayPrototypeFind", "Builtins_ArrayFilter", "Builtins_StringPrototypeIndexOf"], Cost::Searching),
    (&["lookdict", "unicodekeys_lookup_unicode", "unicodekeys_lookup_generic", "PyDict_GetItem", "PyDict_Lookup", "dictkeys_stringlookup",
       "set_lookkey", "set_add_entry", "set_contains_key", "java.util.HashMap.getNode", "java.util.HashMap.putVal", "java.util.HashMap.get",
       "java.util.concurrent.ConcurrentHashMap.get", "java.util.concurrent.ConcurrentHashMap.putVal"], Cost::Lookups),
    (&["snprintf", "sprintf", "fprintf", "vfprintf", "vsnprintf", "vfprintf_internal", "printf_fp", "strftime", "strftime_l", "PyUnicode_Format",
       "PyUnicode_FromFormatV", "java.lang.String.format", "System.String.Format"], Cost::Formatting),
    (&["regcomp", "re_compile_internal", "PyAST_Compile", "PyAST_CompileObject", "Py_CompileStringObject", "PyParser_ASTFromString", "sre_compile", "JVM_DefineClass", "runtime.compile"], Cost::Compilation),
    (&["deflate", "inflate", "compress2", "uncompress", "deflate_slow", "deflate_fast", "inflate_fast", "longest_match"], Cost::Compression),
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
    (&["v8::internal::RegExpCompiler", "v8::internal::RegExpParser",
       "v8::internal::RegExpImpl::Compile", "v8::internal::RegExpImpl::IrregexpPrepare"], Cost::Compilation),
    (&["Builtins_RegExp", "v8::internal::RegExp", "v8::internal::NativeRegExp", "v8::internal::IrregexpInterpreter", "java.util.regex.",
       "sre_ucs", "sre_SRE", "std::__detail::_Executor", "std::__detail::__regex_algo", "std::regex_", "boost::re_detail", "pcre_", "pcre2_",
       "onig_", "S_regmatch", "Perl_regexec", "php_pcre_"], Cost::Regex),
    (&["crypto/", "javax.crypto.", "sun.security.", "com.sun.crypto.", "java.security.", "EVP_", "SSL_", "RSA_", "BN_mod_exp", "node::crypto::",
       "System.Security.Cryptography.", "ring::", "rustls::"], Cost::Cryptography),
    (&["compress/", "java.util.zip.", "System.IO.Compression.", "BrotliEncoder", "node::zlib::", "ZSTD_"], Cost::Compression),
    (&["encoding/json.", "encoding/gob.", "encoding/xml.", "java.io.ObjectOutputStream.", "java.io.ObjectInputStream.", "v8::internal::Json",
       "Builtins_JsonParse", "Builtins_JsonStringify", "v8::internal::ValueSerializer", "v8::internal::ValueDeserializer", "serde_json::",
       "System.Text.Json.", "Newtonsoft.Json.", "com.fasterxml.jackson.", "com.google.gson."], Cost::Serialization),
    (&["System.Text.RegularExpressions.Regex..ctor", "System.Text.RegularExpressions.RegexParser", "System.Text.RegularExpressions.RegexCompiler",
       "System.Text.RegularExpressions.RegexInterpreterCode", "System.Text.RegularExpressions.RegexWriter", "System.Reflection.Emit.",
       "System.Linq.Expressions.Compiler.", "regexp.compile", "regexp.Compile", "regexp.MustCompile", "regexp/syntax.", "std::__detail::_Compiler",
       "regex::builders::", "regex_automata::meta::regex::Builder", "CompileBroker::", "Compile::Compile", "C2Compiler", "Compilation::Compilation", "v8::internal::Compiler::",
       "v8::internal::compiler::", "v8::internal::baseline::", "v8::internal::parsing::"], Cost::Compilation),
    (&["std::__introsort", "std::sort", "std::stable_sort", "std::__merge_sort", "std::__insertion_sort", "std::__unguarded_linear_insert", "std::__adjust_heap",
       "std::__introsort_loop", "core::slice::sort", "alloc::slice::merge_sort", "sort.", "slices.pdq", "slices.Sort", "slices.insertion", "java.util.TimSort.", "java.util.ComparableTimSort.",
       "java.util.DualPivotQuicksort.", "java.util.Arrays.sort", "java.util.List.sort", "java.util.Collections.sort", "java.util.ArrayList.sort",
       "System.Array.Sort", "System.Collections.Generic.ArraySortHelper", "System.Collections.Generic.List`1.Sort", "System.Linq.EnumerableSorter",
       "System.Collections.Generic.GenericArraySortHelper", "Builtins_ArrayTimSort"], Cost::Sorting),
    (&["memcpy", "memmove", "System.SpanHelpers.Memmove", "System.Buffer.Memmove", "v8::internal::Heap::MoveRange", "v8::internal::Heap::CopyRange"], Cost::Copying),
    (&["v8::internal::String::Flatten", "v8::internal::String::SlowFlatten", "v8::internal::String::WriteToFlat", "Builtins_StringAdd", "java.lang.StringConcatHelper.",
       "java.lang.AbstractStringBuilder.append"], Cost::Joining),
    (&["strlen_", "strcmp_", "strstr_", "strchr_", "memchr_", "memcmp_", "strncmp_", "System.SpanHelpers.IndexOf", "System.SpanHelpers.Contains", "System.SpanHelpers.SequenceEqual", "std::__find",
       "std::find", "slices.Index", "slices.Contains", "strings.Index", "strings.Count", "memrchr"], Cost::Searching),
    (&["fmt.", "core::fmt::", "alloc::fmt::format", "java.util.Formatter.", "java.text.", "java.time.format.", "System.Number.Format", "System.DateTimeFormat."], Cost::Formatting),
    (&["runtime.mapaccess", "runtime.mapassign", "internal/runtime/maps.", "std::_Hashtable", "hashbrown::", "System.Collections.Generic.Dictionary`2.",
       "java.util.HashMap$TreeNode.", "java.util.concurrent.ConcurrentHashMap.", "java.util.concurrent.ConcurrentHashMap$TreeBin.",
       "java.util.concurrent.ConcurrentHashMap$TreeNode.", "java.util.concurrent.ConcurrentHashMap$Node.find", "v8::internal::OrderedHashMap", "v8::internal::OrderedHashTable", "Builtins_FindOrderedHashMapEntry", "Builtins_MapPrototypeGet"], Cost::Lookups),
    (&["System.Threading.SpinWait."], Cost::Yielding),
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
    fn what_is_no_work_is_counted_by_itself_inside_of_work() {
        assert!(Cost::Allocation.is_apart_from(Cost::Sorting), "a comparison that allocates");
        assert!(
            !Cost::Sorting.is_apart_from(Cost::Allocation) && !Cost::Copying.is_apart_from(Cost::Sorting)
        );
        assert!(Cost::Mappings.is_apart_from(Cost::Allocation) && !Cost::Regex.is_apart_from(Cost::Flush));
        for (at, (cost, words)) in WORDS.iter().enumerate() {
            assert!(!words.is_empty() && WORDS.iter().position(|(other, _)| other == cost) == Some(at));
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
            (native, "libpython3.11.so.1.0", "_PyAST_Compile", Some(Cost::Compilation)),
            // Below it is all that a program of Python does.
            (native, "libpython3.11.so.1.0", "PyEval_EvalCode", None),
            (native, "shop", "free_list", None),
            (native, "shop", "pattern_matches", None),
            (native, "libpcre2-8.so.0", "match", Some(Cost::Regex)),
            (native, "shop", "match", None),
            (FunctionKind::Jit, "[javascript]", "(regular expression)", Some(Cost::Regex)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern$Loop.match", Some(Cost::Regex)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern.compile", Some(Cost::Compilation)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern.matches", None),
            (FunctionKind::Jit, "", "java.util.regex.Pattern.expr", Some(Cost::Compilation)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern.RemoveQEQuoting", Some(Cost::Compilation)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern$StartS.<init>", Some(Cost::Compilation)),
            (FunctionKind::Jit, "", "java.util.regex.Pattern.lambda$Range$10", Some(Cost::Regex)),
            (FunctionKind::Jit, "", "java.util.regex.Matcher.find", Some(Cost::Regex)),
            (
                FunctionKind::Jit,
                "",
                "java.util.concurrent.ConcurrentHashMap$TreeBin.find",
                Some(Cost::Lookups),
            ),
            (kernel, "", "__x64_sys_sched_yield", Some(Cost::Yielding)),
            (native, "libc.so.6", "__memcpy_avx512_unaligned_erms", Some(Cost::Copying)),
            (native, "libc.so.6", "__GI___sched_yield", Some(Cost::Yielding)),
            (native, "libcrypto.so.3", "bn_mul_mont", Some(Cost::Cryptography)),
            (
                FunctionKind::Jit,
                "System.Text.RegularExpressions.dll",
                "System.Text.RegularExpressions.Regex..ctor",
                Some(Cost::Compilation),
            ),
            (FunctionKind::Jit, "", "sort.Sort", Some(Cost::Sorting)),
            (native, "shop", "sorted", None),
            (FunctionKind::Unknown, "", "malloc", None),
        ] {
            assert_eq!(cost_of(&row(kind, module, name)), cost, "{name} of {module}");
        }
    }

    /// Each name of the tables gives its own cost: none is shadowed by another, and none is written so that it is never found.
    #[test]
    fn no_name_hides_another() {
        let native = |module: &str, name: &str| cost_of(&row(FunctionKind::Native, module, name));
        for (names, cost) in EXACT {
            for name in *names {
                assert_eq!(native("server", name), Some(*cost), "{name}");
                assert_eq!(native("server", &format!("__{name}@@GLIBC_2.2.5")), Some(*cost), "{name}");
            }
        }
        for (prefixes, cost) in BEGINNINGS {
            for prefix in *prefixes {
                assert_eq!(native("server", &format!("{prefix}x")), Some(*cost), "{prefix}");
            }
        }
        for (module, cost) in MODULES {
            assert_eq!(native(&format!("{module}so"), "anything"), Some(*cost), "{module}");
        }
        for (names, cost) in KERNEL {
            for name in *names {
                assert_eq!(of_kernel(name), Some(*cost), "{name}");
                assert_eq!(of_kernel(&format!("{name}.isra.0")), Some(*cost), "{name}");
                assert_eq!(of_kernel(&format!("__do_sys_{name}")), Some(*cost), "{name}");
            }
        }
    }

    #[test]
    fn what_only_sounds_like_it_is_the_programs_own() {
        for (module, name) in [
            ("server", "fmtlog"),
            ("server", "sorting::run"),
            ("server", "freedom"),
            ("server", "mallocator"),
            ("libzookeeper.so", "zoo_get"),
            ("server", "memory_of"),
            ("server", ""),
        ] {
            assert_eq!(cost_of(&row(FunctionKind::Native, module, name)), None, "{name} of {module}");
        }
        let mut unnamed = row(FunctionKind::Native, "server", "malloc");
        unnamed.named = false;
        assert_eq!(cost_of(&unnamed), None, "what only says where it begins is no name");
        unnamed.module = "libz.so.1".to_owned();
        assert_eq!(cost_of(&unnamed), Some(Cost::Compression), "a module tells without names");
        assert_eq!(cost_of(&row(FunctionKind::Heading, "", "malloc")), None);
    }
}
