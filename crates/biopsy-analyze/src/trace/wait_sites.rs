//! What one wait is for and where: read from kernel frames, then user frames, then the system call, then the
//! scheduler's state; the first that tells decides.

use crate::limits::STACK_DEPTH;
use crate::managed_names;
use crate::syscalls;
use crate::trace::frames::{FrameTable, Role};
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::waits::WaitReason;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{Timeline, WaitState};
use rustc_hash::FxHashMap;

/// Why and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaitSite {
    pub(crate) reason: WaitReason,
    /// The innermost function that is not plumbing.
    pub(crate) function: Option<FunctionHandle>,
}

/// Finds sites, each stack once.
#[derive(Debug)]
pub(crate) struct WaitSites<'a> {
    timeline: &'a Timeline,
    frames: &'a FrameTable,
    architecture: &'a str,
    known: FxHashMap<StackHandle, Option<WaitSite>>,
}

impl<'a> WaitSites<'a> {
    pub(crate) fn new(timeline: &'a Timeline, frames: &'a FrameTable, architecture: &'a str) -> Self {
        WaitSites { timeline, frames, architecture, known: FxHashMap::default() }
    }

    /// The place of a wait.
    pub(crate) fn of(
        &mut self,
        stack: Option<StackHandle>,
        syscall: Option<u32>,
        state: WaitState,
    ) -> WaitSite {
        let from_stack = stack.and_then(|stack| match self.known.get(&stack) {
            Some(known) => *known,
            None => {
                let place = self.read(stack);
                self.known.insert(stack, place);
                place
            }
        });
        let function = from_stack.and_then(|place| place.function);
        let reason = match (state, from_stack.map(|place| place.reason)) {
            (WaitState::Preempted, _) => WaitReason::Preempted,
            (WaitState::Stopped, _) => WaitReason::Stopped,
            (_, Some(reason)) if reason != WaitReason::Unknown => reason,
            (state, _) => without_stack(self.syscall_name(syscall), state),
        };
        WaitSite { reason, function }
    }

    /// Name of a system call.
    pub(crate) fn syscall_name(&self, number: Option<u32>) -> Option<&'static str> {
        syscalls::name(self.architecture, number?)
    }

    fn read(&self, stack: StackHandle) -> Option<WaitSite> {
        let mut reason = WaitReason::Unknown;
        let mut futex = false;
        let mut place = None;
        let mut named = None;
        let mut beyond = 0u32;
        let mut fallback = None;
        let mut lock_names = 0u32;
        let mut library = None;
        let mut runtime = false;
        for frame in self.timeline.frames_of(Some(stack)).take(STACK_DEPTH) {
            for &function in self.frames.of(frame) {
                let Some(row) = self.frames.row(function) else { continue };
                if row.kind == FunctionKind::Kernel {
                    // A page that is read back keeps the thread waiting for memory, not for a file it asked for.
                    if matches!(reason, WaitReason::Unknown | WaitReason::Disk) && !futex {
                        match kernel_reason(&row.name) {
                            Some(found) if reason == WaitReason::Disk && found != WaitReason::Memory => {}
                            Some(WaitReason::LockOrCondition) => futex = true,
                            Some(found) => reason = found,
                            None => {}
                        }
                    }
                    fallback = fallback.or((self.frames.role(function) == Role::Plain).then_some(function));
                    continue;
                }
                let by_name = if row.named { user_reason(&row.name) } else { None };
                match row.kind {
                    FunctionKind::Native => runtime = managed_names::is_runtime_module(&row.module),
                    // A `lock` statement goes straight into the runtime, every other wait goes through the class library.
                    FunctionKind::Jit if runtime && row.named => {
                        runtime = false;
                        let waits =
                            matches!(reason, WaitReason::Condition | WaitReason::LockOrCondition) || futex;
                        if waits && !managed_names::is_library(&row.name) {
                            reason = WaitReason::Lock;
                        }
                    }
                    _ => {}
                }
                if (futex || reason == WaitReason::Unknown) && place.is_none() {
                    match by_name {
                        // A condition that belongs to a lock's own implementation is a lock.
                        Some(WaitReason::Lock) if reason != WaitReason::Sleep => reason = WaitReason::Lock,
                        // .NET sleeps by waiting on a condition that nobody signals.
                        Some(WaitReason::Sleep) if reason == WaitReason::Condition => {
                            reason = WaitReason::Sleep
                        }
                        Some(by_name) if reason == WaitReason::Unknown => reason = by_name,
                        _ => {}
                    }
                }
                if reason == WaitReason::Condition && by_name.is_none() && lock_names < LOCK_FRAMES {
                    lock_names += 1;
                    if is_lock_name(&row.name) {
                        reason = WaitReason::Lock;
                    }
                }
                if self.frames.role(function) == Role::Library && by_name.is_none() {
                    library = library.or(Some(function));
                }
                if self.frames.role(function) == Role::Plain && by_name.is_none() {
                    beyond += 1;
                    place = place.or(Some(function));
                    named = named.or(row.named.then_some(function));
                }
            }
            let looked = named.is_some() || beyond >= UNNAMED_FRAMES;
            let done = looked && (reason != WaitReason::Condition || lock_names >= LOCK_FRAMES);
            if done {
                break;
            }
        }
        if futex && reason == WaitReason::Unknown {
            reason = WaitReason::LockOrCondition;
        }
        Some(WaitSite { reason, function: named.or(library).or(place).or(fallback) })
    }
}

