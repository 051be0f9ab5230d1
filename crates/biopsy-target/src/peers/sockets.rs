//! The other end of a socket of this machine.
//!
//! TCP: the socket with the addresses the other way round, in the tables of the process's network namespace. UNIX: only the kernel's
//! socket diagnostics (sock_diag(7), `UNIX_DIAG_PEER`) say it, for our own namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::process::proc_root::{ProcRoot, ProcessDir};

/// Bytes of a table, and of all answers, at most.
const TABLE: usize = 4 << 20;
const ANSWER: usize = 4 << 20;
/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(1);

const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const UNIX_DIAG_PEER: u16 = 2;
/// `UNIX_DIAG_RQLEN`: bytes to be read, then bytes or connections that may be taken.
const UNIX_DIAG_QUEUES: u16 = 4;
const SHOW_PEER: u32 = 4;
const SHOW_QUEUES: u32 = 0x10;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Peer {
    pub(super) inode: u64,
    /// Bytes that it has got and that nobody has read there.
    pub(super) unread: u64,
}

/// The other ends of all TCP connections inside of the machine, in the process's network namespace, by inode.
pub(super) fn tcp_peers(dir: &ProcessDir) -> BTreeMap<u64, Peer> {
    let mut peers = BTreeMap::new();
    for table in ["net/tcp", "net/tcp6"] {
        let Ok(text) = dir.read(table, TABLE) else { continue };
        peers_in(&String::from_utf8_lossy(&text), &mut peers);
    }
    peers
}

/// `sl local remote state queues timer retransmits uid timeout inode`.
fn peers_in(text: &str, peers: &mut BTreeMap<u64, Peer>) {
    let rows = || {
        text.lines().skip(1).filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, remote, state, queues) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let inode: u64 = words.nth(4)?.parse().ok()?;
            let unread = queues.split_once(':').and_then(|(_, unread)| u64::from_str_radix(unread, 16).ok());
            let own = Peer { inode, unread: unread.unwrap_or(0) };
            Some((local, remote, state, own))
        })
    };
    let port = |address: &str| address.rsplit(':').next().map(str::to_owned);
    // A connection that nobody has accepted yet has no inode: who listens at its port may.
    let listeners: BTreeMap<String, u64> = rows()
        .filter(|(_, _, state, _)| *state == LISTENING)
        .filter_map(|(local, _, _, own)| Some((port(local)?, own.inode)))
        .collect();
    let established = || rows().filter(|(_, _, state, _)| *state == ESTABLISHED);
    let by_addresses: BTreeMap<(&str, &str), Peer> = established()
        .map(|(local, remote, _, own)| {
            let listener = || port(local).and_then(|port| listeners.get(&port).copied());
            let inode = if own.inode == 0 { listener().unwrap_or(0) } else { own.inode };
            ((local, remote), Peer { inode, ..own })
        })
        .collect();
    peers.extend(established().filter(|(_, _, _, own)| own.inode != 0).filter_map(
        |(local, remote, _, own)| {
            let peer = *by_addresses.get(&(remote, local))?;
            (peer.inode != 0).then_some((own.inode, peer))
        },
    ));
}

/// The other ends of all UNIX sockets of our network namespace, by inode. Empty: the kernel does not say it.
///
/// Asking makes the kernel load the module `unix_diag` where it is one: a machine that is not ours is not changed for that.
pub(super) fn unix_peers(root: &ProcRoot) -> BTreeMap<u64, Peer> {
    let (mut peers, unread) = can_answer(root).then(ask).flatten().unwrap_or_default();
    for peer in peers.values_mut() {
        peer.unread = unread.get(&peer.inode).copied().unwrap_or(0);
    }
    peers
}

fn can_answer(root: &ProcRoot) -> bool {
    const MODULE: &str = "unix_diag";
    let Ok(modules) = root.bytes("proc/modules", TABLE) else {
        // A kernel without modules: it has it, or does not know the question.
        return true;
    };
    let loaded = String::from_utf8_lossy(&modules).lines().any(|line| line.split(' ').next() == Some(MODULE));
    loaded || is_built_in(root, MODULE)
}

/// `kernel/net/unix/unix_diag.ko` is a line of `modules.builtin`.
fn is_built_in(root: &ProcRoot, module: &str) -> bool {
    let Ok(release) = root.text("proc/sys/kernel/osrelease") else { return false };
    if release.contains('/') {
        return false;
    }
    let list = root.bytes(&format!("lib/modules/{release}/modules.builtin"), TABLE).unwrap_or_default();
    String::from_utf8_lossy(&list)
        .lines()
        .any(|line| line.rsplit('/').next().and_then(|file| file.strip_suffix(".ko")) == Some(module))
}

