//! Bytes that lie in a socket, and of which nobody is told any more.
//!
//! An event loop that is told of new bytes only (`EPOLLET`), or has switched a descriptor off (`EPOLLONESHOT`, or not watched for input),
//! hears nothing more of bytes that it left behind. One that would be told of them does not sleep.

use biopsy_model::Pid;

use super::call::{Call, THREADS};
use super::events;
use crate::process::proc_root::{ProcRoot, SMALL};

/// Bytes of the list of an `epoll`.
const EVENTS: usize = 64 << 10;

/// Whether all threads of the process sleep, one of them at least in an event loop that has the descriptor and will not be told of what lies
/// unread there, and none where it may read it all the same.
pub(super) fn missed(root: &ProcRoot, pid: Pid, fd: u32) -> bool {
    sleeping(root, pid, fd).unwrap_or(false)
}

fn sleeping(root: &ProcRoot, pid: Pid, fd: u32) -> Option<bool> {
    let dir = root.process(pid).ok()?;
    let mut watched = false;
    for tid in dir.tids(THREADS).ok()? {
        // It runs, and may be about to read.
        let call = Call::parse(&dir.read(&format!("task/{tid}/syscall"), SMALL).ok()?)?;
        let first = call.arguments[0] as u32;
        match call.number {
            // epoll_wait, epoll_pwait, epoll_pwait2
            232 | 281 | 441 => {
                let text = dir.read(&format!("fdinfo/{first}"), EVENTS).ok()?;
                match events::masks(&text).into_iter().find(|(number, _)| *number == fd) {
                    Some((_, mask)) if events::is_told_of_more(mask) => return Some(false),
                    Some(_) => watched = true,
                    None => {}
                }
            }
            // read, readv, recvfrom, recvmsg, recvmmsg
            0 | 19 | 45 | 47 | 299 if first == fd => return Some(false),
            // poll, select, pselect6, ppoll, io_uring_enter: of which descriptors is not read.
            7 | 23 | 270 | 271 | 426 => return Some(false),
            _ => {}
        }
    }
    Some(watched)
}
