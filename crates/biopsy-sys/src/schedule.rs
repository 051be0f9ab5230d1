//! Priorities of our own threads, and locked memory for a short time.

use std::io;
use std::time::Duration;

use biopsy_model::Tid;

use crate::check;

/// While this value lives, the calling thread runs with real-time priority (SCHED_FIFO, sched(7)): nothing but other
/// real-time threads can take the CPU from it. Not `Send`: it must end on the thread that it began on.
#[derive(Debug)]
pub struct RealTime {
    policy: i32,
    priority: i32,
    nice: std::marker::PhantomData<*const ()>,
}

impl RealTime {
    /// Raises the calling thread. Children and threads that it starts meanwhile are not raised.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE (or RLIMIT_RTPRIO).
    pub fn begin() -> io::Result<Self> {
        crate::fault::check("sched_setscheduler")?;
        let (policy, priority) = policy_of_this_thread()?;
        // The lowest: enough against every ordinary thread, and no rival to the kernel's own.
        set_policy(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)?;
        Ok(Self { policy, priority, nice: std::marker::PhantomData })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // Going back to where the thread came from needs no privilege.
        let _ = set_policy(0, self.policy, self.priority);
    }
}

/// While this value lives, the calling thread gets `runtime` of CPU time in each `period` before all ordinary threads, and no more than
/// that (SCHED_DEADLINE, sched(7)): the kernel keeps the promise and the limit. Not `Send`: it must end on the thread that it began on.
#[derive(Debug)]
pub struct Reserved(std::marker::PhantomData<*const ()>);

impl Reserved {
    /// Reserves. Children and threads that it starts meanwhile are ordinary ones.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE, for a thread that may not run on all CPUs, and in some control groups; EBUSY where others have
    /// reserved what there is.
    pub fn begin(runtime: Duration, period: Duration) -> io::Result<Self> {
        crate::fault::check("sched_setattr")?;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let attributes = SchedulingAttributes {
            size: u32::try_from(size_of::<SchedulingAttributes>()).unwrap_or(0),
            policy: libc::SCHED_DEADLINE.unsigned_abs(),
            flags: SCHED_FLAG_RESET_ON_FORK,
            nice: 0,
            priority: 0,
            runtime: nanos(runtime),
            deadline: nanos(period),
            period: nanos(period),
        };
        // SAFETY: sched_setattr reads the `size` bytes that the attributes say, all of which are there; 0 is the calling thread.
        check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })?;
        Ok(Self(std::marker::PhantomData))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Giving a reservation back needs no privilege, and the nice value is what it was.
        let _ = set_policy(0, libc::SCHED_OTHER, 0);
    }
}

/// Takes back what another thread of ours has reserved: it is an ordinary one again, with the nice value that it has.
///
/// # Errors
/// ESRCH when it is gone.
pub fn take_back(thread: Tid) -> io::Result<()> {
    let thread = i32::try_from(thread.0).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_policy(thread, libc::SCHED_OTHER, 0)
}

