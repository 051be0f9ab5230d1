//! Stacks of waits, and what they are for.

use super::*;
use crate::trace::frames::role_of;
use crate::whose::{Code, Language};
use WaitReason::*;
use biopsy_model::Nanos;

/// A row by `module!function`: `k:` for the kernel, `jit!` for compiled managed code, `module!` for a frame without a name.
fn row(text: &str) -> FunctionRow {
    let (kind, module, name) = match (text.strip_prefix("k:"), text.split_once('!')) {
        (Some(name), _) => (FunctionKind::Kernel, "[kernel]", name),
        (None, Some(("jit", name))) => (FunctionKind::Jit, "jit", name),
        (None, Some((module, name))) => (FunctionKind::Native, module, name),
        (None, None) => (FunctionKind::Unknown, "", text),
    };
    let language = if kind == FunctionKind::Jit { Language::Managed } else { Language::Native };
    let function = Some(name).filter(|name| !name.is_empty());
    let code_module = if kind == FunctionKind::Jit { "" } else { module };
    FunctionRow {
        whose: Code { language, module: code_module, function, ..Code::default() }.whose(),
        name: name.to_owned(),
        module: module.to_owned(),
        kind,
        named: !name.is_empty() && kind != FunctionKind::Unknown,
        file: None,
        line: None,
        cpu_self: Nanos(0),
        cpu_total: Nanos(0),
        wait_self: Nanos(0),
        wait_total: Nanos(0),
    }
}

/// Reason and function of a stack, innermost first; functions of one frame are joined by ` < `, the inlined one first.
fn site(stack: &[&str]) -> (WaitReason, String) {
    let frames: Vec<Vec<FunctionRow>> =
        stack.iter().map(|frame| frame.split(" < ").map(row).collect()).collect();
    let all: Vec<&FunctionRow> = frames.iter().flatten().collect();
    let mut at = 0;
    let site = read(frames.iter().map(|frame| {
        let from = at;
        at += frame.len();
        frame.iter().enumerate().map(move |(number, row)| Step {
            function: FunctionHandle((from + number) as u32),
            row,
            role: role_of(row),
        })
    }));
    let function = site.function.map_or("-", |function| all[function.0 as usize].name.as_str());
    (site.reason, function.to_owned())
}

