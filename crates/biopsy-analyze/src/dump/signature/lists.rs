//! Names of functions that say nothing of a crash, that are gone past, and that a crash begins at. Data.
//!
//! What stands under `SOCORRO` are facts from the lists of Mozilla's Socorro, as its library `siggen` has them in version 2.2.20241029:
//! <https://github.com/willkg/siggen>, kept by the people of Socorro. Names of Mozilla's own code, of macOS's and of Android's are left
//! out: what is analysed here are servers. What stands under `ADDED` is ours.

use Pattern::{Anywhere, Both, Exactly, Starts};

/// How a name is told.
#[derive(Clone, Copy)]
enum Pattern {
    Starts(&'static str),
    Exactly(&'static str),
    Anywhere(&'static str),
    /// It starts with the first, and has the second further on.
    Both(&'static str, &'static str),
}

impl Pattern {
    fn fits(self, name: &str) -> bool {
        match self {
            Starts(start) => name.starts_with(start),
            Exactly(whole) => name == whole,
            Anywhere(part) => name.contains(part),
            Both(start, part) => name.strip_prefix(start).is_some_and(|rest| rest.contains(part)),
        }
    }
}

/// The lists that one kind of stack is held against.
pub(super) struct Lists {
    begin: &'static [&'static [Pattern]],
    irrelevant: &'static [&'static [Pattern]],
    prefix: &'static [&'static [Pattern]],
}

impl Lists {
    /// Socorro's alone.
    pub(super) const SOCORRO: Self =
        Self { begin: &[BEGIN_SOCORRO], irrelevant: &[IRRELEVANT_SOCORRO], prefix: &[PREFIX_SOCORRO] };
    /// With what is added for servers on Linux.
    pub(super) const ALL: Self = Self {
        begin: &[BEGIN_SOCORRO],
        irrelevant: &[IRRELEVANT_SOCORRO, IRRELEVANT_ADDED],
        prefix: &[PREFIX_SOCORRO, PREFIX_ADDED],
    };
    /// For a goroutine that panicked: from where its runtime was told of it, through the runtime, to the first function outside.
    pub(super) const GO: Self =
        Self { begin: &[BEGIN_GO], irrelevant: &[IRRELEVANT_GO], prefix: &[&[Starts("runtime.")]] };

    /// Frames further in say only that there is a crash.
    pub(super) fn begins(&self, name: &str) -> bool {
        fits(self.begin, name)
    }

    pub(super) fn is_irrelevant(&self, name: &str) -> bool {
        fits(self.irrelevant, name)
    }

    pub(super) fn is_prefix(&self, name: &str) -> bool {
        fits(self.prefix, name)
    }
}

fn fits(lists: &[&[Pattern]], name: &str) -> bool {
    lists.iter().copied().flatten().any(|pattern| pattern.fits(name))
}

#[rustfmt::skip]
const BEGIN_SOCORRO: &[Pattern] = &[
    Exactly("_purecall"), Exactly("core::panicking::panic"), Exactly("core::panicking::panic_bounds_check"),
    Exactly("core::panicking::panic_fmt"), Exactly("std::panicking::begin_panic"), Exactly("std::panicking::begin_panic<T>"),
    Exactly("std::panicking::begin_panic_fmt"), Exactly("__GI___assert_fail"), Exactly("__assert_fail"),
    Exactly("alloc::alloc::handle_alloc_error"), Exactly("_sigtramp"),
];

#[rustfmt::skip]
const BEGIN_GO: &[Pattern] = &[
    Exactly("runtime.gopanic"), Exactly("runtime.throw"), Exactly("runtime.fatal"), Exactly("runtime.sigpanic"),
];

