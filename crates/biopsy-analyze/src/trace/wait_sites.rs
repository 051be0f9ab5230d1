//! What one wait is for and where: read from kernel frames, then user frames, then the system call, then the
//! scheduler's state; the first that tells decides.

use crate::limits::STACK_DEPTH;
use crate::syscalls;
use crate::trace::frames::{FrameTable, Role};
use crate::trace::function::{FunctionHandle, FunctionKind, FunctionRow};
use crate::trace::waits::WaitReason;
use crate::whose::dotnet;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{Timeline, WaitState};
use rustc_hash::FxHashMap;

/// How many callers of a condition are asked whether they are a lock by name.
const LOCK_FRAMES: u32 = 4;
/// Stripped programs name few functions. A site that has no name goes by the nearest caller that has one, up to here.
const UNNAMED_FRAMES: u32 = 12;

/// Why and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaitSite {
    pub(crate) reason: WaitReason,
    /// The innermost function that is not plumbing.
    pub(crate) function: Option<FunctionHandle>,
}

/// Finds wait sites, each stack once.
#[derive(Debug)]
pub(crate) struct WaitSites<'a> {
    timeline: &'a Timeline,
    frames: &'a FrameTable,
    architecture: &'a str,
    known: FxHashMap<StackHandle, WaitSite>,
}

impl<'a> WaitSites<'a> {
    pub(crate) fn new(timeline: &'a Timeline, frames: &'a FrameTable, architecture: &'a str) -> Self {
        WaitSites { timeline, frames, architecture, known: FxHashMap::default() }
    }

    /// The site of a wait.
    pub(crate) fn of(
        &mut self,
        stack: Option<StackHandle>,
        syscall: Option<u32>,
        state: WaitState,
    ) -> WaitSite {
        let from_stack = stack.map(|stack| match self.known.get(&stack) {
            Some(known) => *known,
            None => {
                let site = self.read(stack);
                self.known.insert(stack, site);
                site
            }
        });
        let function = from_stack.and_then(|site| site.function);
        let reason = match (state, from_stack.map(|site| site.reason)) {
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

    fn read(&self, stack: StackHandle) -> WaitSite {
        let frames = self.timeline.frames_of(Some(stack)).take(STACK_DEPTH);
        read(frames.map(|frame| {
            self.frames.of(frame).iter().filter_map(|&function| {
                Some(Step { function, row: self.frames.row(function)?, role: self.frames.role(function) })
            })
        }))
    }
}

/// A function on the way from the innermost frame outwards.
struct Step<'r> {
    function: FunctionHandle,
    row: &'r FunctionRow,
    role: Role,
}

/// Folds a stack, innermost first, each frame with the functions inlined into it, until it tells why and where.
fn read<'r>(frames: impl Iterator<Item = impl Iterator<Item = Step<'r>>>) -> WaitSite {
    let (mut why, mut place) = (Why::default(), Where::default());
    for frame in frames {
        for step in frame {
            if step.row.kind == FunctionKind::Kernel {
                why.kernel(&step.row.name);
                place.kernel(&step);
                continue;
            }
            let by_name = step.row.named.then(|| user_reason(&step.row.name)).flatten();
            why.managed(step.row);
            if place.site.is_none() {
                why.by_name(by_name);
            }
            if by_name.is_none() {
                why.lock_by_caller(&step.row.name);
                place.user(&step);
            }
        }
        if place.is_known() && why.is_sure() {
            break;
        }
    }
    WaitSite { reason: why.reason(), function: place.function() }
}

/// What the functions so far say a wait is for.
struct Why {
    reason: WaitReason,
    /// The kernel waits at a futex: user code says what for.
    futex: bool,
    /// Callers of a condition that were asked whether they are a lock by name.
    asked: u32,
    /// The last frame was the managed runtime's own code.
    in_runtime: bool,
}

impl Default for Why {
    fn default() -> Self {
        Why { reason: WaitReason::Unknown, futex: false, asked: 0, in_runtime: false }
    }
}

impl Why {
    fn kernel(&mut self, name: &str) {
        if self.futex {
            return;
        }
        match (self.reason, kernel_reason(name)) {
            (WaitReason::Unknown, Some(WaitReason::LockOrCondition)) => self.futex = true,
            (WaitReason::Unknown, Some(found)) => self.reason = found,
            // A page that is read back keeps the thread waiting for memory, not for a file it asked for.
            (WaitReason::Disk, Some(WaitReason::Memory)) => self.reason = WaitReason::Memory,
            _ => {}
        }
    }