/// `SCHED_FLAG_RESET_ON_FORK` of include/uapi/linux/sched.h.
const SCHED_FLAG_RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` of include/uapi/linux/sched/types.h, its first version (48 bytes). Times in nanoseconds.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Policy and priority of the calling thread. By the system calls themselves, here and below: musl's functions of these names do nothing and
/// say ENOSYS, because POSIX means processes by them, and the kernel threads.
fn policy_of_this_thread() -> io::Result<(i32, i32)> {
    // SAFETY: sched_getscheduler takes an integer; 0 is the calling thread.
    let policy = check(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) })?;
    // The kernel's `sched_param` is this one number.
    let mut priority = 0_i32;
    // SAFETY: sched_getparam writes one number to the pointer; `priority` outlives the call.
    check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) })?;
    Ok((i32::try_from(policy).unwrap_or(0), priority))
}

/// Sets policy and priority of a thread, 0 for the calling one.
pub(crate) fn set_policy(tid: i32, policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: sched_setscheduler reads one number from the pointer, the kernel's `sched_param`; `priority` outlives the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) }).map(drop)
}

/// The nice value of one of our threads; on Linux each thread has its own (setpriority(2)).
///
/// # Errors
/// ESRCH when it is gone.
pub fn nice(tid: Tid) -> io::Result<i32> {
    // SAFETY: getpriority takes integers. The system call itself, unlike glibc's function, gives 20 - nice: never negative.
    let raw = check(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid.0) })?;
    Ok(20 - i32::try_from(raw).unwrap_or(20))
}

/// Sets it.
///
/// # Errors
/// EACCES below what it is without CAP_SYS_NICE (or RLIMIT_NICE); ESRCH when it is gone.
pub fn set_nice(tid: Tid, nice: i32) -> io::Result<()> {
    crate::fault::check("setpriority")?;
    // SAFETY: setpriority takes integers.
    check(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid.0, nice) }).map(drop)
}

/// The kernel's id of the calling thread.
#[must_use]
pub fn this_thread() -> Tid {
    // SAFETY: gettid takes nothing and cannot fail.
    let tid = unsafe { libc::gettid() };
    Tid(tid.unsigned_abs())
}

/// While this value lives, what this process has in memory now stays there (mlockall(2) with MCL_ONFAULT: nothing that is
/// not there yet is brought in), so that nothing has to be read from a disk in a moment that counts.
#[derive(Debug)]
pub struct LockedMemory(());

impl LockedMemory {
    /// Locks.
    ///
    /// # Errors
    /// ENOMEM or EPERM above RLIMIT_MEMLOCK without CAP_IPC_LOCK: to be tolerated.
    pub fn begin() -> io::Result<Self> {
        crate::fault::check("mlockall")?;
        // SAFETY: mlockall takes an integer and moves nothing.
        check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) }.into())?;
        Ok(Self(()))
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // SAFETY: munlockall takes nothing and moves nothing.
        unsafe { libc::munlockall() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_is_of_one_thread() {
        let others = nice(Tid(std::process::id())).unwrap();
        std::thread::spawn(move || {
            let before = nice(this_thread()).unwrap();
            // Up is allowed to everybody.
            set_nice(this_thread(), before + 1).unwrap();
            assert_eq!(nice(this_thread()).unwrap(), before + 1);
            assert_eq!(nice(Tid(std::process::id())).unwrap(), others);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_reservation_comes_and_goes_and_is_not_handed_on() {
        let policy = || policy_of_this_thread().unwrap().0 & !libc::SCHED_RESET_ON_FORK;
        std::thread::spawn(move || {
            set_nice(this_thread(), nice(this_thread()).unwrap() + 1).unwrap();
            let (before, polite) = (policy(), nice(this_thread()).unwrap());
            let Ok(guard) = Reserved::begin(Duration::from_millis(1), Duration::from_millis(100)) else {
                return;
            };
            assert_eq!(policy(), libc::SCHED_DEADLINE);
            assert_eq!(std::thread::spawn(policy).join().unwrap(), libc::SCHED_OTHER);
            drop(guard);
            assert_eq!((policy(), nice(this_thread()).unwrap()), (before, polite));
            // Another thread may take it back.
            let Ok(guard) = Reserved::begin(Duration::from_millis(1), Duration::from_millis(100)) else {
                return;
            };
            let this = this_thread();
            std::thread::spawn(move || take_back(this)).join().unwrap().unwrap();
            assert_eq!((policy(), nice(this_thread()).unwrap()), (before, polite));
            drop(guard);
            assert_eq!((policy(), nice(this_thread()).unwrap()), (before, polite));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn priority_comes_and_goes() {
        let policy = || policy_of_this_thread().unwrap().0;
        let before = policy();
        let Ok(guard) = RealTime::begin() else { return };
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
        drop(guard);
        assert_eq!(policy(), before);
    }
}
