//! From a system call to what it waits for, and to those who could end that.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use biopsy_model::Pid;
use biopsy_model::peers::{PeerObject, PeerWait};

use super::call::{Call, THREADS};
use super::ends::{Ends, Mode, mode};
use super::shared::{self, Sharing};
use super::sockets::Peer;
use super::{events, file_locks, missed, sockets};
use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL};

/// `/proc/locks` of a busy database has thousands of lines.
const LOCKS: usize = 4 << 20;
/// Descriptors of one `poll` that are followed: whoever waits for more is a server.
const POLLED: u64 = 4;
/// The same of an `epoll`, whose runtimes have some of their own; and bytes of their list.
const WATCHED: usize = 16;
const EVENTS: usize = 64 << 10;

/// What was read of the machine, each when it was first needed.
pub(super) struct Waits<'a> {
    root: &'a ProcRoot,
    ends: Option<Ends>,
    sharing: Option<Sharing>,
    unix: Option<BTreeMap<u64, Peer>>,
    /// By the process whose network namespace it is.
    tcp: BTreeMap<Pid, BTreeMap<u64, Peer>>,
}

impl<'a> Waits<'a> {
    pub(super) fn new(root: &'a ProcRoot) -> Self {
        Self { root, ends: None, sharing: None, unix: None, tcp: BTreeMap::new() }
    }

    pub(super) fn hidden(&self) -> u32 {
        let ends = self.ends.as_ref().map_or(0, |ends| ends.hidden);
        ends.max(self.sharing.as_ref().map_or(0, |sharing| sharing.hidden))
    }

    fn ends(&mut self) -> &Ends {
        self.ends.get_or_insert_with(|| Ends::read(self.root))
    }

    /// What a thread in this call waits for.
    pub(super) fn of(&mut self, dir: &ProcessDir, pid: Pid, call: &Call) -> Option<PeerWait> {
        let fd = call.arguments[0] as u32;
        match call.number {
            // read, pread64, readv, recvfrom, recvmsg
            0 | 17 | 19 | 45 | 47 => self.descriptor(dir, pid, fd, false),
            // write, pwrite64, writev, sendto, sendmsg
            1 | 18 | 20 | 44 | 46 => self.descriptor(dir, pid, fd, true),
            7 if (call.arguments[2] as u32).cast_signed() < 0 => self.polled(dir, pid, call),
            271 if call.arguments[2] == 0 => self.polled(dir, pid, call),
            // epoll_wait, epoll_pwait.
            232 | 281 => match (call.arguments[3] as u32).cast_signed() {
                0 => None,
                limit => self.events(dir, pid, fd, limit > 0),
            },
            73 => self.file_lock(dir, pid, fd),
            // F_SETLKW, F_OFD_SETLKW.
            72 if matches!(call.arguments[1], 7 | 38) => self.file_lock(dir, pid, fd),
            61 => self.child(dir, (call.arguments[0] as u32).cast_signed()),
            // P_PID of waitid; else any.
            247 => {
                let one = if call.arguments[0] == 1 { call.arguments[1] as u32 } else { u32::MAX };
                self.child(dir, one.cast_signed())
            }
            // vfork, and clone that waits until the child runs a program.
            58 => self.child(dir, -1),
            65 | 220 => self.semaphore(dir, call),
            // futex, shared between processes; else only its own process can end it. WAIT, WAIT_BITSET.
            202 if call.arguments[1] & 128 == 0 => {
                self.shared_lock(dir, pid, call).or_else(|| self.shared_word(dir, pid, call))
            }
            202 if matches!(call.arguments[1] & 127, 0 | 9) && call.arguments[3] == 0 => Some(inside(pid)),
            _ => None,
        }
    }

    fn descriptor(&mut self, dir: &ProcessDir, pid: Pid, fd: u32, writes: bool) -> Option<PeerWait> {
        let link = dir.link(&format!("fd/{fd}")).ok()?;
        if let Some(inode) = link.strip_prefix(b"socket:[").and_then(|rest| rest.strip_suffix(b"]")) {
            let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
            return self.socket(dir, pid, (fd, inode), writes);
        }
        if !link.starts_with(b"pipe:") && !is_fifo(dir, fd)? {
            return None;
        }
        let root = self.root;
        let ends = self.ends();
        let hidden = ends.hidden;
        let other = |(pid, number): &&(Pid, u32)| match mode(root, *pid, *number) {
            Some(Mode::Both) | None => true,
            Some(Mode::Read) => writes,
            Some(Mode::Write) => !writes,
        };
        let mut helpers: Vec<Pid> = ends.of(&link).iter().filter(other).map(|(pid, _)| *pid).collect();
        helpers.dedup();
        let (object, what) = if writes {
            (PeerObject::PipeRoom, format!("room in the pipe of descriptor {fd}"))
        } else {
            (PeerObject::PipeData, format!("data in the pipe of descriptor {fd}"))
        };
        Some(PeerWait {
            object,
            what,
            helpers,
            all_seen: hidden == 0,
            timed: false,
            certain: true,
            unread: 0,
            missed: false,
        })
    }

