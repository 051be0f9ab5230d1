//! The `network` table and the TCP counters, of the network namespace of the target.

use std::path::{Path, PathBuf};

use biopsy_model::{MonoNanos, Pid};
use rustc_hash::FxHashMap;

use super::parse::{lines, number, words};
use super::procfile::{Buffer, ProcFile, says_that_there_is_none};
use super::rate::Counter;
use super::sink::{Emitter, Row};
use super::tables::NETWORK;

/// Interfaces beyond this many are not recorded: a container host may have thousands.
const MOST_INTERFACES: usize = 128;

/// Collector of the `network` table.
#[derive(Debug)]
pub(crate) struct Network {
    proc_root: PathBuf,
    /// Whose namespace the files belong to; `None`: ours.
    of: Option<Pid>,
    interfaces: ProcFile,
    snmp: ProcFile,
    netstat: ProcFile,
    counters: FxHashMap<String, [Counter; 8]>,
}

/// TCP counters of one namespace since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TcpCounts {
    pub(crate) established: Option<u64>,
    pub(crate) connects: Option<u64>,
    pub(crate) accepts: Option<u64>,
    pub(crate) segments_out: Option<u64>,
    pub(crate) retransmits: Option<u64>,
    pub(crate) resets: Option<u64>,
    pub(crate) failures: Option<u64>,
    pub(crate) overflows: Option<u64>,
    pub(crate) drops: Option<u64>,
}

impl Network {
    pub(crate) fn new(proc_root: &Path, of: Option<Pid>) -> Network {
        let folder = folder(proc_root, of);
        let open = |name: &str| ProcFile::new(folder.join(name), true);
        Network {
            proc_root: proc_root.to_owned(),
            of,
            interfaces: open("dev"),
            snmp: open("snmp"),
            netstat: open("netstat"),
            counters: FxHashMap::default(),
        }
    }

    /// Reads the interfaces into rows and returns the TCP counters, where they could be read.
    pub(crate) fn read(
        &mut self,
        time: MonoNanos,
        first: Option<Pid>,
        buffer: &mut Buffer,
        out: &mut Emitter<'_>,
    ) -> Option<TcpCounts> {
        // The files of a process that ended cannot be read any more. Another process of the tree may be in
        // another namespace, so that rates start anew; where none answers, ours is better than nothing.
        let none = self.interfaces.read(buffer).err().is_some_and(|error| says_that_there_is_none(&error));
        if none && self.of.is_some() {
            *self = Network::new(&self.proc_root, first.filter(|_| first != self.of));
        }
        let text = self.interfaces.read_ok(buffer).unwrap_or_default();
        for line in lines(text) {
            let Some((name, fields)) = parse_interface(line) else { continue };
            if !self.counters.contains_key(&name) {
                if self.counters.len() >= MOST_INTERFACES {
                    continue;
                }
                self.counters.insert(name.clone(), Default::default());
            }
            let Some(counters) = self.counters.get_mut(&name) else { continue };
            let mut row = Row::new(&NETWORK);
            for (((column, _), counter), value) in NETWORK.columns.iter().zip(counters).zip(fields) {
                row.set(column, counter.rate(value, time));
            }
            out.emit(time, &[&name], &row);
        }
        self.read_tcp(buffer)
    }

    fn read_tcp(&mut self, buffer: &mut Buffer) -> Option<TcpCounts> {
        let mut counts = TcpCounts::default();
        table_values(self.snmp.read_ok(buffer)?, b"Tcp:", |name, value| match name {
            b"CurrEstab" => counts.established = Some(value),
            b"ActiveOpens" => counts.connects = Some(value),
            b"PassiveOpens" => counts.accepts = Some(value),
            b"OutSegs" => counts.segments_out = Some(value),
            b"RetransSegs" => counts.retransmits = Some(value),
            b"EstabResets" => counts.resets = Some(value),
            b"AttemptFails" => counts.failures = Some(value),
            _ => {}
        });
        let text = self.netstat.read_ok(buffer).unwrap_or_default();
        table_values(text, b"TcpExt:", |name, value| match name {
            b"ListenOverflows" => counts.overflows = Some(value),
            b"ListenDrops" => counts.drops = Some(value),
            _ => {}
        });
        Some(counts)
    }
}

/// Parses any bytes as each of the files of this module: for fuzzing.
pub(super) fn visit_all(text: &[u8]) {
    let _ = lines(text).filter_map(parse_interface).count();
    table_values(text, b"Tcp:", |_, _| {});
}

fn folder(proc_root: &Path, of: Option<Pid>) -> PathBuf {
    match of {
        Some(pid) => proc_root.join(pid.to_string()).join("net"),
        None => proc_root.join("net"),
    }
}

/// Name and the values of the columns in their order: bytes, packets, errors, drops, received and sent.
fn parse_interface(line: &[u8]) -> Option<(String, [Option<u64>; 8])> {
    // The name may hold a colon (an alias): numbers follow the last one.
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let name = String::from_utf8_lossy(line.get(..colon)?).trim().to_owned();
    let values: Vec<Option<u64>> = words(line.get(colon + 1..)?).take(16).map(number).collect();
    // bytes packets errs drop fifo frame compressed multicast, then the same of sending with other tails.
    let at = |index: usize| values.get(index).copied().flatten();
    Some((name, [at(0), at(8), at(1), at(9), at(2), at(10), at(3), at(11)]))
}

/// Values of a table that is two lines with the same first word: names, then numbers.
fn table_values(text: &[u8], prefix: &[u8], mut each: impl FnMut(&[u8], u64)) {
    let mut rows = lines(text).filter(|line| words(line).next() == Some(prefix));
    let (Some(names), Some(values)) = (rows.next(), rows.next()) else { return };
    for (name, value) in words(names).zip(words(values)).skip(1) {
        if let Some(value) = number(value) {
            each(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_lines() {
        let line = b"  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        let (name, fields) = parse_interface(line).expect("well formed");
        assert_eq!(name, "eth0");
        assert_eq!(fields.map(Option::unwrap_or_default), [1, 9, 2, 10, 3, 11, 4, 12]);
        assert_eq!(parse_interface(b" face |bytes    packets"), None);
    }

    #[test]
    fn two_line_tables() {
        let text = b"Ip: a b\nIp: 1 2\nTcp: CurrEstab MaxConn RetransSegs\nTcp: 4 -1 6\n";
        let mut seen = Vec::new();
        table_values(text, b"Tcp:", |name, value| seen.push((name.to_vec(), value)));
        assert_eq!(seen, [(b"CurrEstab".to_vec(), 4), (b"RetransSegs".to_vec(), 6)]);
    }
}