#[test]
fn a_stack_says_what_a_wait_is_for_and_where() {
    let table: &[(WaitReason, &str, &[&str])] = &[
        // The kernel knows by itself.
        (
            Events,
            "event_loop",
            &["k:schedule", "k:ep_poll", "libc.so.6!epoll_wait", "app!event_loop", "app!main"],
        ),
        (Peer, "ask", &["k:schedule", "k:sk_wait_data", "k:tcp_recvmsg", "libc.so.6!recv", "app!ask"]),
        (Pipe, "reader", &["k:pipe_read", "libc.so.6!read", "app!reader"]),
        (Sleep, "pace", &["k:do_nanosleep", "libc.so.6!nanosleep", "app!pace"]),
        (Child, "supervise", &["k:do_wait", "libc.so.6!wait4", "app!supervise"]),
        (Throttled, "work", &["k:throttle_cfs_rq", "app!work"]),
        (KernelLock, "map", &["k:rwsem_down_read_slowpath", "app!map"]),
        (Disk, "commit", &["k:io_schedule", "k:jbd2_log_wait_commit", "libc.so.6!fsync", "app!commit"]),
        // A page that is read back is memory, whatever file it lies in; a disk below a network wait is not asked any more.
        (
            Memory,
            "walk",
            &["k:io_schedule", "k:folio_wait_bit", "k:do_swap_page", "k:handle_mm_fault", "app!walk"],
        ),
        (Peer, "ask", &["k:sk_wait_data", "k:ext4_file_read", "app!ask"]),
        (Sleep, "pace", &["k:do_nanosleep", "k:handle_mm_fault", "app!pace"]),
        // A futex is what user code says it is.
        (Lock, "append", &["k:futex_wait", "libc.so.6!pthread_mutex_lock", "app!append"]),
        (
            Condition,
            "take",
            &["k:futex_wait", "libc.so.6!pthread_cond_wait", "app!take", "app!a", "app!b", "app!c"],
        ),
        (LockOrCondition, "take", &["k:futex_wait", "libc.so.6!", "app!take"]),
        (LockOrCondition, "futex_wait", &["k:schedule", "k:futex_wait"]),
        // A disk below a futex is not what the thread waits for.
        (LockOrCondition, "take", &["k:futex_wait", "k:io_schedule", "app!take"]),
        // The name of a parameter is no name of a function.
        (LockOrCondition, "work(std::mutex&)", &["k:futex_wait", "app!work(std::mutex&)"]),
        // Conditions inside of what is a lock by name, up to four callers away.
        (
            Lock,
            "MDL_wait::timed_wait",
            &["k:futex_wait", "libc.so.6!pthread_cond_wait", "app!MDL_wait::timed_wait"],
        ),
        (Lock, "a", &["k:futex_wait", "libc.so.6!pthread_cond_wait", "app!a", "app!b", "app!rw_lock_x"]),
        (
            Condition,
            "a",
            &[
                "k:futex_wait",
                "libc.so.6!pthread_cond_wait",
                "app!a",
                "app!b",
                "app!c",
                "app!d",
                "app!rw_lock_x",
            ],
        ),
        (
            Condition,
            "unlock_and_wait",
            &[
                "k:futex_wait",
                "libc.so.6!pthread_cond_wait",
                "app!unlock_and_wait",
                "app!b",
                "app!c",
                "app!d",
            ],
        ),
        // A lock's own implementation waits on conditions.
        (Lock, "take", &["k:futex_wait", "libc.so.6!pthread_cond_wait", "app!AwareLock::Enter", "app!take"]),
        // .NET sleeps on a condition, and enters monitors straight from the application.
        (
            Sleep,
            "Shop.Pace",
            &[
                "k:futex_wait",
                "libcoreclr.so!CLREvent::Wait",
                "jit!System.Threading.Thread.Sleep",
                "jit!Shop.Pace",
                "jit!a",
                "jit!b",
                "jit!c",
                "jit!d",
            ],
        ),
        (
            Sleep,
            "Prints.await",
            &[
                "k:futex_wait",
                "libc.so.6!pthread_cond_timedwait",
                "libjvm.so!os::PlatformEvent::park",
                "libjvm.so!JavaThread::sleep",
                "libjvm.so!JVM_Sleep",
                "jit!java.lang.Thread.sleep",
                "jit!Prints.await",
                "jit!a",
                "jit!b",
            ],
        ),
        // Off-CPU samples of user code have no frames of the kernel.
        (
            Sleep,
            "Prints.await",
            &[
                "libc.so.6!pthread_cond_timedwait",
                "libjvm.so!os::PlatformEvent::park",
                "libjvm.so!JavaThread::sleep",
                "libjvm.so!JVM_Sleep",
                "jit!java.lang.Thread.sleep",
                "jit!Prints.await",
                "jit!a",
                "jit!b",
            ],
        ),
        (Lock, "Shop.Add", &["k:futex_wait", "libcoreclr.so!CLREvent::Wait", "jit!Shop.Add"]),
        (Lock, "Shop.Add", &["k:futex_wait", "libcoreclr.so!", "jit!Shop.Add"]),
        // Where nothing of the application is there, the class library is named.
        (
            LockOrCondition,
            "System.Net.Http.Send",
            &["k:futex_wait", "libcoreclr.so!", "jit!System.Net.Http.Send"],
        ),
        // Stripped: the nearest caller with a name.
        (Events, "handle", &["k:ep_poll", "app!", "app!", "app!handle"]),
        // Inlined functions are asked from the inside out.
        (Lock, "push", &["k:futex_wait", "libc.so.6!pthread_mutex_lock", "app!push < app!run"]),
        // Without a kernel stack the program tells alone.
        (Lock, "append", &["libc.so.6!pthread_mutex_lock", "app!append"]),
        (Unknown, "append", &["app!append"]),
        (Unknown, "-", &[]),
        // An address is better than nothing.
        (Unknown, "0x1234", &["0x1234"]),
    ];
    for (reason, function, stack) in table {
        let (found, at) = site(stack);
        assert_eq!((found, at.as_str()), (*reason, *function), "{stack:?}");
    }
}

#[test]
fn a_site_without_a_name_goes_by_the_nearest_of_twelve_callers() {
    for unnamed in 0..16 {
        let mut stack = vec!["k:ep_poll"];
        stack.extend(std::iter::repeat_n("app!", unnamed));
        stack.push("app!handle");
        let expected = if unnamed < 12 { "handle" } else { "" };
        assert_eq!(site(&stack).1, expected, "{unnamed} frames without a name");
    }
}

#[test]
fn what_stands_outside_of_the_site_does_not_matter() {
    // A caller that sleeps, locks or receives elsewhere: its name is not asked any more.
    for outer in [
        "app!Mutex::lock",
        "libc.so.6!nanosleep",
        "jit!System.Threading.Thread.Sleep",
        "app!pthread_cond_wait",
    ] {
        let (reason, function) = site(&["k:sk_wait_data", "libc.so.6!recv", "app!ask", outer, "app!main"]);
        assert_eq!((reason, function.as_str()), (Peer, "ask"), "{outer}");
        let (reason, _) =
            site(&["k:futex_wait", "libc.so.6!pthread_mutex_lock", "app!ask", outer, "app!main"]);
        assert_eq!(reason, Lock, "{outer}");
    }
}

