//! `/proc/locks`: who has which lock on a file, and who waits for it.
//!
//! ```text
//! 1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF
//! 1: -> POSIX  ADVISORY  WRITE 1240 08:01:5678 0 EOF
//! ```
//!
//! A waiter has the number of the lock that it waits behind. Owners of open file descriptions (OFD) have the pid -1.

use biopsy_model::Pid;

/// A lock that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Behind {
    /// Who has it; `None`: whoever has the description open.
    pub(super) holder: Option<Pid>,
    /// Inode of the file.
    pub(super) inode: u64,
}

/// What process `waiter` waits for.
pub(super) fn behind(text: &str, waiter: Pid) -> Option<Behind> {
    let rows = || text.lines().filter_map(row);
    let own = rows().find(|row| row.waits && row.pid == i64::from(waiter.0))?;
    let holder = rows().find(|row| !row.waits && row.number == own.number && row.inode == own.inode)?;
    Some(Behind { holder: u32::try_from(holder.pid).ok().filter(|pid| *pid > 0).map(Pid), inode: own.inode })
}

/// Somebody waits for a lock on this inode, and its owner is a description.
pub(super) fn behind_description(text: &str, inode: u64) -> bool {
    text.lines().filter_map(row).any(|row| row.waits && row.inode == inode && row.pid <= 0)
}

struct Row {
    number: u64,
    waits: bool,
    pid: i64,
    inode: u64,
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace().peekable();
    let number = words.next()?.strip_suffix(':')?.parse().ok()?;
    let waits = words.next_if_eq(&"->").is_some();
    let pid = words.nth(3)?.parse().ok()?;
    let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
    Some(Row { number, waits, pid, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF
1: -> POSIX  ADVISORY  WRITE 1240 08:01:5678 0 EOF
2: OFDLCK ADVISORY  WRITE -1 08:01:99 0 EOF
2: -> OFDLCK ADVISORY  WRITE -1 08:01:99 0 EOF
3: FLOCK  ADVISORY  WRITE 77 08:01:5678 0 EOF
";

    #[test]
    fn a_waiter_is_behind_the_lock_of_its_number() {
        assert_eq!(behind(LOCKS, Pid(1240)), Some(Behind { holder: Some(Pid(1234)), inode: 5678 }));
        assert_eq!(behind(LOCKS, Pid(1234)), None, "it has it");
        assert!(behind_description(LOCKS, 99));
        assert!(!behind_description(LOCKS, 5678));
        for length in 0..LOCKS.len() {
            let _ = behind(&LOCKS[..length], Pid(1240));
        }
    }
}
