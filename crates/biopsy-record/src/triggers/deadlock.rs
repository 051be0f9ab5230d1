//! Threads that wait for mutexes of each other, told from outside by what the mutexes hold.
//!
//! A thread that waits for a mutex sleeps in futex(2) on a word of it. Two kinds tell who holds it:
//!
//! * glibc's: the word is 2 (taken, and somebody waits), and eight bytes further is the holder's thread number
//!   (`struct __pthread_mutex_s`: `__lock`, `__count`, `__owner`);
//! * musl's, and mutexes with priority inheritance or robust ones of either: the word itself is the holder's thread number with flags
//!   in its two highest bits (`FUTEX_WAITERS`, `FUTEX_OWNER_DIED`; `include/uapi/linux/futex.h`).
//!
//! What is no such mutex (a condition variable, a semaphore) may be read as one. So a holder counts only where following the
//! holders leads back to where one began: the chance that foreign memory names the right threads in a circle is none.

use std::collections::BTreeMap;

use biopsy_model::{Avma, Pid};

/// Bits of a futex word that hold a thread number (`FUTEX_TID_MASK`).
const TID_MASK: u32 = 0x3fff_ffff;
/// Taken, and somebody waits.
const CONTENDED: u32 = 2;

/// The thread that holds the lock that a thread waits for, by a line of `/proc/PID/task/TID/syscall` and one look at the memory.
pub(super) fn holder(pid: u32, line: &[u8]) -> Option<u32> {
    let address = futex_address(line)?;
    let mut words = [0; 12];
    let read = biopsy_sys::memory::read(Pid(pid), Avma(address), &mut words).ok()?;
    holder_in(words.get(..read)?)
}

/// The address of the futex in such a line: futex(2) only, its first argument.
fn futex_address(line: &[u8]) -> Option<u64> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let is_futex = cfg!(target_arch = "x86_64") && words.next()? == "202";
    let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    is_futex.then_some(address)
}

/// The holder as the first words of a mutex tell it.
fn holder_in(memory: &[u8]) -> Option<u32> {
    let word = |at: usize| {
        let bytes = memory.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let holder = match word(0)? {
        CONTENDED => word(8)?,
        taken => taken & TID_MASK,
    };
    (holder > CONTENDED).then_some(holder)
}

/// The number that a thread has in its own pid namespace: the last one of `NSpid` in its `status`.
pub(super) fn own_tid(status: &[u8]) -> Option<u32> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The threads of a circle of waiting ones, from pairs of who waits and who holds what it waits for; empty: there is none. The
/// first is the one with the smallest number.
pub(super) fn circle(waiting: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let holders: BTreeMap<u32, u32> = waiting.collect();
    // Each thread is visited once: 0 is nobody's number.
    let mut visited: BTreeMap<u32, u32> = BTreeMap::new();
    for &start in holders.keys() {
        let mut at = start;
        while !visited.contains_key(&at) {
            let Some(&next) = holders.get(&at) else { break };
            visited.insert(at, start);
            at = next;
        }
        // Back on a thread of the same walk.
        if holders.contains_key(&at) && visited.get(&at) == Some(&start) {
            return around(&holders, at);
        }
    }
    Vec::new()
}

fn around(holders: &BTreeMap<u32, u32>, from: u32) -> Vec<u32> {
    let mut found = vec![from];
    let mut at = from;
    while let Some(&next) = holders.get(&at).filter(|next| **next != from) {
        found.push(next);
        at = next;
    }
    let first = found.iter().enumerate().min_by_key(|(_, tid)| **tid).map_or(0, |(index, _)| index);
    found.rotate_left(first);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles() {
        let of = |pairs: &[(u32, u32)]| circle(pairs.iter().copied());
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[(7, 8), (8, 9)]), [0; 0], "9 works");
        assert_eq!(of(&[(7, 8), (8, 7)]), [7, 8]);
        assert_eq!(of(&[(5, 8), (7, 8), (8, 9), (9, 7)]), [7, 8, 9], "5 waits for one of them");
        assert_eq!(of(&[(3, 5), (5, 4), (4, 5)]), [4, 5]);
        assert_eq!(of(&[(6, 6)]), [6]);
        let chain: Vec<(u32, u32)> = (10..10_000).map(|tid| (tid, tid + 1)).collect();
        assert_eq!(of(&chain), [0; 0]);
    }

    #[test]
    fn holders_of_each_kind() {
        let memory = |words: [u32; 3]| words.map(u32::to_le_bytes).concat();
        assert_eq!(holder_in(&memory([2, 1, 4711])), Some(4711), "glibc");
        assert_eq!(holder_in(&memory([0x8000_1267, 0, 0])), Some(4711), "by the word itself");
        assert_eq!(holder_in(&memory([0, 0, 4711])), None, "free");
        assert_eq!(holder_in(&memory([2, 1, 0])), None);
        assert_eq!(holder_in(&[2, 0, 0, 0, 1]), None, "cut");
        assert_eq!(holder_in(&[]), None);
    }

    #[test]
    fn lines_of_others() {
        assert_eq!(own_tid(b"Name:\tx\nNSpid:\t300\t12\nThreads:\t1\n"), Some(12));
        assert_eq!(own_tid(b"Name:\tx\n"), None);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(futex_address(b"202 0x7f00 0x80 0x2 0x0\n"), Some(0x7f00));
        for odd in [&b"running\n"[..], b"", b"202", b"202 x", b"0 0x5", b"\xff"] {
            assert_eq!(futex_address(odd), None);
        }
    }
}
