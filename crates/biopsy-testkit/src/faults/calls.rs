//! Which system calls are made to fail, and with which errors: what the manual pages name, and a server on its worst day gives.

use libc::{
    EACCES, EAGAIN, EBUSY, EINTR, EINVAL, EIO, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOSYS, EPERM, ESRCH, c_long,
};

/// A system call with the errors that fit it.
#[derive(Clone, Copy, Debug)]
pub struct FailingCall {
    /// As the manual calls it.
    pub name: &'static str,
    /// Its number.
    pub number: c_long,
    /// What it can fail with.
    pub errnos: &'static [i32],
}

macro_rules! calls {
    ($($name:ident $number:ident: $($errno:ident)+;)+) => {
        &[$(FailingCall { name: stringify!($name), number: libc::$number, errnos: &[$($errno),+] }),+]
    };
}

/// Left out on purpose:
///
/// * what cannot fail, or tells nothing: `exit_group`, `rt_sigreturn`, `rt_sigprocmask`, `getpid`, `gettid`, `set_robust_list`, `rseq` ...
/// * `futex`: the libraries abort on errors that the kernel does not give; `close` and `munmap` of what is our own: done either way
/// * `brk`, which says no by its value; the allocator's other way, `mmap`, is here
/// * ENOMEM of `recvfrom`: the manual names it for `recvmsg` alone; Rust's library panics on it when it starts a program
/// * `kill`, `tgkill`, `unlink` of what we own as root: a failure that no program can make good
pub const FAILING_CALLS: &[FailingCall] = calls! {
    read SYS_read: EINTR EIO ESRCH;
    pread64 SYS_pread64: EINTR EIO ESRCH;
    readv SYS_readv: EINTR EIO;
    preadv SYS_preadv: EINTR EIO;
    write SYS_write: EINTR ENOSPC EIO;
    pwrite64 SYS_pwrite64: EINTR ENOSPC EIO;
    writev SYS_writev: EINTR ENOSPC EIO;
    copy_file_range SYS_copy_file_range: EINTR ENOSPC EIO;
    sendfile SYS_sendfile: EINTR ENOMEM;
    open SYS_open: EMFILE ENOMEM EACCES;
    openat SYS_openat: EMFILE ENOMEM EACCES EINTR ENOENT;
    openat2 SYS_openat2: EMFILE ENOMEM EACCES EAGAIN;
    stat SYS_stat: EACCES ENOMEM;
    lstat SYS_lstat: EACCES ENOMEM;
    fstat SYS_fstat: ENOMEM;
    newfstatat SYS_newfstatat: EACCES ENOMEM ENOENT;
    statx SYS_statx: EACCES ENOMEM ENOENT;
    statfs SYS_statfs: EINTR EIO EACCES;
    fstatfs SYS_fstatfs: EINTR EIO;
    access SYS_access: EACCES ENOMEM;
    faccessat2 SYS_faccessat2: EACCES ENOMEM;
    getdents64 SYS_getdents64: ENOENT EIO;
    readlink SYS_readlink: EACCES ENOENT ENOMEM;
    readlinkat SYS_readlinkat: EACCES ENOENT ENOMEM;
    getxattr SYS_getxattr: EPERM;
    mkdir SYS_mkdir: ENOSPC EACCES;
    mkdirat SYS_mkdirat: ENOSPC EACCES;
    rename SYS_rename: ENOSPC EACCES;
    renameat SYS_renameat: ENOSPC EACCES;
    renameat2 SYS_renameat2: ENOSPC EINVAL;
    link SYS_link: ENOSPC EPERM;
    linkat SYS_linkat: ENOSPC EPERM ENOENT;
    symlinkat SYS_symlinkat: ENOSPC;
    fsync SYS_fsync: EIO ENOSPC EINTR;
    fdatasync SYS_fdatasync: EIO ENOSPC;
    ftruncate SYS_ftruncate: EINTR ENOSPC EIO;
    fallocate SYS_fallocate: EINTR ENOSPC;
    fchmod SYS_fchmod: EPERM EIO;
    fchown SYS_fchown: EPERM;
    flock SYS_flock: EINTR EAGAIN;
    fcntl SYS_fcntl: EMFILE EINVAL;
    dup SYS_dup: EMFILE;
    dup3 SYS_dup3: EMFILE;
    pipe2 SYS_pipe2: EMFILE;
    eventfd2 SYS_eventfd2: EMFILE ENOMEM;
    epoll_create1 SYS_epoll_create1: EMFILE ENOMEM;
    epoll_ctl SYS_epoll_ctl: ENOMEM ENOSPC;
    epoll_wait SYS_epoll_wait: EINTR;
    epoll_pwait SYS_epoll_pwait: EINTR;
    poll SYS_poll: EINTR ENOMEM;
    ppoll SYS_ppoll: EINTR ENOMEM;
    timerfd_create SYS_timerfd_create: EMFILE ENOMEM;
    signalfd4 SYS_signalfd4: EMFILE ENOMEM;
    memfd_create SYS_memfd_create: EMFILE ENOMEM;
    inotify_init1 SYS_inotify_init1: EMFILE ENOMEM;
    inotify_add_watch SYS_inotify_add_watch: ENOSPC ENOMEM;
    close_range SYS_close_range: EMFILE ENOMEM ENOSYS;
    fanotify_init SYS_fanotify_init: EMFILE EPERM ENOSYS;
    fanotify_mark SYS_fanotify_mark: ENOSPC ENOMEM;
    socket SYS_socket: EMFILE ENOMEM;
    socketpair SYS_socketpair: EMFILE ENOMEM;
    connect SYS_connect: EINTR EAGAIN EACCES;
    accept4 SYS_accept4: EINTR EMFILE;
    sendto SYS_sendto: EINTR ENOMEM;
    recvfrom SYS_recvfrom: EINTR;
    sendmsg SYS_sendmsg: EINTR ENOMEM;
    recvmsg SYS_recvmsg: EINTR ENOMEM;
    setsockopt SYS_setsockopt: ENOMEM;
    getsockopt SYS_getsockopt: ENOMEM;
    mmap SYS_mmap: ENOMEM;
    mremap SYS_mremap: ENOMEM;
    mprotect SYS_mprotect: ENOMEM;
    mlock SYS_mlock: ENOMEM EPERM;
    mlock2 SYS_mlock2: ENOMEM EPERM;
    mlockall SYS_mlockall: ENOMEM EPERM;
    madvise SYS_madvise: ENOMEM EAGAIN;
    process_madvise SYS_process_madvise: EINTR EPERM ESRCH;
    process_mrelease SYS_process_mrelease: EAGAIN EINTR ESRCH;
    process_vm_readv SYS_process_vm_readv: ESRCH EPERM ENOMEM;
    process_vm_writev SYS_process_vm_writev: ESRCH EPERM ENOMEM;
    clone SYS_clone: EAGAIN ENOMEM;
    clone3 SYS_clone3: EAGAIN ENOMEM;
    fork SYS_fork: EAGAIN ENOMEM;
    vfork SYS_vfork: EAGAIN ENOMEM;
    wait4 SYS_wait4: EINTR;
    waitid SYS_waitid: EINTR;
    ptrace SYS_ptrace: ESRCH EPERM EIO;
    kcmp SYS_kcmp: EPERM;
    pidfd_open SYS_pidfd_open: EMFILE ESRCH ENOMEM;
    pidfd_getfd SYS_pidfd_getfd: EPERM EMFILE;
    pidfd_send_signal SYS_pidfd_send_signal: ESRCH EPERM;
    perf_event_open SYS_perf_event_open: EMFILE ENOMEM EPERM ESRCH;
    bpf SYS_bpf: EPERM ENOMEM EMFILE;
    ioctl SYS_ioctl: EINTR ENOMEM EPERM EINVAL;
    sched_setattr SYS_sched_setattr: EPERM EBUSY;
    sched_setscheduler SYS_sched_setscheduler: EPERM ESRCH;
    sched_getscheduler SYS_sched_getscheduler: EPERM ESRCH;
    sched_setaffinity SYS_sched_setaffinity: EPERM EINVAL;
    sched_getaffinity SYS_sched_getaffinity: ESRCH EINVAL;
    setpriority SYS_setpriority: EACCES EPERM;
    prlimit64 SYS_prlimit64: EPERM;
    prctl SYS_prctl: EPERM EINVAL;
    setns SYS_setns: EPERM ENOMEM;
    unshare SYS_unshare: EPERM ENOMEM;
    sysinfo SYS_sysinfo: EPERM;
    uname SYS_uname: EPERM;
    nanosleep SYS_nanosleep: EINTR;
    clock_nanosleep SYS_clock_nanosleep: EINTR;
    getrandom SYS_getrandom: EINTR;
};

