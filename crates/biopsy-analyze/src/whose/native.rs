//! Machine code: C, C++, Rust, and what is linked into or mapped beside a program.

use super::answer::Whose;
use super::code::Code;
use super::go;

/// Modules that are plumbing as a whole, by the start of their file name.
#[rustfmt::skip]
const PLUMBING_MODULES: &[&str] = &[
    "[vdso]", "ld-linux", "ld-musl", "libSystem.", "libc++", "libc-", "libc.so", "libclrgc", "libclrjit",
    "libcoreclr", "libgcc_s", "libhostfxr", "libhostpolicy", "libjava.so", "libjli.so", "libm.so",
    "libmscor", "libnet.so", "libnio.so", "libpthread", "librt.", "libstdc++", "libsystem_", "libverify.so",
    "linux-vdso",
    // Ours, in a program that counts its allocations.
    "memfd:biopsy-preload",
];

/// Libraries that programs bring along, by the start of their file name. Those of the system are known by their folder.
#[rustfmt::skip]
const LIBRARY_MODULES: &[&str] = &[
    "libQt", "libabsl_", "libaio.", "libboost_", "libcrypto", "libcurl", "libev.", "libevent", "libfolly", "libgio-",
    "libglib-", "libgobject-", "libgomp", "libgrpc", "libgtk", "libicu", "libiomp", "libjemalloc", "libjvm", "liblua",
    "libmariadb", "libmimalloc", "libmysqlclient", "libnode.", "libnuma", "libomp", "libopenblas", "libperl",
    "libphp", "libpq.", "libprotobuf", "libpython", "librdkafka", "libruby", "libsqlite3", "libssl", "libsystemd",
    "libtbb", "libtcmalloc", "liburing", "libuv", "libv8", "libxml2", "libz.", "libzstd",
];

/// Interpreters and virtual machines: their code is not the program that they run. Without the number of the version.
#[rustfmt::skip]
const INTERPRETERS: &[&str] = &[
    "beam.smp", "bun", "deno", "dotnet", "java", "lua", "luajit", "mono", "mono-sgen", "node", "nodejs", "perl", "php",
    "php-cgi", "php-fpm", "pypy", "python", "ruby",
];

/// Folders of the system's libraries.
const SYSTEM_FOLDERS: &[&str] =
    &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"];

/// Source files of the standard libraries of C, C++ and Rust, by a part of their path, for what is inlined from them.
#[rustfmt::skip]
const PLUMBING_SOURCES: &[&str] = &[
    "/usr/include/", "/include/c++/", "/c++/v1/", "/usr/lib/gcc", "/usr/lib/llvm-", "/rustlib/src/rust/library/",
    "/sysdeps/",
];

/// Source files of libraries: headers that were installed, crates that were downloaded.
#[rustfmt::skip]
const LIBRARY_SOURCES: &[&str] = &[
    "/usr/local/include/", "/registry/src/", "/cargo/git/checkouts/", "/.cargo/git/checkouts/", "/vcpkg/installed/",
    "/.conan/data/", "/.conan2/p/",
];

/// Names that begin like this are of standard libraries, language runtimes, lock wrappers and the like.
#[rustfmt::skip]
const PLUMBING_PREFIXES: &[&str] = &[
    "Java_java_", "Java_jdk_", "Java_sun_", "LWLock", "OSMutex", "PGSemaphore", "PolicyMutex", "TTASEventMutex", "TTASMutex", "WaitEventSet", "WaitLatch",
    "_Unwind_", "_cgo_", "__cxa_", "__cxxabiv1::", "__gnu_cxx::", "__gthread", "__gthrw_", "__interceptor_", "__rg_",
    "__rdl_", "__rust", "__sanitizer", "__tsan", "alloc::", "core::", "crosscall", "decltype", "inline_mysql_", "lock_api",
    "my_cond", "operator delete", "operator new", "os_event", "panic_abort::", "panic_unwind::", "parking_lot",
    "psi_", "pthread_", "rust_begin_unwind", "rust_eh_personality", "rust_panic", "safe_cond", "safe_mutex",
    "srw_lock", "srw_mutex", "ssux_lock", "std::", "test::run_test", "test::__rust", "vio_io_wait",
    "vio_socket_io_wait", "x_cgo_",
];