#[rustfmt::skip]
const IRRELEVANT_SOCORRO: &[Pattern] = &[
    Starts("@0x1"), Starts("@0x2"), Starts("@0x3"), Starts("@0x4"), Starts("@0x5"), Starts("@0x6"), Starts("@0x7"), Starts("@0x8"),
    Starts("@0x9"), Starts("@0xa"), Starts("@0xb"), Starts("@0xc"), Starts("@0xd"), Starts("@0xe"), Starts("@0xf"), Anywhere("$VARIANT$"),
    Starts("<std::collections::hash::map::HashMap<K, V, S> as core::ops::index::Index<&Q>>::index"), Starts("__aeabi_"),
    Starts("alloc::alloc::__alloc_error_handler::__rg_oom"), Starts("alloc::alloc::handle_alloc_error"), Starts("alloc::vec::impl"),
    Starts("__ascii_stricmp"), Starts("__assert"), Starts("__chk_fail"), Starts("___chkstk"), Starts("__chkstk"), Starts("_chkstk"),
    Starts("compiler_builtins::"), Starts("core::fmt::Arguments::new_v1"), Starts("core::intrinsics"), Starts("core::mem::drop"),
    Starts("core::mem::replace"), Starts("core::ops::function::FnOnce::call_once<T>"), Starts("core::option::Option<T>"),
    Starts("core::panicking::"), Starts("core::ptr::mut_ptr"), Starts("core::ptr::write"), Starts("core::result::impl$"),
    Starts("core::result::Result<T>"), Starts("core::slice::index"), Starts("core::sync::atomic::"), Starts("__cxa_rethrow"),
    Starts("__cxa_throw"), Starts("_CxxThrowException"), Starts("DebugBreak"), Starts("__entry_from_strcat_in_strcpy"),
    Starts("enum$<T>::"), Starts("enum2$<T>::"), Starts("exp2"), Starts("__fdelt_chk"), Starts("__fdelt_warn"), Starts("_fini"),
    Starts("__fixunsdfsi"), Starts("__fortify_fail"), Starts("__futex_abstimed_wait"), Starts("g_assertion_message"), Starts("g_log"),
    Starts("_g_log_abort"), Starts("get_fpsr"), Starts("__GI"), Exactly("handle_error"), Starts("KiFastSystemCall"),
    Starts("KiRaiseUserExceptionDispatcher"), Starts("KiUserApcDispatch"), Starts("KiUserCallbackDispatch"),
    Starts("KiUserExceptionDispatch"), Starts("LdrpDispatchUserCallTarget"), Starts("LdrpHandleInvalidUserCallTarget"),
    Starts("LdrpICallHandler"), Starts("LdrpValidateUserCallTarget"), Starts("__libc_fatal"), Starts("__libc_message"), Starts("libz.so"),
    Starts("linux-gate.so"), Starts("log::__private_api_log"), Starts("__memcmp"), Starts("__memcpy"), Starts("__memmove"),
    Starts("__memset"), Starts("NtWaitForAlertByThreadId"), Starts("NtWaitForKeyedEvent"), Starts("NtWaitForMultipleObjects"),
    Starts("NtWaitForSingleObject"), Starts("operator=="), Starts("panic_abort::"), Starts("_platform"), Starts("___pthread_"),
    Starts("__pthread_"), Starts("_pthread_"), Starts("pthread_cond_wait"), Starts("RaiseException"), Starts("RealMsgWaitFor"),
    Starts("regex::pool::impl"), Starts("__report_gsfailure"), Starts("_report_gsfailure"), Starts("RtlAcquireSRWLockExclusive"),
    Starts("RtlDispatchException"), Starts("RtlFailFast2"), Starts("RtlpAnalyzeHeapFailure"), Starts("RtlpExecuteHandlerForException"),
    Starts("RtlpHandleInvalidUserCallTarget"), Starts("RtlpHeapHandleError"), Starts("RtlpHpHeapHandleError"),
    Starts("RtlpLogHeapFailure"), Starts("RtlReportCriticalFailure"), Starts("RtlReportFatalFailure"),
    Starts("RtlSleepConditionVariableSRW"), Starts("__rust_alloc_error_handler"), Starts("_rust_alloc_error_handler"), Starts("rust_oom"),
    Starts("__security_check_cookie"), Starts("_security_check_cookie"), Starts("_sigtramp"), Starts("SleepConditionVariableSRW"),
    Starts("__stack_chk_fail"), Starts("std::__"), Starts("std::_Atomic"), Starts("std::_Fetch"), Starts("std::_Hash"),
    Starts("std::_Load"), Starts("std::_Store"), Starts("std::_Tree"), Starts("std::all_of"), Starts("std::alloc::_::__rg_oom"),
    Starts("std::alloc::rust_oom"), Starts("std::atomic"), Starts("std::collections"), Starts("std::io::stdio::_eprint"),
    Starts("std::panicking::"), Starts("std::sys_common::backtrace::__rust_end_short_backtrace<T>"), Starts("std::terminate"),
    Starts("stdext::_Hash"), Starts("stdext::_hash"), Starts("stdext::Hash"), Starts("stdext::hash"), Starts("__str"),
    Starts("_Unwind_Resume"), Starts("WaitForAlertByThreadId"), Starts("WaitForKeyedEvent"), Starts("WaitForMultipleObjects"),
    Starts("WaitForSingleObject"), Starts("_XError"), Starts("_XReply"), Starts("zero"), Starts("ZwWaitForAlertByThreadId"),
    Starts("ZwWaitForKeyedEvent"), Starts("ZwWaitForMultipleObjects"), Starts("ZwWaitForSingleObject"),
    Starts("{virtual override thunk}"),
];

