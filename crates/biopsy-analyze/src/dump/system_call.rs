//! System calls of x86-64 in words, with their arguments.

use biopsy_image::{GeneralRegisters, Image, MemoryExt};

use super::facts::DumpFacts;
use super::state::{ThreadState, WaitKind};
use crate::words::seconds;

/// Descriptors of one `poll` that are named.
const NAMED: u64 = 6;

struct Call<'a> {
    image: &'a dyn Image,
    arguments: [u64; 6],
    facts: &'a DumpFacts<'a>,
}

pub(super) fn describe(
    image: &dyn Image,
    number: u32,
    registers: &GeneralRegisters,
    facts: &DumpFacts<'_>,
) -> ThreadState {
    let GeneralRegisters { rdi, rsi, rdx, r10, r8, r9, .. } = *registers;
    let call = Call { image, arguments: [rdi, rsi, rdx, r10, r8, r9], facts };
    let known = crate::syscalls::name("x86_64", number);
    let name = known.map_or_else(|| format!("system call {number}"), str::to_owned);
    let (wait, words) = call.words(&name);
    ThreadState::InSystemCall { number: Some(number), name, wait, words }
}

impl Call<'_> {
    fn words(&self, name: &str) -> (WaitKind, String) {
        let fd = || self.descriptor(self.arguments[0]);
        match name {
            "futex" => (WaitKind::Futex, "waits at a futex".to_owned()),
            "read" | "readv" | "pread64" | "preadv" | "preadv2" => {
                (WaitKind::Input, format!("reads from {}", fd()))
            }
            "recvfrom" | "recvmsg" | "recvmmsg" => (WaitKind::Input, format!("receives from {}", fd())),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                (WaitKind::Output, format!("writes to {}", fd()))
            }
            "sendto" | "sendmsg" | "sendmmsg" => (WaitKind::Output, format!("sends to {}", fd())),
            "sendfile" | "splice" | "tee" | "copy_file_range" => {
                (WaitKind::Output, format!("copies between descriptors (`{name}`)"))
            }
            "fsync" | "fdatasync" | "sync_file_range" => {
                (WaitKind::Output, format!("waits until {} is on disk", fd()))
            }
            "connect" => (WaitKind::Input, format!("connects {}", fd())),
            "accept" | "accept4" => (WaitKind::Connection, format!("waits for a connection at {}", fd())),
            "epoll_wait" | "epoll_pwait" => {
                let limit = self.milliseconds(self.arguments[3]);
                (WaitKind::Events, format!("waits for events on {}{limit}", fd()))
            }
            "epoll_pwait2" => {
                let limit = self.timespec(self.arguments[3]);
                (WaitKind::Events, format!("waits for events on {}{limit}", fd()))
            }
            "poll" => (WaitKind::Events, self.poll(&self.milliseconds(self.arguments[2]))),
            "ppoll" => (WaitKind::Events, self.poll(&self.timespec(self.arguments[2]))),
            "select" | "pselect6" => {
                (WaitKind::Events, "waits for one of several descriptors (`select`)".to_owned())
            }
            "io_getevents" | "io_pgetevents" | "io_uring_enter" => {
                (WaitKind::Events, "waits for the end of input or output".to_owned())
            }
            "nanosleep" => (WaitKind::Time, self.sleep(self.arguments[0], false)),
            "clock_nanosleep" => (WaitKind::Time, self.sleep(self.arguments[2], self.arguments[1] & 1 == 1)),
            "wait4" => (WaitKind::Child, self.child(self.arguments[0])),
            "waitid" => {
                let one = self.arguments[0] == 1;
                (WaitKind::Child, self.child(if one { self.arguments[1] } else { u64::MAX }))
            }
            "rt_sigtimedwait" | "rt_sigsuspend" | "pause" | "signalfd" => {
                (WaitKind::Signal, "waits for a signal".to_owned())
            }
            "flock" => (WaitKind::KernelObject, format!("waits for a lock on the file of {}", fd())),
            "fcntl" => {
                (WaitKind::KernelObject, format!("waits for a lock on a part of the file of {}", fd()))
            }
            "semop" | "semtimedop" => {
                (WaitKind::KernelObject, "waits for a semaphore of System V".to_owned())
            }
            "msgrcv" | "mq_timedreceive" => (WaitKind::Input, "waits for a message of a queue".to_owned()),
            "msgsnd" | "mq_timedsend" => (WaitKind::Output, "waits for room in a message queue".to_owned()),
            "restart_syscall" => (WaitKind::Time, "goes on with a wait that was interrupted".to_owned()),
            "exit" => (WaitKind::End, "is ending".to_owned()),
            "exit_group" => (WaitKind::End, "is ending the process".to_owned()),
            "ioctl" => (WaitKind::Other, format!("in `ioctl` of {}", fd())),
            "userfaultfd" | "mmap" | "munmap" | "mprotect" | "madvise" | "brk" => {
                (WaitKind::Other, format!("changes its address space (`{name}`)"))
            }
            other => (WaitKind::Other, format!("in system call `{other}`")),
        }
    }

    /// `descriptor 7`, and what it leads to where that is known.
    fn descriptor(&self, value: u64) -> String {
        let number = value as u32;
        let known = self.facts.descriptors.iter().find(|(fd, _)| *fd == number);
        match known {
            Some((_, text)) => format!("descriptor {number} ({text})"),
            None if number == 0 => "descriptor 0 (standard input)".to_owned(),
            None => format!("descriptor {number}"),
        }
    }

    /// Only the lower half counts: the argument is an `int`.
    fn milliseconds(&self, value: u64) -> String {
        match (value as u32).cast_signed() {
            ..0 => String::new(),
            0 => ", only looking".to_owned(),
            limit => format!(", for at most {}", seconds(f64::from(limit) / 1e3)),
        }
    }

    fn timespec(&self, address: u64) -> String {
        match self.read_timespec(address) {
            Some(time) => format!(", for at most {}", seconds(time)),
            None => String::new(),
        }
    }

    fn read_timespec(&self, address: u64) -> Option<f64> {
        if address == 0 {
            return None;
        }
        let whole = self.image.read_u64(address).ok()?.cast_signed();
        let nanos = self.image.read_u64(address.checked_add(8)?).ok()?.cast_signed();
        (whole >= 0 && (0..1_000_000_000).contains(&nanos)).then_some(whole as f64 + nanos as f64 / 1e9)
    }

    fn sleep(&self, address: u64, absolute: bool) -> String {
        match self.read_timespec(address) {
            Some(time) if !absolute => format!("sleeps for {}", seconds(time)),
            _ => "sleeps".to_owned(),
        }
    }

    fn child(&self, pid: u64) -> String {
        match (pid as u32).cast_signed() {
            pid @ 1.. => format!("waits for the end of child process {pid}"),
            _ => "waits for the end of any child process".to_owned(),
        }
    }

    /// struct pollfd: descriptor (4 bytes), events (2), what happened (2).
    fn poll(&self, limit: &str) -> String {
        let [fds, count, ..] = self.arguments;
        if count == 0 {
            return format!("sleeps (`poll` of nothing){limit}");
        }
        let named: Vec<String> = (0..count.min(NAMED))
            .filter_map(|index| self.image.read_u32(fds.checked_add(index * 8)?).ok())
            .filter(|fd| fd.cast_signed() >= 0)
            .map(|fd| fd.to_string())
            .collect();
        let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        match named.as_slice() {
            [] => format!("waits for one of {count} descriptors{limit}"),
            [one] if count == 1 => {
                format!("waits for {}{limit}", self.descriptor(one.parse().unwrap_or_default()))
            }
            several => format!("waits for one of the descriptors {}{more}{limit}", several.join(", ")),
        }
    }
}