    fn socket(
        &mut self,
        dir: &ProcessDir,
        pid: Pid,
        (fd, inode): (u32, u64),
        writes: bool,
    ) -> Option<PeerWait> {
        let unix = self.unix.get_or_insert_with(|| sockets::unix_peers(self.root)).get(&inode).copied();
        let tcp = self.tcp.entry(pid).or_insert_with(|| sockets::tcp_peers(dir));
        let peer = unix.filter(|peer| peer.inode != 0).or_else(|| tcp.get(&inode).copied())?;
        let root = self.root;
        let ends = self.ends();
        let holders = ends.of(format!("socket:[{}]", peer.inode).as_bytes());
        let mut helpers: Vec<Pid> = holders.iter().map(|(pid, _)| *pid).collect();
        helpers.dedup();
        let all_seen = ends.hidden == 0 || !helpers.is_empty();
        let (object, what) = if writes {
            (PeerObject::SocketRoom, format!("room in the socket of descriptor {fd}"))
        } else {
            (PeerObject::Socket, format!("data in the socket of descriptor {fd}"))
        };
        // A socket may have a time limit of its own (SO_RCVTIMEO), which only its owner can ask for.
        let unread = if writes { 0 } else { peer.unread };
        let missed = match holders {
            [(pid, number)] => unread > 0 && missed::missed(root, *pid, *number),
            _ => false,
        };
        Some(PeerWait { object, what, helpers, all_seen, timed: false, certain: false, unread, missed })
    }

    /// struct pollfd: descriptor (4 bytes), events (2), what happened (2). One of them ends it.
    fn polled(&mut self, dir: &ProcessDir, pid: Pid, call: &Call) -> Option<PeerWait> {
        let [fds, count, ..] = call.arguments;
        if !(1..=POLLED).contains(&count) {
            return None;
        }
        let memory = dir.file("mem").ok()?;
        let mut all: Option<PeerWait> = None;
        for index in 0..count {
            let mut entry = [0; 8];
            memory.read_exact_at(&mut entry, fds.checked_add(index * 8)?).ok()?;
            let [a, b, c, d, events, ..] = entry;
            let fd = u32::from_le_bytes([a, b, c, d]);
            if fd.cast_signed() < 0 {
                continue;
            }
            // POLLOUT is 4. Something else than a pipe or a socket of this machine is a way out that is not followed.
            let one = self.descriptor(dir, pid, fd, events & 4 != 0)?;
            match &mut all {
                None => all = Some(one),
                Some(all) => {
                    all.what = format!("{}, or {}", all.what, one.what);
                    all.helpers.extend(one.helpers);
                    all.all_seen &= one.all_seen;
                    all.unread += one.unread;
                    all.missed &= one.missed;
                }
            }
        }
        all
    }

    /// Descriptors of an `epoll`: one of them ends it.
    fn events(&mut self, dir: &ProcessDir, pid: Pid, epoll: u32, timed: bool) -> Option<PeerWait> {
        let watched = events::watched(&dir.read(&format!("fdinfo/{epoll}"), EVENTS).ok()?);
        if watched.is_empty() || watched.len() > WATCHED {
            return None;
        }
        let mut all = PeerWait {
            object: PeerObject::Events,
            what: format!("events of {} descriptors", watched.len()),
            helpers: Vec::new(),
            all_seen: true,
            timed,
            certain: false,
            unread: 0,
            missed: false,
        };
        for (fd, writes) in watched {
            let link = dir.link(&format!("fd/{fd}")).ok()?;
            if link.starts_with(b"anon_inode:[eventfd]") {
                all.helpers.push(pid);
                continue;
            }
            // A listening socket, a timer, a terminal: what ends these is not known.
            let one = self.descriptor(dir, pid, fd, writes)?;
            all.helpers.extend(one.helpers);
            all.all_seen &= one.all_seen;
            all.unread += one.unread;
        }
        all.helpers.sort_unstable();
        all.helpers.dedup();
        Some(all)
    }

