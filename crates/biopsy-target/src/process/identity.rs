//! Identity of a process: boot + pid + start. Pids are given away again; this triple is not.

use biopsy_model::{BootId, Pid, ProcessKey};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::proc_root::{ProcRoot, SMALL};
use super::stat::Stat;

/// A process is not (or no longer) the one that was meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IdentityError {
    /// It has ended.
    #[error("process {pid} has ended")]
    Ended {
        /// Its pid.
        pid: Pid,
    },
    /// It has ended, and its pid belongs to another process now.
    #[error("process {pid} is no longer the one you named: started {named}, now {now}")]
    Reused {
        /// The pid.
        pid: Pid,
        /// When the process that was named started, local time.
        named: String,
        /// When the process that has the pid now started, local time.
        now: String,
    },
    /// The machine was started anew since: no process of before is there any more.
    #[error("process {pid} belonged to an earlier start of this machine")]
    OtherBoot {
        /// Its pid.
        pid: Pid,
    },
}

impl IdentityError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some("`biopsy ps` lists the processes that are there now".to_owned())
    }
}

/// Whether the process with this key still runs. A zombie runs no more.
#[must_use]
pub fn is_same(key: &ProcessKey) -> bool {
    check_same(key).is_ok()
}

/// As [`is_same`], and says why not.
///
/// # Errors
/// It has ended, or its pid means another process now.
pub fn check_same(key: &ProcessKey) -> Result<(), IdentityError> {
    check_same_in(&ProcRoot::live(), key)
}

/// As [`check_same`], below any root.
///
/// # Errors
/// As [`check_same`].
pub fn check_same_in(root: &ProcRoot, key: &ProcessKey) -> Result<(), IdentityError> {
    let pid = key.pid;
    if root.boot_id() != key.boot_id {
        return Err(IdentityError::OtherBoot { pid });
    }
    let stat = root.process(pid).and_then(|process| process.read("stat", SMALL));
    let Some(stat) = stat.ok().and_then(|line| Stat::parse(&line)) else {
        return Err(IdentityError::Ended { pid });
    };
    if stat.start_ticks != key.start_ticks {
        let named = start_time(key.start_ticks);
        let now = start_time(stat.start_ticks);
        let (named, now) = clock_texts(named, now, &TimeZone::system());
        return Err(IdentityError::Reused { pid, named, now });
    }
    if stat.is_zombie() && stat.threads <= 1 {
        return Err(IdentityError::Ended { pid });
    }
    Ok(())
}

/// The key of the process that has this pid now.
#[must_use]
pub fn key_of(root: &ProcRoot, pid: Pid) -> Option<ProcessKey> {
    let line = root.process(pid).ok()?.read("stat", SMALL).ok()?;
    Some(key(root.boot_id(), pid, &Stat::parse(&line)?))
}

pub(crate) fn key(boot_id: BootId, pid: Pid, stat: &Stat) -> ProcessKey {
    ProcessKey { boot_id, pid, start_ticks: stat.start_ticks }
}

/// Clock ticks per second of this kernel's `/proc` (100 in practice).
#[must_use]
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// Seconds since boot, suspended time included: the clock that `start_ticks` counts on (CLOCK_BOOTTIME).
#[must_use]
pub fn seconds_since_boot() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[expect(clippy::cast_precision_loss, reason = "seconds since boot are far below 2^53")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

/// Seconds since a process started; never negative.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "ticks since boot are far below 2^53")]
pub fn seconds_since(start_ticks: u64) -> f64 {
    (seconds_since_boot() - start_ticks as f64 / ticks_per_second() as f64).max(0.0)
}

/// Wall-clock time of the start of a process.
#[must_use]
pub fn start_time(start_ticks: u64) -> Timestamp {
    let ago = jiff::SignedDuration::try_from_secs_f64(seconds_since(start_ticks)).unwrap_or_default();
    Timestamp::now().saturating_sub(ago).unwrap_or_else(|_| Timestamp::now())
}

/// Two moments for people: times alone on one day, else with dates; with milliseconds where seconds do not differ.
fn clock_texts(first: Timestamp, second: Timestamp, zone: &TimeZone) -> (String, String) {
    let (first, second) = (first.to_zoned(zone.clone()), second.to_zoned(zone.clone()));
    let format = if first.date() != second.date() {
        "%Y-%m-%d %H:%M:%S"
    } else if first.timestamp().as_second() == second.timestamp().as_second() {
        "%H:%M:%S%.3f"
    } else {
        "%H:%M:%S"
    };
    (first.strftime(format).to_string(), second.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn myself() -> ProcessKey {
        key_of(&ProcRoot::live(), Pid(std::process::id())).unwrap()
    }

    #[test]
    fn a_process_is_itself() {
        assert!(is_same(&myself()));
        assert!(!myself().boot_id.0.is_empty());
    }

    #[test]
    fn another_start_is_another_process() {
        let mut key = myself();
        key.start_ticks -= 36_900;
        let error = check_same(&key).unwrap_err();
        assert!(matches!(error, IdentityError::Reused { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("process {} is no longer the one you named: started ", key.pid)),
            "{text}"
        );
    }

    #[test]
    fn a_pid_given_away_again() {
        let proc = crate::fake_proc::FakeProc::new();
        proc.process(4711, "old").start(5_000).write();
        let key = key_of(&proc.root(), Pid(4711)).unwrap();
        assert_eq!(check_same_in(&proc.root(), &key), Ok(()));
        std::fs::remove_dir_all(proc.path().join("proc/4711")).unwrap();
        assert_eq!(check_same_in(&proc.root(), &key), Err(IdentityError::Ended { pid: Pid(4711) }));
        proc.process(4711, "new").start(5_001).write();
        assert!(matches!(check_same_in(&proc.root(), &key), Err(IdentityError::Reused { .. })));
    }

    #[test]
    fn another_boot_is_another_process() {
        let key = ProcessKey { boot_id: BootId("other".to_owned()), ..myself() };
        assert_eq!(check_same(&key), Err(IdentityError::OtherBoot { pid: key.pid }));
    }

    #[test]
    fn an_ended_process_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let key = key_of(&ProcRoot::live(), Pid(child.id())).unwrap();
        assert!(is_same(&key));
        child.kill().unwrap();
        // Not yet waited for: at some moment from now on it is a zombie.
        while !matches!(check_same(&key), Err(IdentityError::Ended { .. })) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(check_same(&key), Err(IdentityError::Ended { pid: key.pid }));
    }

    #[test]
    fn times_show_what_differs() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let texts = |a, b| clock_texts(at(a), at(b), &TimeZone::UTC);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(texts("2026-01-01T12:03:10Z", "2026-01-01T12:09:44Z"), pair("12:03:10", "12:09:44"));
        assert_eq!(
            texts("2026-01-01T23:59:59Z", "2026-01-02T00:00:01Z"),
            pair("2026-01-01 23:59:59", "2026-01-02 00:00:01")
        );
        assert_eq!(
            texts("2026-01-01T12:03:10Z", "2026-01-01T12:03:10.25Z"),
            pair("12:03:10.000", "12:03:10.250")
        );
    }
}
