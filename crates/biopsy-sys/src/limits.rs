//! Limits and scheduling of this process.

use std::io;

use crate::check;

/// Raises the soft limit of open files to the hard limit and returns it.
///
/// # Errors
/// When the kernel refuses; the old limit stays.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes one rlimit to the pointer; `limit` outlives the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }.into())?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: setrlimit reads one rlimit from the pointer; `limit` outlives the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into())?;
    Ok(limit.rlim_cur)
}

/// While this value lives, RLIMIT_MEMLOCK is as high as it may be: kernels before 5.11 charge BPF maps to it when they are made.
/// Later ones do not care. Afterwards it is as it was, so that no program that is started then inherits the raised one.
#[derive(Debug)]
pub struct LockedMemoryRoom {
    before: libc::rlimit,
    now: libc::rlim_t,
}

impl LockedMemoryRoom {
    /// Raises both limits to unlimited, or where that is refused (no CAP_SYS_RESOURCE) the soft one to the hard one.
    ///
    /// # Errors
    /// When the kernel does not tell the limit; nothing is changed then.
    pub fn raise() -> io::Result<Self> {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit writes one rlimit to the pointer; `before` outlives the call.
        check(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut before) }.into())?;
        let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        let hard = libc::rlimit { rlim_cur: before.rlim_max, ..before };
        let now = [most, hard].into_iter().find(|wanted| set_locked_memory(wanted).is_ok()).unwrap_or(before);
        Ok(Self { before, now: now.rlim_cur })
    }

    /// The limit while this lives, in bytes; `None`: none.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        (self.now != libc::RLIM_INFINITY).then_some(self.now)
    }
}

impl Drop for LockedMemoryRoom {
    fn drop(&mut self) {
        // Lowering needs no privilege.
        let _ = set_locked_memory(&self.before);
    }
}

fn set_locked_memory(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: setrlimit reads one rlimit from the pointer, which is a reference.
    check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, limit) }.into()).map(drop)
}

/// CPUs that are online, from `/sys/devices/system/cpu/online` (`0-3,8`).
///
/// # Errors
/// When the file cannot be read or is not a list of ranges.
pub fn online_cpus() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_cpu_list(text.trim())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("list of CPUs `{}`", text.trim())))
}

fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Gives memory that was freed back to the system (malloc_trim(3)); the allocator would keep most of it, in pieces that
/// belong to threads that have ended.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes an integer, may be called at any time from any thread, and moves nothing in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Peak resident memory of this process in bytes (getrusage(2)).
#[must_use]
pub fn peak_resident_bytes() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage to the pointer, which is valid for that.
    let ret = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if ret != 0 {
        return 0;
    }
    // SAFETY: zeroed at creation, and all-zero is a valid rusage; filled by the call above.
    let usage = unsafe { usage.assume_init() };
    usage.ru_maxrss.unsigned_abs() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_locked_memory_is_given_back() {
        // What children inherit: `/proc/self/limits` of one.
        let inherited = || {
            let output = std::process::Command::new("grep")
                .args(["locked memory", "/proc/self/limits"])
                .output()
                .expect("grep is everywhere");
            String::from_utf8(output.stdout).expect("text")
        };
        let before = inherited();
        let room = LockedMemoryRoom::raise().expect("the limit can be read");
        let during = inherited();
        match room.bytes() {
            None => assert!(
                during.split_whitespace().filter(|word| *word == "unlimited").count() == 2,
                "{during}"
            ),
            Some(bytes) => assert!(during.contains(&format!(" {bytes} ")), "{during}"),
        }
        drop(room);
        assert_eq!(inherited(), before);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        assert_eq!(parse_cpu_list(""), None);
        assert_eq!(parse_cpu_list("3-1"), None);
    }
}