    fn file_lock(&mut self, dir: &ProcessDir, pid: Pid, fd: u32) -> Option<PeerWait> {
        let text = self.root.bytes("proc/locks", LOCKS).ok()?;
        let text = String::from_utf8_lossy(&text);
        let link = dir.link(&format!("fd/{fd}")).ok()?;
        let inode = || Facts::of(dir, fd)?.inode;
        let behind = file_locks::behind(&text, pid);
        let named = behind.and_then(|behind| behind.holder);
        let waits = behind.is_some() || file_locks::behind_description(&text, inode()?);
        if !waits {
            return None;
        }
        let what = format!(
            "a file lock (`flock` or `fcntl`) on `{}`",
            crate::printable(&String::from_utf8_lossy(&link))
        );
        // Whoever took it by flock may have given the description to children, and OFD locks are of descriptions altogether.
        let root = self.root;
        let holds = |(pid, number): &&(Pid, u32)| {
            let text = root.process(*pid).and_then(|dir| dir.read(&format!("fdinfo/{number}"), SMALL));
            text.is_ok_and(|text| text.windows(5).any(|window| window == b"lock:"))
        };
        let ends = self.ends();
        let hidden = ends.hidden;
        let mut helpers: Vec<Pid> = ends.of(&link).iter().filter(holds).map(|(pid, _)| *pid).collect();
        helpers.extend(named);
        helpers.sort_unstable();
        helpers.dedup();
        Some(PeerWait {
            object: PeerObject::FileLock,
            what,
            all_seen: hidden == 0 || named.is_some(),
            helpers,
            timed: false,
            certain: true,
            unread: 0,
            missed: false,
        })
    }

    fn child(&mut self, dir: &ProcessDir, wanted: i32) -> Option<PeerWait> {
        let children = children(dir);
        let one = u32::try_from(wanted).ok().filter(|wanted| *wanted > 0).map(Pid);
        let (what, helpers) = match one {
            Some(child) => (format!("the end of child process {child}"), vec![child]),
            None => ("the end of any child process".to_owned(), children.clone()),
        };
        let known = one.is_none_or(|child| children.contains(&child));
        (known && !helpers.is_empty()).then_some(PeerWait {
            object: PeerObject::Child,
            what,
            helpers,
            all_seen: true,
            timed: false,
            certain: true,
            unread: 0,
            missed: false,
        })
    }

    /// struct sembuf: number (2 bytes), operation (2), flags (2). The kernel keeps who operated on it last.
    fn semaphore(&mut self, dir: &ProcessDir, call: &Call) -> Option<PeerWait> {
        let [id, operations, count, limit, ..] = call.arguments;
        let memory = dir.file("mem").ok()?;
        for index in 0..count.min(16) {
            let mut entry = [0; 6];
            memory.read_exact_at(&mut entry, operations.checked_add(index * 6)?).ok()?;
            let [n0, n1, o0, o1, ..] = entry;
            let (number, operation) = (u16::from_le_bytes([n0, n1]), i16::from_le_bytes([o0, o1]));
            let semaphore = biopsy_sys::semaphore::look(id as u32 as i32, number).ok()?;
            if operation >= 0 || i32::from(operation) + semaphore.value >= 0 {
                continue;
            }
            let last = u32::try_from(semaphore.last_pid).ok().filter(|pid| *pid > 0).map(Pid);
            return Some(PeerWait {
                object: PeerObject::Semaphore,
                what: format!("semaphore {number} of System V set {}", id as u32),
                helpers: last.into_iter().collect(),
                all_seen: false,
                timed: call.number == 220 && limit != 0,
                certain: false,
                unread: 0,
                missed: false,
            });
        }
        None
    }

