//! Names that say what role a function plays. Data: no list of names is ever complete, and nothing but the choice of which
//! function of a stack is named depends on it.

/// Switching and waking. Everything these call is part of the cost of switching.
#[rustfmt::skip]
pub(crate) const SCHEDULER: &[&str] = &[
    "__cond_resched", "__schedule", "default_wake_function", "do_sched_yield", "dynamic_cond_resched",
    "finish_task_switch", "io_schedule", "io_schedule_timeout", "preempt_schedule",
    "preempt_schedule_common", "preempt_schedule_irq", "preempt_schedule_notrace", "schedule",
    "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock", "schedule_preempt_disabled",
    "schedule_timeout", "try_to_wake_up", "wake_up_process", "wake_up_q", "wake_up_state",
    "yield_task_fair",
];

/// A timer interrupt cannot land while interrupts are off: it lands here, right after.
#[rustfmt::skip]
pub(crate) const INTERRUPTS_ON: &[&str] = &[
    "__raw_spin_unlock_irq", "__raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq",
    "_raw_spin_unlock_irqrestore", "raw_spin_rq_unlock",
];

/// Modules that are plumbing as a whole, by the start of their file name.
#[rustfmt::skip]
pub(crate) const PLUMBING_MODULES: &[&str] = &[
    "[vdso]", "ld-linux", "ld-musl", "libSystem.Native", "libc++", "libc-", "libc.so", "libcoreclr",
    "libgcc_s", "libjvm", "libm.so", "libpthread", "librt", "libstdc++", "linux-vdso",
];

/// Names that begin like this are language runtimes, lock wrappers and the like.
#[rustfmt::skip]
pub(crate) const PLUMBING_PREFIXES: &[&str] = &[
    "<alloc::", "<core::", "<crossbeam", "<lock_api", "<parking_lot", "<std::", "LWLock", "OSMutex",
    "PGSemaphore", "PolicyMutex", "TTASEventMutex", "TTASMutex", "WaitEventSet",
    "WaitLatch", "__gnu_cxx::", "absl::", "alloc::", "boost::", "core::", "crossbeam", "folly::",
    "inline_mysql_", "internal/", "java.util.concurrent.locks", "jdk.internal.misc.Unsafe.park", "lock_api",
    "my_cond", "os_event", "parking_lot", "psi_", "pthread_", "runtime.findRunnable", "runtime.futex",
    "runtime.gopark", "runtime.lock", "runtime.mcall", "runtime.note", "runtime.park", "runtime.schedule",
    "runtime.sema", "runtime.stop", "safe_cond", "safe_mutex", "srw_lock", "srw_mutex", "ssux_lock",
    "std::", "sync.(*", "syscall.", "vio_io_wait", "vio_socket_io_wait",
];

/// Names of system calls and C library functions, for static programs.
#[rustfmt::skip]
pub(crate) const PLUMBING_NAMES: &[&str] = &[
    "accept", "accept4", "clock_nanosleep", "connect", "create_thread", "epoll_pwait", "epoll_wait",
    "fdatasync", "flock", "fsync", "futex", "futex_abstimed_wait", "futex_wait", "internal_syscall_cancel",
    "io_getevents", "io_schedule", "libc_accept", "libc_poll", "libc_read", "libc_recv", "libc_write",
    "lll_lock_wait", "lll_lock_wait_private", "lock_wait", "mutex_lock", "nanosleep", "poll", "ppoll",
    "pread", "pread64", "preadv", "pselect", "pthread_create", "pwrite", "pwrite64", "read", "readv",
    "recv", "recvfrom", "recvmsg", "select", "sem_timedwait", "sem_wait", "semop", "semtimedop", "send",
    "sendmsg", "sendto", "sleep", "spawn_thread", "start_thread", "sync", "sync_file_range", "syscall",
    "syscall_cancel", "syscall_cancel_arch", "syscall_cp", "thread_create", "timedwait", "timedwait_cp",
    "usleep", "wait", "wait4", "waitid", "waitpid", "write", "writev",
];

/// So are names that contain this.
pub(crate) const PLUMBING_PARTS: &[&str] =
    &["condition_variable", "unique_lock<", "lock_guard<", "mutex::lock", "Mutex<"];
