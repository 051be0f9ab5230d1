//! Processes that a counted program starts: they are not counted, and that is told.

use std::collections::{BTreeSet, HashSet};

use super::super::super::perf_records::PerfRecord;

/// Names that are told.
const NAMES: usize = 4;
/// Processes that are remembered at a time.
const MOST: usize = 1 << 16;

/// What a process has started, directly or not.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// Those that are there.
    alive: HashSet<u32>,
    started: u64,
    /// Of these, those that executed a program, and some names of them.
    executed: u64,
    names: BTreeSet<String>,
    /// How many went on when the program itself had ended.
    left: usize,
}

impl Children {
    /// `of`: the process that is counted.
    pub(super) fn see(&mut self, record: &PerfRecord, of: u32) {
        match record {
            PerfRecord::Fork { pid, parent_pid, .. }
                if pid != parent_pid && (*parent_pid == of || self.alive.contains(parent_pid)) =>
            {
                self.started += 1;
                if self.alive.len() < MOST {
                    self.alive.insert(*pid);
                }
            }
            PerfRecord::Name { pid, name, exec: true, .. } if self.alive.contains(pid) => {
                self.executed += 1;
                if self.names.len() < NAMES {
                    self.names.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
            PerfRecord::Exit { pid, tid, .. } if pid == tid => {
                if *pid == of {
                    self.left = self.alive.len();
                } else {
                    self.alive.remove(pid);
                }
            }
            _ => {}
        }
    }

    /// What is to be told, and what can be done: nothing where nothing was started.
    pub(super) fn said(&self) -> Option<(String, Option<String>)> {
        if self.started == 0 {
            return None;
        }
        let plural = |count: u64| if count == 1 { "process" } else { "processes" };
        let mut text = format!(
            "what {} {} allocated that the program started is not counted",
            self.started,
            plural(self.started)
        );
        if self.executed > 0 {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            text = format!("{text}; {} executed other programs ({})", self.executed, names.join(", "));
        }
        if self.left == 0 {
            return Some((text, None));
        }
        let hint = "start the program so that it does its work in the foreground, and not in a process that it leaves behind";
        Some((format!("{text}; {} went on after the program had ended", self.left), Some(hint.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(parent_pid: u32, pid: u32) -> PerfRecord {
        PerfRecord::Fork { pid, parent_pid, tid: pid, parent_tid: parent_pid, time: 1 }
    }

    fn exec(pid: u32, name: &str) -> PerfRecord {
        PerfRecord::Name { pid, tid: pid, time: 1, name: name.into(), exec: true }
    }

    fn exit(pid: u32, tid: u32) -> PerfRecord {
        PerfRecord::Exit { pid, tid, time: 1 }
    }

    #[test]
    fn all_that_a_program_starts_is_told_and_nothing_else() {
        for (records, expected) in [
            (vec![exec(7, "itself"), fork(8, 9), exec(9, "other"), exit(7, 7)], None),
            // A thread of its own.
            (vec![PerfRecord::Fork { pid: 7, parent_pid: 7, tid: 8, parent_tid: 7, time: 1 }], None),
            (
                vec![fork(7, 8), exit(8, 8), exit(7, 7)],
                Some(("what 1 process allocated that the program started is not counted", false)),
            ),
            (
                vec![
                    fork(7, 8),
                    exec(8, "sh"),
                    fork(8, 9),
                    exec(9, "ls"),
                    exit(9, 9),
                    exit(8, 8),
                    exit(7, 7),
                ],
                Some((
                    "what 2 processes allocated that the program started is not counted; 2 executed other programs (ls, sh)",
                    false,
                )),
            ),
            (
                vec![fork(7, 8), exit(7, 7), exit(8, 8)],
                Some((
                    "what 1 process allocated that the program started is not counted; 1 went on after the program had ended",
                    true,
                )),
            ),
        ] {
            let mut children = Children::default();
            for record in &records {
                children.see(record, 7);
            }
            let said = children.said();
            assert_eq!(said.as_ref().map(|(text, hint)| (text.as_str(), hint.is_some())), expected);
        }
    }
}