/// Names that begin like this are of libraries that programs carry inside of themselves.
#[rustfmt::skip]
const LIBRARY_PREFIXES: &[&str] = &[
    "BIO_", "BZ2_", "Builtins_", "CRYPTO_", "Curl_", "EVP_", "Eigen::", "LZ4_", "OPENSSL_", "Perl_",
    "Poco::", "Qt", "SSL_", "ZSTD_", "absl::", "actix_", "ares_", "asio::", "async_executor::", "async_std::",
    "axum::", "boost::", "bufferevent_", "crossbeam", "curl_", "evbuffer_", "event_base_", "fmt::v", "folly::",
    "futures_", "google::protobuf::", "grpc::", "grpc_", "h2::", "hashbrown::", "hyper::", "hyper_util::",
    "je_", "leveldb::", "luaD_", "luaH_", "luaL_", "luaV_", "lua_", "lzma_", "mi_", "mio::", "nghttp2_",
    "nlohmann::", "node::", "oneapi::tbb::", "ossl_", "pcre2_", "rayon::", "rayon_core::", "rd_kafka_", "re2::",
    "regex_automata::", "regex_syntax::", "rustls::", "serde::", "serde_", "smol::", "spdlog::", "sqlite3",
    "tbb::", "tc_", "tcmalloc::", "tokio::", "tokio_", "tonic::", "tower::", "uv_", "uv__", "v8::", "v8impl::",
    "zend_",
];

/// Names of system calls and C library functions, for static programs, without leading underscores.
#[rustfmt::skip]
const PLUMBING_NAMES: &[&str] = &[
    "abort", "accept", "accept4", "aligned_alloc", "assert_fail", "calloc", "chk_fail", "clock_gettime",
    "clock_nanosleep", "clone", "clone3", "connect", "create_thread", "cfree", "dlopen", "dlsym", "epoll_pwait",
    "epoll_wait", "fdatasync", "fflush", "flock", "fopen", "fopen64", "fork", "fortify_fail", "fortify_fail_abort",
    "fprintf", "fputs", "fread", "free", "freeaddrinfo", "fstat", "fsync", "futex", "futex_abstimed_wait",
    "futex_wait", "fwrite", "getaddrinfo", "getenv", "gethostbyname", "getline", "gettimeofday", "gsignal",
    "int_free", "int_malloc", "int_memalign", "int_realloc", "internal_syscall_cancel", "io_getevents",
    "io_schedule", "libc_accept", "libc_calloc", "libc_fatal", "libc_free", "libc_malloc", "libc_message",
    "libc_poll", "libc_read", "libc_realloc", "libc_recv", "libc_start_call_main", "libc_start_main",
    "libc_write", "lll_lock_wait", "lll_lock_wait_private", "lock_wait", "madvise", "malloc",
    "malloc_consolidate", "malloc_printerr", "memalign", "memchr", "memcmp", "memcpy", "memmove", "memset", "mmap",
    "mprotect", "munmap", "mutex_lock", "nanosleep", "open", "open64", "openat", "poll", "posix_memalign", "ppoll",
    "pread", "pread64", "preadv", "pselect", "pthread_create", "pwrite", "pwrite64", "qsort", "qsort_r", "raise",
    "read", "readv", "realloc", "reallocarray", "recv", "recvfrom", "recvmsg", "sbrk", "select", "sem_timedwait",
    "sem_wait", "semop", "semtimedop", "send", "sendmsg", "sendto", "sigaction", "sleep", "snprintf",
    "spawn_thread", "stack_chk_fail", "start_thread", "strcmp", "strcpy", "strlen", "strncmp", "strtod", "strtol",
    "strtoul", "sync", "sync_file_range", "syscall", "syscall_cancel", "syscall_cancel_arch", "syscall_cp",
    "sysmalloc", "tcache_put", "thread_create", "threadentry", "timedwait", "timedwait_cp", "unlink_chunk", "usleep", "vfprintf",
    "vsnprintf", "wait", "wait4", "waitid", "waitpid", "write", "writev", "<signal handler called>",
];

/// So are names that contain this.
const PLUMBING_PARTS: &[&str] =
    &["condition_variable", "unique_lock<", "lock_guard<", "mutex::lock", "Mutex<"];

/// The variants for instruction sets that the C library has of some of its functions.
const VARIANTS: &[&str] = &["_avx", "_erms", "_evex", "_sse2", "_sse4", "_ssse3"];

/// Types of the Rust language itself, and how it calls those that are not known.
#[rustfmt::skip]
const RUST_TYPES: &[&str] = &[
    "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "str", "u128", "u16", "u32", "u64", "u8",
    "usize",
];

pub(super) fn whose(code: &Code<'_>) -> Whose {
    of_module(code.module).max(of_source(code)).max(code.function.map_or(Whose::Program, of_name))
}

fn of_module(path: &str) -> Whose {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let begins = |list: &[&str]| list.iter().any(|prefix| file.starts_with(prefix));
    let numberless = file.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if begins(PLUMBING_MODULES) {
        Whose::Plumbing
    } else if begins(LIBRARY_MODULES)
        || file.contains(".so") && is_system_folder(folder)
        || file.contains(".cpython-") && (path.contains("/lib-dynload/") || path.contains("-packages/"))
        || INTERPRETERS.contains(&numberless)
    {
        Whose::Library
    } else {
        Whose::Program
    }
}

/// `/usr/lib`, `/usr/lib/x86_64-linux-gnu`; what lies deeper may be a program's own.
fn is_system_folder(folder: &str) -> bool {
    let is = |folder: &str| SYSTEM_FOLDERS.contains(&folder);
    is(folder)
        || folder.rsplit_once('/').is_some_and(|(above, last)| is(above) && last.contains("-linux-"))
        || folder.starts_with("/nix/store/") && folder.ends_with("/lib")
}

