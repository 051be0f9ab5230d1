//! Which namespaces we run in.

use biopsy_model::Pid;

use crate::process::proc_root::{PIDS_OF_MACHINE, ProcRoot};

/// Inode of the initial user namespace (`PROC_USER_INIT_INO` in the kernel's `include/linux/proc_ns.h`).
const INITIAL_USER: u64 = 0xEFFF_FFFD;

/// The initial namespaces that every usual container has its own of.
const INITIAL: [(&str, u64); 3] =
    [("ns/uts", 0xEFFF_FFFE), ("ns/ipc", 0xEFFF_FFFF), ("ns/cgroup", 0xEFFF_FFFB)];

/// Whether host name, IPC and control groups are seen like the machine's own processes see them: no container.
pub(super) fn is_outermost(root: &ProcRoot) -> bool {
    let Ok(process) = root.myself() else { return false };
    INITIAL.iter().all(|&(name, initial)| process.inode(name) == Some(initial))
}

/// Whether we run in a pid namespace of our own, and so do not see the processes outside; `None`: cannot be told.
#[must_use]
pub fn is_own_pid_namespace(root: &ProcRoot) -> Option<bool> {
    Some(root.myself().ok()?.inode("ns/pid")? != PIDS_OF_MACHINE)
}

/// Whether we run in a user namespace of our own: then our capabilities count for what is in it only.
#[must_use]
pub fn is_own_user_namespace(root: &ProcRoot) -> Option<bool> {
    Some(root.myself().ok()?.inode("ns/user")? != INITIAL_USER)
}

/// Which processes `/proc` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// All of the machine, as far as can be told.
    All,
    /// Those of our own pid namespace.
    OwnPidNamespace,
    /// Those of our own user (`hidepid`).
    OwnUser,
}

/// Which processes `/proc` shows us.
#[must_use]
pub fn view(root: &ProcRoot) -> View {
    if is_own_pid_namespace(root) == Some(true) {
        View::OwnPidNamespace
    } else if root.path("proc/self").exists() && !root.path("proc/1/stat").exists() {
        View::OwnUser
    } else {
        View::All
    }
}

/// `/proc` may have been mounted in another pid namespace (`unshare --pid` without `--mount-proc`): every pid in it
/// would mean another process for the system calls than for us.
pub(crate) fn is_proc_ours() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    own.as_deref().and_then(|link| link.to_str()) == Some(std::process::id().to_string().as_str())
}

/// Whether a process that `/proc` does not show is there all the same (`hidepid`). Signal 0 tests without sending.
pub(crate) fn exists_but_is_hidden(pid: Pid) -> bool {
    let Some(pid) = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM)
}
