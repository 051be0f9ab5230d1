//! When a process counts as hanging.
//!
//! A process that does nothing may be idle, and being idle is no sickness: a server waits for requests. What tells the
//! two apart is what its threads wait *for*. A process hangs when, for the whole time that was asked for,
//!
//! 1. one of its threads is in uninterruptible sleep (state `D`: a disk or file server that does not answer), in the
//!    same wait; or
//! 2. nothing of it moves although a thread is ready to run and gets no CPU (a CPU limit of 0, a frozen or starved
//!    cgroup), or is stopped (`T`); or
//! 3. nothing of it moves and *all* its threads wait for locks of their own process (futex(2) without a time limit, and
//!    flock, lockf, semop): nothing from outside can ever wake it, it is deadlocked; or
//! 4. its main thread, which used to wait for the outside (epoll, poll, read, accept ...), waits for a lock instead, in one
//!    and the same wait: an event loop that is stuck, whatever the other threads do; or
//! 5. some of its threads wait for mutexes of each other in a circle (or one for a mutex that it holds itself), whatever
//!    all others do (see `deadlock`).
//!
//! *To move* is to be switched to a CPU, or to use CPU time. What is **not** found: a deadlock of some threads by locks that do
//! not tell their holder (read-write locks, semaphores, the monitors of .NET: its thread pool can be exhausted by those, and
//! then `log` or a probe from outside is the better trigger); a thread that spins (use
//! `cpu`); a wait for an answer that never comes. What a thread waits for is told by `/proc/PID/task/TID/syscall`, which needs
//! the right to trace the process: without it only 1 and 2 are found.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::deadlock;
use crate::metrics::parse::{name_values, number, parse_stat};

/// Most threads that are looked at; a process with more is told by its first ones.
const THREADS: usize = 512;
/// Most bytes of one small file.
const SMALL: u64 = 16 << 10;

/// What a sleeping thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Something from outside: a descriptor, a child, a signal.
    Outside,
    /// A time that will come.
    Timed,
    /// Another thread, without limit.
    Lock,
    /// Not known.
    Other,
}

/// One thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Look {
    pub(super) tid: u32,
    pub(super) name: String,
    /// State letter.
    pub(super) state: u8,
    /// Times it was switched to or from a CPU, and its CPU time: what changes when it moves.
    pub(super) moved: (u64, u64),
    pub(super) wait: Wait,
    /// Its number in its own pid namespace, which is what locks hold.
    pub(super) own_tid: u32,
    /// The thread that holds the lock it waits for, by that number; `None`: not known.
    pub(super) holder: Option<u32>,
}

#[derive(Debug)]
struct History {
    last: Look,
    still_since: Instant,
    waited_outside: bool,
}

/// Remembers what the threads did.
#[derive(Debug)]
pub(super) struct Hang {
    lasting: Duration,
    main: u32,
    threads: BTreeMap<u32, History>,
    /// There are more threads than are looked at, so that nothing can be said of all.
    all_seen: bool,
}

impl Hang {
    pub(super) fn new(main: u32, lasting: Duration) -> Self {
        Self { lasting, main, threads: BTreeMap::new(), all_seen: true }
    }