/// How many callers of a condition are asked whether they are a lock by name.
const LOCK_FRAMES: u32 = 4;
/// Stripped programs name few functions. A place that has no name goes by the nearest caller that has one, up to here.
const UNNAMED_FRAMES: u32 = 12;

/// What a kernel function says about a wait that it is in.
fn kernel_reason(name: &str) -> Option<WaitReason> {
    KERNEL.iter().find(|(part, _)| name.contains(part)).map(|(_, reason)| *reason)
}

/// Innermost frames come first, so within one frame the order here only matters for overlapping parts.
const KERNEL: &[(&str, WaitReason)] = &[
    ("futex", WaitReason::LockOrCondition),
    ("throttle_cfs", WaitReason::Throttled),
    ("ep_poll", WaitReason::Events),
    ("epoll_wait", WaitReason::Events),
    ("do_sys_poll", WaitReason::Events),
    ("poll_schedule_timeout", WaitReason::Events),
    ("do_poll", WaitReason::Events),
    ("do_select", WaitReason::Events),
    ("io_cqring_wait", WaitReason::Events),
    ("io_wq_worker", WaitReason::Events),
    ("read_events", WaitReason::Events),
    ("io_getevents", WaitReason::Events),
    ("sk_wait_data", WaitReason::Peer),
    ("tcp_recvmsg", WaitReason::Peer),
    ("inet_csk_accept", WaitReason::Peer),
    ("inet_wait_for_connect", WaitReason::Peer),
    ("inet_stream_connect", WaitReason::Peer),
    ("sk_stream_wait", WaitReason::Peer),
    ("unix_stream", WaitReason::Peer),
    ("unix_wait", WaitReason::Peer),
    ("unix_accept", WaitReason::Peer),
    ("wait_for_more_packets", WaitReason::Peer),
    ("sock_alloc_send", WaitReason::Peer),
    ("sock_recvmsg", WaitReason::Peer),
    ("sock_sendmsg", WaitReason::Peer),
    ("vsock_", WaitReason::Peer),
    ("pipe_read", WaitReason::Pipe),
    ("pipe_write", WaitReason::Pipe),
    ("pipe_wait", WaitReason::Pipe),
    ("tty_read", WaitReason::Pipe),
    ("eventfd_read", WaitReason::Pipe),
    ("inotify_read", WaitReason::Events),
    ("signalfd", WaitReason::Signal),
    ("timerfd", WaitReason::Sleep),
    ("do_swap_page", WaitReason::Memory),
    ("handle_mm_fault", WaitReason::Memory),
    ("exc_page_fault", WaitReason::Memory),
    ("try_to_free", WaitReason::Memory),
    ("mem_cgroup", WaitReason::Memory),
    ("balance_dirty_pages", WaitReason::Disk),
    ("rwsem_down", WaitReason::KernelLock),
    ("__mutex_lock", WaitReason::KernelLock),
    ("percpu_down", WaitReason::KernelLock),
    ("rt_mutex", WaitReason::KernelLock),
    ("nanosleep", WaitReason::Sleep),
    ("do_wait", WaitReason::Child),
    ("kernel_wait", WaitReason::Child),
    ("sigtimedwait", WaitReason::Signal),
    ("sigsuspend", WaitReason::Signal),
    ("do_semtimedop", WaitReason::Lock),
    ("posix_lock", WaitReason::Lock),
    ("locks_lock", WaitReason::Lock),
    ("ptrace_stop", WaitReason::Stopped),
    ("do_signal_stop", WaitReason::Stopped),
    ("io_schedule", WaitReason::Disk),
    ("folio_wait", WaitReason::Disk),
    ("wait_on_page", WaitReason::Disk),
    ("wait_on_buffer", WaitReason::Disk),
    ("jbd2", WaitReason::Disk),
    ("ext4_", WaitReason::Disk),
    ("xfs_", WaitReason::Disk),
    ("btrfs_", WaitReason::Disk),
    ("f2fs_", WaitReason::Disk),
    ("zfs_", WaitReason::Disk),
    ("nfs", WaitReason::Disk),
    ("fuse_", WaitReason::Disk),
    ("blk_", WaitReason::Disk),
    ("blkdev_", WaitReason::Disk),
    ("submit_bio", WaitReason::Disk),
    ("filemap_", WaitReason::Disk),
    ("vfs_fsync", WaitReason::Disk),
    ("iomap_dio", WaitReason::Disk),
    ("sync_file", WaitReason::Disk),
];

