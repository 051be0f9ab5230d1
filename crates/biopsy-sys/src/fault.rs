//! Makes a chosen system call fail with a chosen errno, so that the paths for refused calls are tested on
//! machines that refuse nothing.
//!
//! Only in debug builds: `BIOPSY_FAULT=perf_event_open:EACCES,bpf:EPERM@2` makes every `perf_event_open` fail
//! with EACCES, and `bpf` from the second call on. In release builds this is an empty function.

use std::io;

/// Fails if the environment asks for it. `call` is the name of the system call.
#[cfg(debug_assertions)]
pub(crate) fn check(call: &str) -> io::Result<()> {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Fault {
        call: String,
        errno: i32,
        from: u32,
        seen: AtomicU32,
    }
    static FAULTS: OnceLock<Vec<Fault>> = OnceLock::new();
    let faults = FAULTS.get_or_init(|| {
        let Ok(text) = std::env::var("BIOPSY_FAULT") else { return Vec::new() };
        text.split(',')
            .filter_map(|item| {
                let (call, rest) = item.split_once(':')?;
                let (errno, from) = rest.split_once('@').unwrap_or((rest, "1"));
                let errno = match errno {
                    "EPERM" => libc::EPERM,
                    "EACCES" => libc::EACCES,
                    "ENOENT" => libc::ENOENT,
                    "ENOSYS" => libc::ENOSYS,
                    "EMFILE" => libc::EMFILE,
                    "ENOMEM" => libc::ENOMEM,
                    "EINVAL" => libc::EINVAL,
                    other => other.parse().ok()?,
                };
                let from = from.parse().ok()?;
                Some(Fault { call: call.to_owned(), errno, from, seen: AtomicU32::new(0) })
            })
            .collect()
    });
    for fault in faults.iter().filter(|fault| fault.call == call) {
        if fault.seen.fetch_add(1, Ordering::Relaxed) + 1 >= fault.from {
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
    }
    Ok(())
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "same signature as in debug builds")]
#[inline]
pub(crate) fn check(_call: &str) -> io::Result<()> {
    Ok(())
}
