//! On which side of its connections a process is: it asks others, or others ask it. Read from the lists of sockets in the context.

use biopsy_model::Pid;
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Ports from here on are given to who asks, on Linux as it comes.
const EPHEMERAL: u16 = 32_768;
/// Members that are read, and lines of each.
const MEMBERS: usize = 256;
const LINES: usize = 4_096;

/// Connections of one process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sides {
    /// Sockets that wait for connections.
    pub(crate) listening: usize,
    /// Connections that others made to it.
    pub(crate) accepted: usize,
    /// Connections that it made: how many to whom.
    pub(crate) asked: BTreeMap<String, usize>,
    /// Connections of which the side cannot be told.
    pub(crate) unclear: usize,
}

impl Sides {
    /// Others ask it, and it asks nobody.
    pub(crate) fn only_answers(&self) -> bool {
        self.accepted > 0 && self.asked.is_empty() && self.unclear == 0
    }

    /// It asks, and nobody asks it.
    pub(crate) fn only_asks(&self) -> bool {
        self.accepted == 0 && self.listening == 0 && self.unclear == 0 && !self.asked.is_empty()
    }

    /// Others depend on it.
    pub(crate) fn serves(&self) -> bool {
        self.listening > 0 || self.accepted > 0
    }

    /// To whom it made connections, most first: `127.0.0.1:5432`.
    pub(crate) fn peers(&self) -> Vec<&str> {
        let mut peers: Vec<_> = self.asked.iter().collect();
        peers.order_by_key(|&(name, count)| (std::cmp::Reverse(*count), name));
        peers.into_iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// One line of a list.
enum Line<'t> {
    Listens(SocketAddr),
    Connected {
        local: SocketAddr,
        remote: SocketAddr,
    },
    UnixListens,
    /// The end that was accepted has the name that was connected to.
    UnixConnected(Option<&'t str>),
}

/// What is known of each process. One whose context was recorded and that has no sockets is there too.
pub(crate) fn sides(capture: &Capture) -> BTreeMap<Pid, Sides> {
    let mut lists: BTreeMap<Pid, Vec<Line<'_>>> = BTreeMap::new();
    for (member, text) in capture.context.iter().take(MEMBERS * 64) {
        let Some((pid, member)) = member.strip_prefix("target/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let Ok(pid) = pid.parse() else { continue };
        let list = lists.entry(Pid(pid)).or_default();
        if matches!(member, "sockets.txt" | "sockets-end.txt") && list.len() < LINES {
            list.extend(text.lines().take(LINES).filter_map(parse));
        }
        if lists.len() > MEMBERS {
            break;
        }
    }
    let listened: std::collections::BTreeSet<u16> = lists
        .values()
        .flatten()
        .filter_map(|line| match line {
            Line::Listens(address) => Some(address.port()),
            Line::Connected { .. } | Line::UnixListens | Line::UnixConnected(_) => None,
        })
        .collect();
    lists.into_iter().map(|(pid, lines)| (pid, sum(&lines, &listened))).collect()
}

fn sum(lines: &[Line<'_>], listened: &std::collections::BTreeSet<u16>) -> Sides {
    let mut sides = Sides::default();
    let mut seen = std::collections::BTreeSet::new();
    for line in lines {
        match line {
            // In the list of the beginning and in that of the end.
            Line::Connected { local, remote } if !seen.insert((local, remote)) => {}
            Line::Listens(_) | Line::UnixListens => sides.listening += 1,
            Line::UnixConnected(Some(_)) => sides.accepted += 1,
            Line::UnixConnected(None) => sides.unclear += 1,
            Line::Connected { local, remote } => {
                let (own, other) = (local.port(), remote.port());
                match (listened.contains(&own), listened.contains(&other)) {
                    (true, false) => sides.accepted += 1,
                    (false, true) => *sides.asked.entry(remote.to_string()).or_default() += 1,
                    _ if own < EPHEMERAL && other >= EPHEMERAL => sides.accepted += 1,
                    _ if other < EPHEMERAL && own >= EPHEMERAL => {
                        *sides.asked.entry(remote.to_string()).or_default() += 1;
                    }
                    _ => sides.unclear += 1,
                }
            }
        }
    }
    sides
}

/// `tcp   127.0.0.1:55450 -> 127.0.0.1:59173 established to send 0 ...`, `unix  /run/x.sock connected descriptor 4`.
fn parse(line: &str) -> Option<Line<'_>> {
    let (table, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    if table.starts_with("tcp") {
        let (local, rest) = rest.split_once(" -> ")?;
        let mut words = rest.split(' ');
        let (local, remote): (SocketAddr, SocketAddr) = (local.parse().ok()?, words.next()?.parse().ok()?);
        return match words.next()? {
            "listening" => Some(Line::Listens(local)),
            "established" | "close-wait" => Some(Line::Connected { local, remote }),
            _ => None,
        };
    }
    if table != "unix" {
        return None;
    }
    let (rest, descriptors) = rest.rsplit_once(" descriptor ")?;
    // Where a service manager takes what a program says.
    if descriptors.split(',').all(|number| matches!(number, "0" | "1" | "2")) {
        return None;
    }
    let (path, state) = rest.rsplit_once(' ').unwrap_or(("", rest));
    match state {
        "listening" => Some(Line::UnixListens),
        "connected" => Some(Line::UnixConnected(Some(path.trim()).filter(|path| !path.is_empty()))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(members: &[(&str, &str)]) -> BTreeMap<Pid, Sides> {
        let context = members.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        sides(&Capture { context, ..Capture::default() })
    }

    #[test]
    fn a_connection_that_lasts_is_one() {
        let line = |port: u16, to: &str| {
            format!("tcp   10.0.0.1:{port} -> {to} established to send 0 descriptor 3\n")
        };
        let lasts = line(41000, "10.0.0.2:5432") + &line(41001, "10.0.0.2:5432");
        let begins: String = (0..3).map(|at| line(42000 + at, "10.0.0.3:6379")).collect();
        let sides = recorded(&[
            ("target/7/sockets.txt", &lasts),
            ("target/7/sockets-end.txt", &(lasts.clone() + &begins)),
            ("target/8/sockets.txt", &lasts),
        ]);
        assert_eq!(sides[&Pid(7)].asked.values().copied().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(sides[&Pid(7)].peers(), ["10.0.0.3:6379", "10.0.0.2:5432"], "most first");
        assert_eq!(sides[&Pid(8)].asked.len(), 1, "of another process");
    }

    #[test]
    fn who_listens_answers_and_who_connected_asks() {
        let sides = recorded(&[
            (
                "target/7/sockets.txt",
                "2 sockets\n\ntcp   127.0.0.1:40001 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n\
                 tcp   127.0.0.1:40001 -> 127.0.0.1:55466 established to send 0 to read 0 descriptor 4\n",
            ),
            (
                "target/8/sockets.txt",
                "tcp   127.0.0.1:55466 -> 127.0.0.1:40001 established to send 0 to read 0 descriptor 3\n",
            ),
            ("target/9/limits.txt", "x"),
            (
                "target/10/sockets.txt",
                "tcp   10.0.0.1:41000 -> 10.0.0.2:5432 established to send 0 to read 0 descriptor 3\n",
            ),
            (
                "target/11/sockets.txt",
                "tcp   10.0.0.1:41000 -> 10.0.0.2:43000 established to send 0 to read 0 descriptor 3\n",
            ),
            (
                "target/12/sockets.txt",
                "unix  /run/a b.sock connected descriptor 4\nunix  /run/a b.sock listening descriptor 3\n",
            ),
            ("target/13/sockets.txt", "unix   connected descriptor 4\nunix   connected descriptor 1,2\n"),
            ("target/x/sockets.txt", "tcp nonsense"),
        ]);
        assert!(sides[&Pid(7)].only_answers() && sides[&Pid(7)].serves());
        assert!(sides[&Pid(8)].only_asks());
        assert_eq!(sides[&Pid(8)].peers(), ["127.0.0.1:40001"]);
        assert_eq!(sides[&Pid(9)], Sides::default());
        assert!(sides[&Pid(10)].only_asks());
        assert_eq!(sides[&Pid(11)].unclear, 1);
        assert!(sides[&Pid(12)].only_answers());
        assert!(!sides[&Pid(13)].only_answers() && !sides[&Pid(13)].only_asks());
        assert_eq!(sides.len(), 7);
    }
}
