//! Which programs start: the kernel tells of each execution (connector of processes, `linux/cn_proc.h`).
//!
//! Nothing waits for us: a program that starts goes on while we are told. That costs the machine one message for each event of any
//! process, and nobody more. Only in the first user, network and pid namespaces, and before Linux 6.6 with CAP_NET_ADMIN; else one has to
//! look again and again.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use biopsy_model::Pid;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::polled;

/// `CN_IDX_PROC` and `CN_VAL_PROC`.
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN`.
const LISTEN: u32 = 1;
/// `PROC_EVENT_EXEC`.
const EXEC: u32 = 2;
/// `nlmsghdr` and `cn_msg`, and of `proc_event` what stands before the pid: what, cpu, time.
const HEADER: usize = 16;
const MESSAGE: usize = 20;
const EVENT: usize = 16;
/// What the kernel keeps for us while we are busy: a machine that builds starts hundreds a second, with several events each.
const KEPT: usize = 4 << 20;
/// Most events that are taken at once, so that whoever asks gets an answer on a machine that does nothing but start programs.
const AT_ONCE: usize = 4096;

/// A listener. Dropping it ends it.
#[derive(Debug)]
pub struct Starts {
    socket: OwnedFd,
}

/// What started.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Started {
    /// Processes that executed a program, in order.
    pub pids: Vec<Pid>,
    /// Some are not among them: the kernel had more to tell than it keeps.
    pub is_incomplete: bool,
}

impl Starts {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel does not tell us: no privilege, another namespace, or it was built without.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(netlink::CONNECTOR),
        )?;
        // Not every account may have so much.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, KEPT);
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESSES))?;
        let starts = Self { socket };
        starts.ask(&[LISTEN])?;
        // From Linux 6.6 on, events of other kinds need not come at all; before, such a message means nothing.
        starts.ask(&[LISTEN, EXEC])?;
        Ok(starts)
    }

    fn ask(&self, words: &[u32]) -> io::Result<()> {
        let mut message = Vec::new();
        let asked = words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let length = u32::try_from(HEADER + MESSAGE + asked.len()).unwrap_or_default();
        // nlmsghdr: length, type NLMSG_DONE, flags, sequence, port.
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&3_u16.to_ne_bytes());
        message.extend_from_slice(&[0; 10]);
        // cn_msg: whom, sequence, answer to, length of what follows, flags.
        for word in [PROCESSES, PROCESSES, 0, 0] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        message.extend_from_slice(&u16::try_from(asked.len()).unwrap_or_default().to_ne_bytes());
        message.extend_from_slice(&[0; 2]);
        message.extend_from_slice(&asked);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }

    /// What started, as soon as there is something or `other` can be read, or nothing within this time.
    ///
    /// # Errors
    /// The socket is of no use any more.
    pub fn next(&self, timeout: Duration, other: Option<BorrowedFd<'_>>) -> io::Result<Started> {
        let mut started = Started::default();
        let longest = Timespec::try_from(timeout).unwrap_or_default();
        let mut polls = vec![PollFd::new(&self.socket, PollFlags::IN)];
        polls.extend(other.as_ref().map(|other| PollFd::new(other, PollFlags::IN)));
        polled::wait(&mut polls, Some(&longest));
        let mut buffer = [0; 1024];
        for _ in 0..AT_ONCE {
            match rustix::net::recvfrom(&self.socket, &mut buffer, RecvFlags::TRUNC) {
                Ok((_, length, from)) => {
                    let from = from.and_then(|address| SocketAddrNetlink::try_from(address).ok());
                    // The kernel is number 0; anybody else who writes to us is not listened to.
                    if from.is_some_and(|address| address.pid() == 0) {
                        started.pids.extend(buffer.get(..length).and_then(executed));
                    }
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::NOBUFS) => started.is_incomplete = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(started)
    }
}

/// The process that a message says has executed a program.
fn executed(message: &[u8]) -> Option<Pid> {
    let word = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let event = HEADER + MESSAGE;
    let is_of_processes = word(HEADER)? == PROCESSES && word(HEADER + 4)? == PROCESSES;
    // process_pid, process_tgid.
    (is_of_processes && word(event)? == EXEC).then(|| word(event + EVENT + 4))?.map(Pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let mut message = vec![0; HEADER + MESSAGE + EVENT + 8];
        let mut put = |at: usize, word: u32| message[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        put(HEADER, PROCESSES);
        put(HEADER + 4, PROCESSES);
        put(HEADER + MESSAGE, EXEC);
        put(HEADER + MESSAGE + EVENT, 9);
        put(HEADER + MESSAGE + EVENT + 4, 7);
        assert_eq!(executed(&message), Some(Pid(7)));
        for cut in 0..message.len() {
            assert_eq!(executed(&message[..cut]), None);
        }
        message[HEADER + MESSAGE] = 1;
        assert_eq!(executed(&message), None, "a fork");
    }
}