/// Name of an error of the table.
#[must_use]
pub fn errno_name(errno: i32) -> &'static str {
    match errno {
        EACCES => "EACCES",
        EAGAIN => "EAGAIN",
        EINTR => "EINTR",
        EINVAL => "EINVAL",
        EIO => "EIO",
        EMFILE => "EMFILE",
        ENOENT => "ENOENT",
        ENOMEM => "ENOMEM",
        ENOSPC => "ENOSPC",
        ENOSYS => "ENOSYS",
        EPERM => "EPERM",
        ESRCH => "ESRCH",
        _ => "another",
    }
}

/// Which occurrences of a call that is made `count` times are tried: each of the first 16, then ever fewer, and the last; with
/// `all` each.
#[must_use]
pub fn occurrences(count: u64, all: bool, seed: u64) -> Vec<u64> {
    if all || count <= 16 {
        return (1..=count).collect();
    }
    let mut found: Vec<u64> = (1..=16).collect();
    let mut at = 16;
    while at < count {
        let step = at / 4;
        // Another place in each step for another seed, so that many runs see all places in the end.
        found.push((at + 1 + seed.wrapping_mul(0x9e37_79b9) % step).min(count));
        at += step;
    }
    found.push(count);
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::occurrences;

    #[test]
    fn the_first_ones_densely_then_ever_fewer_and_the_last() {
        assert_eq!(occurrences(3, false, 0), [1, 2, 3]);
        let some = occurrences(1000, false, 0);
        assert_eq!(some[..18], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 21]);
        assert!(some.len() < 50 && some.is_sorted() && some.last() == Some(&1000), "{some:?}");
        assert_ne!(some, occurrences(1000, false, 1));
        assert_eq!(occurrences(1000, true, 0).len(), 1000);
    }
}
