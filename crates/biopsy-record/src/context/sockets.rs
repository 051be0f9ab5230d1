//! Connections: the sockets of the process in the tables of its network namespace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use biopsy_recording::WriteError;

use super::descriptors::Sockets;
use super::members::{Members, count_lines, one_line};
use crate::logs::text::read_line;

/// Connections that are listed one by one.
const MOST_LISTED: usize = 2_000;

/// A table of the kernel may have millions of lines, and each costs it a walk: this long at most.
const LONGEST: Duration = Duration::from_millis(500);

const TABLES: [&str; 6] = ["tcp", "tcp6", "udp", "udp6", "udplite", "raw"];

/// States of TCP sockets as the kernel numbers them (include/net/tcp_states.h), from 1.
const STATES: [&str; 12] = [
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listening",
    "closing",
    "new-syn-received",
];

/// One line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    send_queue: u64,
    receive_queue: u64,
    inode: u64,
}

pub(super) fn write(members: &mut Members<'_>, sockets: &Sockets) -> Result<(), WriteError> {
    if sockets.is_empty() {
        return Ok(());
    }
    let (mut by_state, mut by_peer) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let (mut lines, mut listed, mut cut) = (String::new(), 0, Vec::new());
    for table in TABLES {
        let done = each_line(members, table, |line| {
            let Some(socket) = parse(line) else { return };
            let Some(fds) = sockets.get(&socket.inode) else { return };
            let state = state_name(table, socket.state);
            *by_state.entry(format!("{table} {state}")).or_default() += 1;
            if state != "listening" && !socket.remote.ip().is_unspecified() {
                *by_peer.entry(format!("{table} {} {state}", socket.remote)).or_default() += 1;
            }
            listed += 1;
            if listed <= MOST_LISTED {
                let _ = writeln!(
                    lines,
                    "{table:<5} {} -> {} {state} to send {} to read {} descriptor {}",
                    socket.local,
                    socket.remote,
                    socket.send_queue,
                    socket.receive_queue,
                    numbers(fds)
                );
            }
        });
        if !done {
            cut.push(table);
        }
    }
    let done = each_line(members, "unix", |line| {
        let Some((inode, state, path)) = parse_unix(line) else { return };
        let Some(fds) = sockets.get(&inode) else { return };
        *by_state.entry(format!("unix {state}")).or_default() += 1;
        listed += 1;
        if listed <= MOST_LISTED {
            let _ = writeln!(lines, "unix  {} {state} descriptor {}", one_line(path), numbers(fds));
        }
    });
    if !done {
        cut.push("unix");
    }
    if !cut.is_empty() {
        let message = format!(
            "the sockets of process {} are not all listed: reading {} took too long",
            members.pid,
            cut.join(", ")
        );
        members.warn("context.sockets-cut", message);
    }
    let mut text = format!("{} sockets\n\nby state\n", sockets.len());
    text.push_str(&count_lines(by_state, 50));
    text.push_str("\nby peer\n");
    text.push_str(&count_lines(by_peer, 50));
    text.push('\n');
    text.push_str(&lines);
    if listed > MOST_LISTED {
        let _ = writeln!(text, "[... {} more]", listed - MOST_LISTED);
    }
    members.write("sockets.txt", &text)
}

fn numbers(fds: &[u32]) -> String {
    fds.iter().take(8).map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Goes through a table without its heading. `false`: there was no time for all of it.
fn each_line(members: &Members<'_>, table: &str, mut each: impl FnMut(&[u8])) -> bool {
    let Ok(file) = members.dir.file(&format!("net/{table}")) else { return true };
    let (mut reader, mut line) = (BufReader::with_capacity(64 << 10, file), Vec::new());
    let until = Instant::now() + LONGEST;
    let mut number = 0_u64;
    while let Ok(Some(_)) = read_line(&mut reader, &mut line) {
        number += 1;
        if number > 1 {
            each(&line);
        }
        if number.is_multiple_of(256) && Instant::now() > until {
            return false;
        }
    }
    true
}

fn state_name(table: &str, state: u8) -> &'static str {
    if !table.starts_with("tcp") {
        return if state == 1 { "connected" } else { "open" };
    }
    let place = usize::from(state).checked_sub(1);
    place.and_then(|place| STATES.get(place)).copied().unwrap_or("unknown")
}

/// `sl local remote state send:receive timer:when retransmits uid timeout inode`, numbers in hexadecimal.
fn parse(line: &[u8]) -> Option<Socket> {
    let text = std::str::from_utf8(line).ok()?;
    let mut fields = text.split_ascii_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let remote = address(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let (send, receive) = fields.next()?.split_once(':')?;
    let inode = fields.nth(4)?.parse().ok()?;
    Some(Socket {
        local,
        remote,
        state,
        send_queue: u64::from_str_radix(send, 16).ok()?,
        receive_queue: u64::from_str_radix(receive, 16).ok()?,
        inode,
    })
}

/// `0100007F:0CEA`: the words of the address as this machine keeps them, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// `Num RefCount Protocol Flags Type St Inode Path`: inode, state, path (empty: none; `@` starts an abstract one).
fn parse_unix(line: &[u8]) -> Option<(u64, &'static str, &[u8])> {
    let mut rest = line;
    let mut fields = Vec::with_capacity(7);
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        fields.push(std::str::from_utf8(rest.get(..end)?).ok()?);
        rest = rest.get(end..)?;
    }
    let [_, _, _, flags, _, state, inode] = fields.as_slice() else { return None };
    let listening = u32::from_str_radix(flags, 16).ok()? & 0x1_0000 != 0;
    let state = match *state {
        "01" if listening => "listening",
        "01" => "open",
        "02" => "connecting",
        "03" => "connected",
        "04" => "disconnecting",
        _ => "unknown",
    };
    Some((inode.parse().ok()?, state, rest.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_the_tables() {
        let line = b"   0: 0100007F:0CEA 0200000A:D2F0 01 00000010:00000020 00:00000000 00000000   999        0 12345 1 0000000000000000 20 4 30 10 -1";
        let socket = parse(line).expect("well formed");
        assert_eq!(socket.local.to_string(), "127.0.0.1:3306");
        assert_eq!(socket.remote.to_string(), "10.0.0.2:54000");
        assert_eq!((socket.send_queue, socket.receive_queue, socket.inode), (16, 32, 12345));
        assert_eq!(state_name("tcp", socket.state), "established");
        let v6 = address("00000000000000000000000001000000:0050").expect("well formed");
        assert_eq!(v6.to_string(), "[::1]:80");
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 20187 /run/my sql.sock";
        assert_eq!(parse_unix(line), Some((20187, "listening", b"/run/my sql.sock".as_slice())));
        let line = b"0000000000000000: 00000003 00000000 00000000 0001 03 20188";
        assert_eq!(parse_unix(line), Some((20188, "connected", b"".as_slice())));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
            let _ = parse_unix(&line);
        }

        #[test]
        fn any_address_is_survived(text in "[0-9A-Fa-fé:]{0,40}") {
            let _ = address(&text);
        }
    }
}