    /// Looks at the process; why it hangs, if it does.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        let folder = format!("/proc/{}/task", self.main);
        let tids = std::fs::read_dir(&folder).ok()?;
        let named =
            |name: &std::ffi::OsStr| number(name.as_encoded_bytes()).and_then(|tid| u32::try_from(tid).ok());
        // Of a list that breaks off nobody knows whether all hang.
        let listed: std::io::Result<Vec<u32>> =
            tids.filter_map(|entry| entry.map(|entry| named(&entry.file_name())).transpose()).collect();
        let mut tids = listed.ok()?;
        tids.sort_unstable();
        self.all_seen = tids.len() <= THREADS;
        tids.truncate(THREADS);
        let looks = tids.into_iter().filter_map(|tid| look_at(self.main, Path::new(&folder), tid)).collect();
        self.judge(now, looks)
    }

    /// The rules, without the reading.
    pub(super) fn judge(&mut self, now: Instant, looks: Vec<Look>) -> Option<String> {
        let mut before = std::mem::take(&mut self.threads);
        for look in looks {
            let known = before.remove(&look.tid);
            let waits_outside = look.state == b'S' && look.wait == Wait::Outside;
            let history = match known {
                Some(known) if known.last == look => known,
                Some(known) => History {
                    waited_outside: known.waited_outside || waits_outside,
                    still_since: now,
                    last: look,
                },
                None => History { waited_outside: waits_outside, still_since: now, last: look },
            };
            self.threads.insert(history.last.tid, history);
        }
        let still = |history: &History| now.duration_since(history.still_since) >= self.lasting;
        let name = |history: &History| format!("thread {} (`{}`)", history.last.tid, history.last.name);
        if let Some(stuck) = self.threads.values().find(|one| one.last.state == b'D' && still(one)) {
            return Some(format!("{} waits in the kernel without end (state D)", name(stuck)));
        }
        let main = self.threads.get(&self.main);
        if let Some(main) = main.filter(|one| one.waited_outside && one.last.wait == Wait::Lock && still(one))
        {
            return Some(format!(
                "the main {} used to wait for events and waits for a lock instead",
                name(main)
            ));
        }
        let waiting = self
            .threads
            .values()
            .filter(|one| one.last.state == b'S' && one.last.wait == Wait::Lock && still(one));
        let circle = deadlock::circle(waiting.filter_map(|one| Some((one.last.own_tid, one.last.holder?))));
        let of = |own_tid: &u32| self.threads.values().find(|one| one.last.own_tid == *own_tid);
        let names: Vec<String> = circle.iter().filter_map(of).map(name).collect();
        match names.as_slice() {
            [] => {}
            [alone] => return Some(format!("{alone} waits for a lock that it holds itself")),
            several => {
                return Some(format!(
                    "{} threads wait for locks of each other: {}",
                    several.len(),
                    several.join(", ")
                ));
            }
        }
        // A thread that has ended before the others (a zombie) waits for nothing.
        let mut living =
            self.threads.values().filter(|one| !matches!(one.last.state, b'Z' | b'X')).peekable();
        let is_empty = living.peek().is_none();
        let living: Vec<&History> = living.collect();
        if is_empty || !self.all_seen || !living.iter().all(|one| still(one)) {
            return None;
        }
        if let Some(ready) = living.iter().find(|one| one.last.state == b'R') {
            return Some(format!("{} is ready to run and gets no CPU", name(ready)));
        }
        if let Some(stopped) = living.iter().find(|one| matches!(one.last.state, b'T' | b't')) {
            return Some(format!("{} is stopped", name(stopped)));
        }
        let deadlock = living.iter().all(|one| one.last.state == b'S' && one.last.wait == Wait::Lock);
        deadlock.then(|| format!("all {} threads wait for locks of the process itself", living.len()))
    }
}

fn look_at(pid: u32, folder: &Path, tid: u32) -> Option<Look> {
    let folder = folder.join(tid.to_string());
    let stat = parse_stat(&read(&folder.join("stat"))?)?;
    let mut switches = 0_u64;
    let status = read(&folder.join("status"))?;
    name_values(&status, |name, value| {
        if matches!(name, b"voluntary_ctxt_switches" | b"nonvoluntary_ctxt_switches") {
            switches = switches.saturating_add(value);
        }
    });
    let call = read(&folder.join("syscall")).unwrap_or_default();
    let wait = if stat.state == b'S' { wait_of(&call) } else { Wait::Other };
    let holder = if wait == Wait::Lock { deadlock::holder(pid, &call) } else { None };
    Some(Look {
        own_tid: deadlock::own_tid(&status).unwrap_or(tid),
        holder,
        tid,
        name: stat.name,
        state: stat.state,
        moved: (switches, stat.user.saturating_add(stat.system)),
        wait,
    })
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = biopsy_files::open_kernels(path).ok()?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, SMALL), &mut bytes).ok()?;
    Some(bytes)
}