    /// FUTEX_WAIT, FUTEX_WAIT_BITSET of a word that processes share: whoever has that memory could end it.
    fn shared_word(&mut self, dir: &ProcessDir, pid: Pid, call: &Call) -> Option<PeerWait> {
        let [address, operation, _, limit, ..] = call.arguments;
        if !matches!(operation & 127, 0 | 9) {
            return None;
        }
        let word = shared::word_at(dir, address)?;
        let root = self.root;
        let sharing = self.sharing.get_or_insert_with(|| Sharing::read(root));
        let (helpers, hidden) = (sharing.of(&word.file).to_vec(), sharing.hidden);
        // Who has it alone waits for somebody who is yet to come.
        if !helpers.iter().any(|helper| *helper != pid) {
            return None;
        }
        let mut bytes = [0; 12];
        let read = dir.file("mem").ok()?.read_exact_at(&mut bytes, address).is_ok();
        let number = |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|four| u32::from_le_bytes(*four));
        let words = [number(0)?, number(4)?, number(8)?];
        let thing =
            if read && is_semaphore(words) { "a semaphore" } else { "a lock, condition or semaphore" };
        let of = word.path.map_or(String::new(), |path| format!(" (`{}`)", crate::printable(&path)));
        Some(PeerWait {
            object: PeerObject::SharedWord,
            what: format!("{thing} at byte {:#x} of memory that processes share{of}", word.offset),
            helpers,
            all_seen: hidden == 0,
            timed: limit != 0,
            certain: false,
            unread: 0,
            missed: false,
        })
    }

    /// pthread_mutex_t: 0 lock  8 owner  12 users  16 kind (128: shared).
    fn shared_lock(&mut self, dir: &ProcessDir, pid: Pid, call: &Call) -> Option<PeerWait> {
        let memory = dir.file("mem").ok()?;
        let mut fields = [0; 20];
        memory.read_exact_at(&mut fields, call.arguments[0]).ok()?;
        let (words, _) = fields.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let [lock, _, owner, users, kind] = *words else { return None };
        let robust = kind & 16 != 0 && lock & 0x3fff_ffff == owner;
        let fits = kind & 128 != 0 && kind < 0x400 && (1..1 << 24).contains(&users) && (lock == 2 || robust);
        if !fits || owner == 0 {
            return None;
        }
        // The owner is a thread, as its own namespace numbers it; ours for the most part.
        let status = self.root.bytes(&format!("proc/{owner}/status"), SMALL).ok()?;
        let status = String::from_utf8_lossy(&status).into_owned();
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        (group != pid.0).then(|| PeerWait {
            object: PeerObject::SharedLock,
            what: format!(
                "a mutex at {:#x} that processes share, which thread {owner} holds",
                call.arguments[0]
            ),
            helpers: vec![Pid(group)],
            all_seen: true,
            timed: call.arguments[3] != 0,
            certain: true,
            unread: 0,
            missed: false,
        })
    }
}

/// All children of a process, of whichever of its threads.
pub(super) fn children(dir: &ProcessDir) -> Vec<Pid> {
    let mut children = Vec::new();
    for tid in dir.tids(THREADS).unwrap_or_default() {
        let list = dir.read(&format!("task/{tid}/children"), 64 << 10).unwrap_or_default();
        let text = String::from_utf8_lossy(&list).into_owned();
        children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).map(Pid));
    }
    children
}

/// A glibc semaphore for processes, as who waits at it leaves it: value, waiters, 128.
fn is_semaphore(words: [u32; 3]) -> bool {
    matches!(words, [0, 1..=0xf_ffff, 128])
}

/// A wait that only another thread of the process can end.
fn inside(pid: Pid) -> PeerWait {
    PeerWait {
        object: PeerObject::Inside,
        what: "another thread of its process".to_owned(),
        helpers: vec![pid],
        all_seen: true,
        timed: false,
        certain: true,
        unread: 0,
        missed: false,
    }
}

/// What proc_pid_fdinfo(5) says of a descriptor. The file itself is not looked at: whoever waits may wait for a server of files that
/// does not answer, and stat(2) of such a file would wait with them.
struct Facts {
    mount: u64,
    /// Since Linux 5.14.
    inode: Option<u64>,
}

impl Facts {
    fn of(dir: &ProcessDir, fd: u32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&dir.read(&format!("fdinfo/{fd}"), SMALL).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |key| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        Some(Self { mount: number("mnt_id:")?, inode: number("ino:") })
    }
}

/// Whether a descriptor that has a path is a named pipe; `None`: it is on a file system that may not answer.
fn is_fifo(dir: &ProcessDir, fd: u32) -> Option<bool> {
    let mounts = dir.mounts();
    if !mounts.is_near(Facts::of(dir, fd)?.mount) {
        return None;
    }
    let found = mounts.look_at(&dir.locate(&format!("fd/{fd}")).ok()?).ok()?;
    Some(found.kind.is_fifo())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_is_told_by_what_is_in_it() {
        assert!(is_semaphore([0, 1, 128]) && is_semaphore([0, 300, 128]));
        for other in [[0, 1, 0], [0, 0, 128], [2, 1, 128], [0, u32::MAX, 128]] {
            assert!(!is_semaphore(other), "{other:?}");
        }
    }

    #[test]
    fn facts_of_a_descriptor_are_read_from_old_and_new_kernels() {
        let new = Facts::parse("pos:\t0\nflags:\t0100000\nmnt_id:\t29\nino:\t4711\n").unwrap();
        assert_eq!((new.mount, new.inode), (29, Some(4711)));
        let old = Facts::parse("pos:\t0\nflags:\t02\nmnt_id:\t15\n").unwrap();
        assert_eq!((old.mount, old.inode), (15, None));
        assert!(Facts::parse("pos:\t0\n").is_none());
    }
}