/// The other ends, and bytes that were not read, by inode.
type Answer = (BTreeMap<u64, Peer>, BTreeMap<u64, u64>);

fn ask() -> Option<Answer> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).ok()?;
    // struct nlmsghdr, struct unix_diag_req.
    let mut request = Vec::with_capacity(40);
    for (word, bytes) in [(40_u64, 4), (SOCK_DIAG_BY_FAMILY.into(), 2), (DUMP.into(), 2), (1, 4), (0, 4)] {
        request.extend(word.to_le_bytes().iter().take(bytes));
    }
    // Family and protocol, all states, any inode, what to show, any cookie.
    request.extend([1, 0, 0, 0]);
    for word in [u32::MAX, 0, SHOW_PEER | SHOW_QUEUES, u32::MAX, u32::MAX] {
        request.extend(word.to_le_bytes());
    }
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut peers = Answer::default();
    let mut buffer = vec![0; 64 << 10];
    let mut taken = 0;
    while taken < ANSWER {
        let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
        taken += length.max(1);
        if !take(buffer.get(..length)?, &mut peers) {
            break;
        }
    }
    Some(peers)
}

/// Messages of an answer; `false`: it was the last.
fn take(mut bytes: &[u8], (peers, unread): &mut Answer) -> bool {
    let half = |bytes: &[u8], at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    while let (Some(length), Some(kind)) = (word(bytes, 0), half(bytes, 4)) {
        let length = length as usize;
        if matches!(kind, DONE | ERROR) || length < 16 || length > bytes.len() {
            return false;
        }
        let message = bytes.get(16..length).unwrap_or_default();
        // struct unix_diag_msg: family, type, state, padding, inode, cookie; then attributes.
        let mut attributes = message.get(16..).unwrap_or_default();
        while let (Some(size), Some(kind)) = (half(attributes, 0), half(attributes, 2)) {
            let size = usize::from(size);
            if size < 4 {
                break;
            }
            if let (Some(own), Some(value)) = (word(message, 4), word(attributes, 4)) {
                match kind {
                    UNIX_DIAG_PEER => drop(peers.insert(own.into(), Peer { inode: value.into(), unread: 0 })),
                    UNIX_DIAG_QUEUES => drop(unread.insert(own.into(), value.into())),
                    _ => {}
                }
            }
            attributes = attributes.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_has_the_addresses_the_other_way_round() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0CEA 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000   999        0 111 1\n\
            1: 0100007F:D2F0 0100007F:0CEA 01 00000000:0000001F 00:00000000 00000000   999        0 222 1\n\
            2: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 333 1\n\
            3: 0100007F:0CEA 0100007F:D2F2 01 00000000:0000002A 00:00000000 00000000   999        0 0 1\n\
            4: 0100007F:D2F2 0100007F:0CEA 01 00000000:00000000 00:00000000 00000000   999        0 444 1\n";
        let mut peers = BTreeMap::new();
        peers_in(table, &mut peers);
        let other = |inode, unread| Peer { inode, unread };
        let expected = [(111, other(222, 0x1f)), (222, other(111, 0)), (444, other(333, 0x2a))];
        assert_eq!(peers, BTreeMap::from(expected), "444 was not accepted yet, and waits for who listens");
    }

    #[test]
    fn a_module_that_is_not_loaded_is_not_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(can_answer(&root), "a kernel without modules");
        write("proc/modules", "tcp_diag 16384 0 - Live 0x0\nunix_diag_x 1 0 - Live 0x0\n");
        assert!(!can_answer(&root));
        write("proc/sys/kernel/osrelease", "6.1.0\n");
        write("lib/modules/6.1.0/modules.builtin", "kernel/fs/ext4/ext4.ko\nkernel/net/unix/unix_diag.ko\n");
        assert!(can_answer(&root));
        write("lib/modules/6.1.0/modules.builtin", "");
        write("proc/modules", "unix_diag 16384 0 - Live 0x0\n");
        assert!(can_answer(&root));
    }

    #[test]
    fn answers_that_are_damaged_end() {
        let mut peers = Answer::default();
        assert!(!take(&[0xff; 64], &mut peers));
        assert!(take(&[], &mut peers));
        let mut message = vec![40, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend([1, 1, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 2, 0, 9, 0, 0, 0]);
        assert!(take(&message, &mut peers));
        assert_eq!(peers.0, BTreeMap::from([(7, Peer { inode: 9, unread: 0 })]));
        for length in 0..message.len() {
            take(&message[..length], &mut Answer::default());
        }
    }
}