/// What a line of `syscall` says: number and arguments of the call (`asm/unistd_64.h`).
pub(super) fn wait_of(line: &[u8]) -> Wait {
    /// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_WAIT_REQUEUE_PI`, `FUTEX_LOCK_PI2`, without flags.
    const WAITING: [u64; 5] = [0, 6, 9, 11, 13];
    if !cfg!(target_arch = "x86_64") {
        return Wait::Other;
    }
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_ascii_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse::<u64>().ok()) else { return Wait::Other };
    let arguments: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let limited = |is_limited: bool| if is_limited { Wait::Timed } else { Wait::Lock };
    match call {
        // futex, by its operation; futex_wait and futex_waitv.
        202 if WAITING.contains(&(argument(1) & 0x7f)) => limited(argument(3) != 0),
        455 => limited(argument(4) != 0),
        449 => limited(argument(3) != 0),
        // semop, flock, fcntl with F_SETLKW or F_OFD_SETLKW.
        65 | 73 => Wait::Lock,
        72 if matches!(argument(1), 7 | 38) => Wait::Lock,
        // nanosleep, clock_nanosleep, and what is left of a timed wait after a stop.
        35 | 230 | 219 => Wait::Timed,
        // read, poll, select, pause, accept, recvfrom, recvmsg, wait4, msgrcv, rt_sigtimedwait, rt_sigsuspend, io_getevents,
        // epoll_wait, mq_timedreceive, waitid, pselect6, ppoll, epoll_pwait, accept4, recvmmsg, io_uring_enter, epoll_pwait2.
        0 | 7 | 23 | 34 | 43 | 45 | 47 | 61 | 70 | 128 | 130 | 208 | 232 | 243 | 247 | 270 | 271 | 281
        | 288 | 299 | 426 | 441 => Wait::Outside,
        _ => Wait::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn look(tid: u32, state: u8, moved: u64, wait: Wait) -> Look {
        Look { tid, name: "x".to_owned(), state, moved: (moved, 0), wait, own_tid: tid, holder: None }
    }

    /// The first second at which it hangs for three seconds; `at` gives the looks of each second.
    fn hangs(at: impl Fn(u64) -> Vec<Look>) -> Option<(u64, String)> {
        let start = Instant::now();
        let mut hang = Hang::new(1, SECOND * 3);
        (0..20).find_map(|second| {
            hang.judge(start + SECOND * u32::try_from(second).unwrap(), at(second)).map(|why| (second, why))
        })
    }

    #[test]
    fn an_idle_server_does_not_hang() {
        let idle = |_| vec![look(1, b'S', 5, Wait::Outside), look(2, b'S', 5, Wait::Lock)];
        assert_eq!(hangs(idle), None);
        let sleeping = |_| vec![look(1, b'S', 5, Wait::Timed), look(2, b'S', 5, Wait::Lock)];
        assert_eq!(hangs(sleeping), None);
        assert_eq!(hangs(|_| vec![look(1, b'S', 5, Wait::Other)]), None, "what is not known is no hang");
        assert_eq!(hangs(|_| Vec::new()), None);
    }

    #[test]
    fn a_working_one_does_not_hang() {
        assert_eq!(hangs(|second| vec![look(1, b'R', second, Wait::Other)]), None);
        let locks = |second| vec![look(1, b'S', 1, Wait::Lock), look(2, b'S', second, Wait::Lock)];
        assert_eq!(hangs(locks), None, "one of them moves");
    }

    #[test]
    fn deadlock_of_all() {
        let all = |_| vec![look(1, b'S', 5, Wait::Lock), look(2, b'S', 9, Wait::Lock)];
        let (second, why) = hangs(all).unwrap();
        assert_eq!((second, why.as_str()), (3, "all 2 threads wait for locks of the process itself"));
    }

    #[test]
    fn an_event_loop_that_waits_for_a_lock() {
        let stuck = |second| {
            let (moved, wait) = if second < 5 { (second, Wait::Outside) } else { (5, Wait::Lock) };
            vec![look(1, b'S', moved, wait), look(2, b'S', second, Wait::Outside)]
        };
        let (second, why) = hangs(stuck).unwrap();
        assert_eq!(second, 8);
        assert!(why.contains("used to wait for events"), "{why}");
        let always = |second| vec![look(1, b'S', 5, Wait::Lock), look(2, b'S', second, Wait::Outside)];
        assert_eq!(hangs(always), None, "a main thread that waits for the others is usual");
    }

    #[test]
    fn some_threads_hold_each_other_up_while_others_work() {
        let circle = |second| {
            let held = |tid, by| Look { holder: Some(by), ..look(tid, b'S', 5, Wait::Lock) };
            vec![look(1, b'S', second, Wait::Outside), held(2, 3), held(3, 2), held(4, 2)]
        };
        let (second, why) = hangs(circle).unwrap();
        assert_eq!(second, 3);
        assert_eq!(why, "2 threads wait for locks of each other: thread 2 (`x`), thread 3 (`x`)");
        let convoy = |second| {
            let held = |tid, by| Look { holder: Some(by), ..look(tid, b'S', 5, Wait::Lock) };
            vec![look(1, b'S', second, Wait::Outside), held(2, 3), held(3, 1)]
        };
        assert_eq!(hangs(convoy), None, "who holds the lock works on");
        let moving = |second| {
            let held = |tid, by| Look { holder: Some(by), ..look(tid, b'S', second, Wait::Lock) };
            vec![look(1, b'S', second, Wait::Outside), held(2, 3), held(3, 2)]
        };
        assert_eq!(hangs(moving), None, "they only met");
        let twice = |_| {
            vec![Look { holder: Some(1), ..look(1, b'S', 5, Wait::Lock) }, look(2, b'S', 5, Wait::Outside)]
        };
        assert!(hangs(twice).unwrap().1.ends_with("waits for a lock that it holds itself"));
    }

    #[test]
    fn disks_and_starvation() {
        let disk = |second| vec![look(1, b'D', 5, Wait::Other), look(2, b'S', second, Wait::Outside)];
        assert!(hangs(disk).unwrap().1.contains("state D"));
        let busy_disk = |second| vec![look(1, b'D', second, Wait::Other)];
        assert_eq!(hangs(busy_disk), None, "each wait is another one");
        let starved = |_| vec![look(1, b'R', 5, Wait::Other), look(2, b'S', 1, Wait::Outside)];
        assert!(hangs(starved).unwrap().1.contains("gets no CPU"));
        let stopped = |_| vec![look(1, b'T', 5, Wait::Other)];
        assert!(hangs(stopped).unwrap().1.contains("is stopped"));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls() {
        assert_eq!(wait_of(b"202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffc 0x7f\n"), Wait::Lock);
        assert_eq!(wait_of(b"202 0x7f 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f\n"), Wait::Lock);
        assert_eq!(wait_of(b"202 0x7f 0x189 0x0 0x7ffd 0x0 0xffffffff 0x7ffc 0x7f\n"), Wait::Timed);
        assert_eq!(wait_of(b"232 0x5 0x7f 0x10 0xffffffff 0x0 0x0 0x7ffc 0x7f\n"), Wait::Outside);
        assert_eq!(wait_of(b"72 0x5 0x7 0x10\n"), Wait::Lock);
        assert_eq!(wait_of(b"72 0x5 0x3\n"), Wait::Other);
        for odd in [&b"running\n"[..], b"", b"-1 0x7f 0x7f", b"\xff", b"202"] {
            assert_ne!(wait_of(odd), Wait::Outside);
        }
    }
}