#[test]
fn system_call_and_state_tell_without_a_stack() {
    let table = [
        (None, WaitState::Sleep, Unknown),
        (None, WaitState::Disk, Disk),
        (Some("futex"), WaitState::Sleep, LockOrCondition),
        (Some("epoll_wait"), WaitState::Sleep, Events),
        (Some("recvfrom"), WaitState::Sleep, Peer),
        (Some("fsync"), WaitState::Disk, Disk),
        (Some("read"), WaitState::Sleep, Descriptor),
        (Some("read"), WaitState::Disk, Disk),
        (Some("mmap"), WaitState::Disk, KernelLock),
        (Some("mmap"), WaitState::Sleep, Other),
        (Some("flock"), WaitState::Sleep, Lock),
        (Some("wait4"), WaitState::Sleep, Child),
        (Some("clock_nanosleep"), WaitState::Sleep, Sleep),
        (Some("ioctl"), WaitState::Sleep, Other),
    ];
    for (call, state, reason) in table {
        assert_eq!(without_stack(call, state), reason, "{call:?} {state:?}");
    }
}

/// Each part of a name in the tables gives its own reason: none is shadowed by another.
#[test]
fn no_name_hides_another() {
    for (part, reason) in KERNEL {
        assert_eq!(kernel_reason(part), Some(*reason), "{part}");
        assert_eq!(kernel_reason(&format!("__{part}_x.isra.0")), Some(*reason), "{part}");
    }
    for (part, reason) in USER {
        assert_eq!(user_reason(part), Some(*reason), "{part}");
    }
}

#[test]
fn parts_of_names_are_not_taken_for_what_they_are_not() {
    for (name, reason) in [
        ("nfs_wait_bit_killable", Some(Disk)),
        ("nfs4_proc_read", Some(Disk)),
        ("__nfs_commit_inode", Some(Disk)),
        // File systems in memory.
        ("kernfs_fop_read_iter", None),
        ("configfs_read_iter", None),
        ("mptcp_recvmsg", Some(Peer)),
        ("do_syscall_64", None),
        ("schedule", None),
        ("", None),
    ] {
        assert_eq!(kernel_reason(name), reason, "{name}");
    }
    for (name, expected) in [
        ("work(std::mutex&)", None),
        ("Pool::take(std::condition_variable&)", None),
        ("std::condition_variable::wait(std::unique_lock<std::mutex>&)", Some(Condition)),
        ("sync.(*Mutex).lockSlow", Some(Lock)),
        ("(anonymous namespace)::pthread_mutex_lock", Some(Lock)),
        ("open_file", None),
    ] {
        assert_eq!(user_reason(name), expected, "{name}");
    }
    for (name, is_lock) in [
        ("rw_lock_x_lock_wait", true),
        ("MDL_context::acquire_lock", true),
        ("LWLockAcquire", true),
        ("mutex_unlock", false),
        ("mutex_cond_wait", false),
        ("take(Mutex&)", false),
        ("take", false),
    ] {
        assert_eq!(is_lock_name(name), is_lock, "{name}");
    }
}

mod any_stack {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use proptest::sample::select;

    const FRAMES: &[&str] = &[
        "k:schedule",
        "k:futex_wait",
        "k:io_schedule",
        "k:handle_mm_fault",
        "k:ep_poll",
        "libc.so.6!pthread_cond_wait",
        "libc.so.6!pthread_mutex_lock",
        "libcoreclr.so!",
        "jit!Shop.Run",
        "jit!System.Threading.Thread.Sleep",
        "jit!System.Net.Http.Send",
        "app!",
        "app!rw_lock_x",
        "app!work",
        "0x1234",
    ];

    proptest! {
        /// What is named is on the stack, and nothing but an unnamed site, the kernel or nobody stands for plumbing.
        #[test]
        fn names_what_is_there(stack in proptest::collection::vec(select(FRAMES), 0..24)) {
            let (_, function) = site(&stack);
            let is = |frame: &&str| row(frame).name == function;
            prop_assert!(function == "-" || stack.iter().any(is), "{function}");
            for plumbing in ["schedule", "pthread_cond_wait", "pthread_mutex_lock", "System.Threading.Thread.Sleep"] {
                prop_assert!(function != plumbing);
            }
        }

        /// The program's outermost functions never change what the inner ones have settled.
        #[test]
        fn callers_beyond_the_site_change_nothing(stack in proptest::collection::vec(select(FRAMES), 0..24)) {
            let mut inner = vec!["k:futex_wait", "libc.so.6!pthread_mutex_lock", "app!append"];
            let alone = site(&inner);
            inner.extend(stack);
            prop_assert_eq!(site(&inner), alone);
        }
    }
}