#[rustfmt::skip]
const PREFIX_SOCORRO: &[Pattern] = &[
    Anywhere(".dll"), Both("<", ">::operator"), Starts("<.plt ELF section in "),
    Starts("<core::ops::range::Range<usize> as core::slice::index::SliceIndex<[T]>>::index"), Starts("<name omitted>"), Starts("@0x0"),
    Starts("__abi_WinRTraiseCOMException"), Starts("__abi_WinRTraiseException"), Anywhere("abort"), Starts("Abort"),
    Starts("alloc::raw_vec::capacity_overflow"), Anywhere("alloc_impl"), Starts("_alloca_probe"), Starts("Allocator<T>::malloc"),
    Starts("arena_"), Starts("avx::memset"), Starts("BaseGetNamedObjectDirectory"), Anywhere("calloc"), Starts("chunk_alloc"),
    Starts("__clear_cache"), Starts("core::ops::function::Fn::call<T>"), Starts("core::option::expect_failed"),
    Starts("core::option::expect_none_failed"), Starts("core::ptr::drop_in_place"), Starts("core::ptr::real_drop_in_place"),
    Starts("core::result::unwrap_failed"), Starts("core::slice::index::<impl core::ops::index::Index<I> for [T]>::index"),
    Starts("core::str::slice_error_fail"), Starts("CreateFileMappingA"), Starts("__cxxabiv1::failed_throw"), Starts("CxxThrowException"),
    Starts("__delayLoadHelper2"), Starts("enum$<T>::expect"), Starts("enum$<T>::unwrap"), Starts("EtwEventEnabled"), Starts("extent_"),
    Starts("fastcopy_I"), Starts("fastzero_I"), Anywhere("free"), Starts("__fsetlocking"), Starts("GetTickCount64"), Starts("gsignal"),
    Starts("handle_response"), Starts("HandleInvalidParameter"), Starts("hashbrown::raw::Fallibility::alloc_err"),
    Starts("hashbrown::raw::RawTable<T>::new_uninitialized<T>"), Starts("HeapFree"), Starts("huge_dalloc"),
    Starts("_invalid_parameter_noinfo"), Starts("invalid_parameter_noinfo"), Starts("je_"), Starts("KiFastSystemCall"), Starts("kill"),
    Both("libc-2.", ".so"), Starts("libc.so"), Starts("__libc_message"), Starts("lstrcatA"), Starts("lstrcatW"), Starts("lstrcmpA"),
    Starts("lstrcmpiA"), Starts("lstrcmpiW"), Starts("lstrcmpW"), Starts("lstrlenA"), Starts("lstrlenW"), Starts("malloc"),
    Starts("memcmp"), Starts("memcpy"), Starts("memmove"), Starts("memset"), Starts("neon::memset"), Starts("new[]"), Starts("NtUser"),
    Starts("o_strcat_s"), Starts("operator new"), Starts("pages_commit"), Starts("portable::memset"),
    Starts("pthread_cond_signal_thread_np"), Starts("pthread_kill"), Starts("pthread_mutex_lock"), Starts("pthread_mutex_trylock"),
    Starts("_purecall"), Starts("raise"), Starts("RaiseFailFastException"), Starts("realloc"), Starts("recv"),
    Starts("RpcpRaiseException"), Starts("RpcRaiseException"), Starts("Rtl"), Starts("_Rtl"), Starts("__Rtl"),
    Starts("__rust_start_panic"), Starts("SafeVariantClear"), Starts("send"), Starts("SetEvent"), Starts("setjmp"), Starts("Socket"),
    Starts("ssl3_"), Starts("SSL_"), Starts("ssl_"), Starts("std::_Allocate"), Starts("std::_Func_class<T>::"),
    Starts("std::_Func_impl<T>::"), Starts("std::_Func_impl_no_alloc<T>::"), Starts("std::_Function_base::_Base_manager<T>::"),
    Starts("std::_Function_handler<T>::"), Starts("std::alloc::rust_oom"), Both("std::list<", ">::"),
    Starts("std::vector<T>::_Emplace_reallocate<T>"), Starts("strcat"), Starts("strchr"), Starts("strcmp"), Starts("strcpy"),
    Anywhere("strdup"), Starts("strlen"), Starts("strncmp"), Starts("strncpy"), Starts("strstr"), Starts("syscall"),
    Starts("SysFreeString"), Starts("TlsGetValue"), Starts("__unlink"), Starts("unlink"), Starts("VariantClear"), Starts("VariantCopy"),
    Starts("_VEC_memcpy"), Starts("_VEC_memzero"), Anywhere("WaitFor"), Starts("wcscpy_s"), Starts("wcslen"), Starts("wcsrtombs"),
    Starts("wl_array_"), Starts("wl_proxy_"), Starts("WSARecv"), Starts("WSASend"),
];