    /// A `lock` statement goes straight into the runtime, every other wait goes through the class library.
    fn managed(&mut self, row: &FunctionRow) {
        match row.kind {
            FunctionKind::Native => self.in_runtime = dotnet::is_runtime_module(&row.module),
            FunctionKind::Jit if self.in_runtime && row.named => {
                self.in_runtime = false;
                let waits =
                    self.futex || matches!(self.reason, WaitReason::Condition | WaitReason::LockOrCondition);
                if waits && !dotnet::is_library(&row.name) {
                    self.reason = WaitReason::Lock;
                }
            }
            FunctionKind::Jit | FunctionKind::Kernel | FunctionKind::Unknown | FunctionKind::Heading => {}
        }
    }

    /// What the function's own name says, before the site is reached.
    fn by_name(&mut self, found: Option<WaitReason>) {
        // What the kernel says of other waits is certain; a condition is what user code called it, with or without the kernel's frames.
        if !self.futex && !matches!(self.reason, WaitReason::Unknown | WaitReason::Condition) {
            return;
        }
        match (self.reason, found) {
            // A condition that belongs to a lock's own implementation is a lock.
            (reason, Some(WaitReason::Lock)) if reason != WaitReason::Sleep => self.reason = WaitReason::Lock,
            // .NET and Java sleep by waiting on a condition that nobody signals.
            (WaitReason::Condition, Some(WaitReason::Sleep)) => self.reason = WaitReason::Sleep,
            (WaitReason::Unknown, Some(found)) => self.reason = found,
            _ => {}
        }
    }

    /// Programs build locks out of conditions, and call the functions around them so.
    fn lock_by_caller(&mut self, name: &str) {
        if self.reason == WaitReason::Condition && self.asked < LOCK_FRAMES {
            self.asked += 1;
            if is_lock_name(name) {
                self.reason = WaitReason::Lock;
            }
        }
    }

    fn is_sure(&self) -> bool {
        self.reason != WaitReason::Condition || self.asked >= LOCK_FRAMES
    }

    fn reason(&self) -> WaitReason {
        if self.futex && self.reason == WaitReason::Unknown {
            WaitReason::LockOrCondition
        } else {
            self.reason
        }
    }
}

/// Which function a person would name, best first.
#[derive(Default)]
struct Where {
    /// The innermost function of the program that has a name.
    named: Option<FunctionHandle>,
    /// The innermost function of a library; of one that a runtime compiled.
    library: Option<FunctionHandle>,
    compiled: Option<FunctionHandle>,
    /// The innermost function of the program, by module and address where it has no name.
    site: Option<FunctionHandle>,
    /// The innermost function of the kernel that does not switch threads.
    kernel: Option<FunctionHandle>,
    /// Functions of the program that were passed.
    passed: u32,
}

impl Where {
    fn kernel(&mut self, step: &Step<'_>) {
        if step.role == Role::Plain {
            self.kernel = self.kernel.or(Some(step.function));
        }
    }

    fn user(&mut self, step: &Step<'_>) {
        match step.role {
            Role::Library => {
                self.library = self.library.or(Some(step.function));
                let compiled = step.row.kind == FunctionKind::Jit;
                self.compiled = self.compiled.or(compiled.then_some(step.function));
            }
            Role::Plain => {
                self.passed += 1;
                self.site = self.site.or(Some(step.function));
                self.named = self.named.or(step.row.named.then_some(step.function));
            }
            Role::Scheduler | Role::InterruptsOn | Role::Plumbing => {}
        }
    }

    fn is_known(&self) -> bool {
        self.named.is_some() || self.passed >= UNNAMED_FRAMES
    }

    fn function(&self) -> Option<FunctionHandle> {
        // The program that hosts a runtime is outside of all that the runtime compiled.
        self.named.or(self.compiled).or(self.site).or(self.library).or(self.kernel)
    }
}

/// What a kernel function says about a wait that it is in.
fn kernel_reason(name: &str) -> Option<WaitReason> {
    let known = KERNEL.iter().find(|(part, _)| name.contains(part)).map(|(_, reason)| *reason);
    // Not by a part of the name: `kernfs` and `configfs` are in memory.
    known.or_else(|| name.trim_start_matches('_').starts_with("nfs").then_some(WaitReason::Disk))
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
    ("kernel_clone", WaitReason::Child),
    ("wait_for_vfork", WaitReason::Child),
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
    ("JVM_Sleep", WaitReason::Sleep),
    ("JavaThread::sleep", WaitReason::Sleep),
    ("PlatformEvent::park", WaitReason::Condition),
    ("java.lang.Thread.sleep", WaitReason::Sleep),
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
        "wait4" | "waitid" | "vfork" | "clone" | "clone3" => WaitReason::Child,
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

#[cfg(test)]
mod tests;