/// The source file of a function with code of its own may be that of the last thing inlined into it, where debug information is thin:
/// then its name alone tells.
fn of_source(code: &Code<'_>) -> Whose {
    let Some(file) = code.file.filter(|_| code.inlined) else { return Whose::Program };
    let has = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    let rust = file.starts_with("/rustc/") && file.contains("/library/");
    if rust || has(PLUMBING_SOURCES) {
        Whose::Plumbing
    } else if has(LIBRARY_SOURCES) {
        Whose::Library
    } else {
        Whose::Program
    }
}

fn of_name(name: &str) -> Whose {
    let head = head(name);
    if PLUMBING_PREFIXES.iter().any(|prefix| head.starts_with(prefix)) || is_rust_type(head, name) {
        return Whose::Plumbing;
    }
    // `sort.isra.0` is a piece of a function of C; `sort.Slice` is Go's.
    let piece = without_piece(name);
    let plain = piece.trim_start_matches('_');
    let plain = plain.strip_prefix("GI_").unwrap_or(plain).trim_start_matches('_');
    let lower = plain.to_ascii_lowercase();
    let variant = VARIANTS.iter().find_map(|variant| plain.find(variant)).and_then(|at| plain.get(..at));
    let known = variant.map_or(plain, |plain| plain.trim_end_matches("_unaligned"));
    let known = known.strip_suffix("_nocancel").unwrap_or(known);
    if PLUMBING_NAMES.contains(&known)
        || PLUMBING_PREFIXES.iter().any(|prefix| plain.starts_with(prefix))
        || PLUMBING_PARTS.iter().any(|part| name.contains(part))
        || lower.ends_with("sleep")
        || lower.starts_with("sleep_")
    {
        return Whose::Plumbing;
    }
    if LIBRARY_PREFIXES.iter().any(|prefix| head.starts_with(prefix)) || is_python(name) {
        return Whose::Library;
    }
    // Go's functions have a package before a dot, and C has none in a name.
    if piece.contains('.') && !piece.contains("::") && go::is_standard(piece) {
        return go::whose(piece, "");
    }
    Whose::Program
}

/// `finish.isra.0` → `finish`; `read@@GLIBC_2.2.5` → `read`; `main.run` of Go and `sync.(*Mutex).Lock` stay.
fn without_piece(name: &str) -> &str {
    const PIECES: &[&str] =
        &[".isra.", ".part.", ".constprop.", ".cold", ".llvm.", ".lto_priv.", ".clone.", "@", " ["];
    let end = PIECES.iter().filter_map(|piece| name.find(piece)).filter(|at| *at > 0).min();
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// `PyObject_Call`, `_PyEval_EvalFrameDefault`: an interpreter that is inside of a program.
fn is_python(name: &str) -> bool {
    name.starts_with("_Py")
        || name.strip_prefix("Py").is_some_and(|rest| {
            rest.starts_with(|letter: char| letter.is_ascii_uppercase() || letter == '_')
                && rest.contains('_')
        })
}

/// Where the path of a name begins: `<alloc::vec::Vec<T> as Clone>::clone` → `alloc::vec::Vec<T> as Clone>::clone`. What is done to a
/// type of a standard library by a trait of somebody else is of that one: `<str as shop::Price>::price` → `shop::Price>::price`.
fn head(name: &str) -> &str {
    let Some(of_type) = name.strip_prefix('<') else { return without_marks(name) };
    let of_type = without_marks(of_type);
    let standard = |path: &str| {
        is_rust_type(path, "<") || PLUMBING_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
    };
    match of_type.split_once(" as ") {
        Some((_, of_trait)) if standard(of_type) => without_marks(of_trait),
        _ => of_type,
    }
}

/// References, slices and what else stands before the path of a type.
fn without_marks(mut name: &str) -> &str {
    const MARKS: &[&str] = &["&", "mut ", "*const ", "*mut ", "dyn ", "impl ", "[", "<", "{closure"];
    if name.starts_with("(anonymous") {
        return name;
    }
    while let Some(rest) = MARKS.iter().find_map(|mark| name.strip_prefix(mark)) {
        name = rest;
    }
    name
}

/// A type of the Rust language, or a name for any: `i32>::overflowing_add`, `T]>::sort`.
fn is_rust_type(head: &str, name: &str) -> bool {
    if !name.starts_with('<') {
        return false;
    }
    if head.starts_with("fn(") || head.starts_with('(') {
        return true;
    }
    let end = head.find(['>', ' ', ']', ';', ')', ',']).unwrap_or(head.len());
    let word = head.get(..end).unwrap_or(head);
    RUST_TYPES.contains(&word)
        || word.len() == 1 && word.starts_with(|letter: char| letter.is_ascii_uppercase())
}
