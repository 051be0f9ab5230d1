//! Clocks.

/// CLOCK_MONOTONIC in nanoseconds: the clock of every recording (clock_gettime(2)).
#[must_use]
pub fn monotonic_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time used by this process in nanoseconds.
#[must_use]
pub fn process_cpu_nanos() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time used by the calling thread in nanoseconds.
#[must_use]
pub fn thread_cpu_nanos() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
#[must_use]
pub fn realtime_nanos() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec to the pointer; `time` lives on this stack frame.
    let ret = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(ret, 0, "these clocks exist on every Linux");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