/// What a function of the program or its libraries says about a wait that it is in.
fn user_reason(name: &str) -> Option<WaitReason> {
    let name = without_parameters(name);
    USER.iter().find(|(part, _)| name.contains(part)).map(|(_, reason)| *reason)
}

/// A function that is handed a mutex is not one: `work(std::mutex&)` → `work`. Go's `sync.(*Mutex).Lock` and
/// `(anonymous namespace)::work` stay whole.
fn without_parameters(name: &str) -> &str {
    let mut before = ':';
    for (at, letter) in name.char_indices() {
        if letter == '(' && !matches!(before, ':' | '.') {
            return name.get(..at).unwrap_or(name);
        }
        before = letter;
    }
    name
}

const USER: &[(&str, WaitReason)] = &[
    ("cond_wait", WaitReason::Condition),
    ("cond_timedwait", WaitReason::Condition),
    ("cond_clockwait", WaitReason::Condition),
    ("condition_variable", WaitReason::Condition),
    ("Condvar", WaitReason::Condition),
    ("condvar", WaitReason::Condition),
    ("os_event", WaitReason::Condition),
    ("thread::park", WaitReason::Condition),
    ("Parker::park", WaitReason::Condition),
    ("Unsafe_Park", WaitReason::Condition),
    ("Parker::", WaitReason::Condition),
    ("runtime.notesleep", WaitReason::Condition),
    ("runtime.notetsleep", WaitReason::Condition),
    ("runtime.stopm", WaitReason::Condition),
    ("CLREvent", WaitReason::Condition),
    ("Monitor.Wait", WaitReason::Condition),
    ("WaitHandle.", WaitReason::Condition),
    ("SemaphoreSlim", WaitReason::Condition),
    ("ManualResetEventSlim", WaitReason::Condition),
    ("System.Threading.LowLevel", WaitReason::Condition),
    ("System.Threading.Lock.", WaitReason::Lock),
    ("System.Threading.Thread.Sleep", WaitReason::Sleep),
    ("pthread_mutex_", WaitReason::Lock),
    ("pthread_rwlock_", WaitReason::Lock),
    ("pthread_spin_lock", WaitReason::Lock),
    ("lll_lock", WaitReason::Lock),
    ("lll_mutex", WaitReason::Lock),
    ("Mutex::lock", WaitReason::Lock),
    ("mutex::lock", WaitReason::Lock),
    ("lock_contended", WaitReason::Lock),
    ("lock_slow", WaitReason::Lock),
    ("RawRwLock", WaitReason::Lock),
    ("RawMutex", WaitReason::Lock),
    ("AwareLock", WaitReason::Lock),
    ("Monitor.Enter", WaitReason::Lock),
    ("ObjectMonitor::enter", WaitReason::Lock),
    ("LWLockAcquire", WaitReason::Lock),
    ("runtime.semacquire", WaitReason::Lock),
    ("sync.(*Mutex)", WaitReason::Lock),
    ("sync.(*RWMutex)", WaitReason::Lock),
    ("pthread_join", WaitReason::Condition),
    ("pthread_clockjoin", WaitReason::Condition),
];

/// Programs build locks of their own out of conditions; their names say so.
fn is_lock_name(name: &str) -> bool {
    const PARTS: &[&str] =
        &["mutex", "Mutex", "rw_lock", "rwlock", "RWLock", "lock_wait", "LWLock", "MDL_", "lock_table"];
    let name = without_parameters(name);
    PARTS.iter().any(|part| name.contains(part)) && !name.contains("unlock") && !name.contains("cond")
}

/// What system call and state tell.
fn without_stack(syscall: Option<&str>, state: WaitState) -> WaitReason {
    let Some(name) = syscall else {
        return if state == WaitState::Disk { WaitReason::Disk } else { WaitReason::Unknown };
    };
    match name {
        "futex" | "futex_waitv" | "futex_wait" => WaitReason::LockOrCondition,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select" | "pselect6"
        | "io_getevents" | "io_pgetevents" | "io_uring_enter" => WaitReason::Events,
        "recvfrom" | "recvmsg" | "recvmmsg" | "accept" | "accept4" | "connect" | "sendto" | "sendmsg"
        | "sendmmsg" => WaitReason::Peer,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "pread64" | "pwrite64"
        | "preadv" | "pwritev" | "preadv2" | "pwritev2" => WaitReason::Disk,
        "nanosleep" | "clock_nanosleep" => WaitReason::Sleep,
        "wait4" | "waitid" => WaitReason::Child,
        "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => WaitReason::Signal,
        "semop" | "semtimedop" | "flock" => WaitReason::Lock,
        "mmap" | "munmap" | "mprotect" | "madvise" | "brk" | "mremap" if state == WaitState::Disk => {
            WaitReason::KernelLock
        }
        _ if state == WaitState::Disk => WaitReason::Disk,
        "read" | "write" | "readv" | "writev" | "sendfile" | "splice" => WaitReason::Descriptor,
        _ => WaitReason::Other,
    }
}