#[rustfmt::skip]
const IRRELEVANT_ADDED: &[Pattern] = &[
    // How libstdc++ and libc++ end a program, with names and without.
    Starts("__gnu_cxx::__verbose_terminate_handler"), Starts("__cxxabiv1::__terminate"), Starts("__cxxabiv1::__unexpected"),
    Starts("__cxa_call_terminate"), Starts("__clang_call_terminate"), Starts("std::rethrow_exception"), Starts("std::unexpected"),
    Starts("demangling_terminate_handler"), Starts("libstdc++.so"),
    // How signals come.
    Starts("__restore_rt"), Starts("__kernel_"), Starts("[vdso]"), Starts("linux-vdso.so"),
    // Java's own report of a crash.
    Starts("os::abort"), Starts("os::die"), Starts("VMError::report"), Starts("report_vm_error"), Starts("report_fatal"),
];

#[rustfmt::skip]
const PREFIX_ADDED: &[Pattern] = &[
    // The allocator of glibc; other functions of it are above by their names.
    Starts("_int_malloc"), Starts("_int_realloc"), Starts("sysmalloc"), Starts("__libc_malloc"), Starts("__libc_realloc"),
    Starts("tcache_"), Starts("systrim"),
    // The standard libraries of Rust and C++, which check what a program gives them.
    Starts("core::"), Starts("alloc::"), Starts("std::"), Starts("<core::"), Starts("<alloc::"), Starts("<std::"), Starts("<usize as core::"),
    Starts("<[T] as core::"), Starts("<T as core::"), Starts("<str as core::"),
    // How Node and Python end themselves.
    Starts("node::Abort"), Starts("node::OnFatalError"), Starts("node::OOMErrorHandler"), Starts("node::Assert"),
    Starts("node::errors::TriggerUncaughtException"), Starts("V8_Fatal"), Starts("v8::base::OS::Abort"),
    Starts("v8::internal::Isolate::CreateMessageOrAbort"), Starts("v8::internal::Isolate::Throw"), Starts("v8::internal::Runtime_Throw"),
    Starts("fatal_error"), Starts("_Py_FatalError"),
    Starts("Py_FatalError"),
];

#[rustfmt::skip]
const IRRELEVANT_GO: &[Pattern] = &[
    // What a fault goes through between the instruction and the panic that it is.
    Exactly("runtime.sigpanic"), Exactly("runtime.gopanic.func1"),
];
