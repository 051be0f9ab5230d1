//! What is on, until when, and by whom: written down before it takes effect.
//!
//! A lease is of a process of biopsy: the watcher, or a command that it started. All that such a process switches on ends with it, so that
//! to switch off is to end it. Its end is told on the clock that counts from the start of the machine; of another start of the machine
//! nothing runs any more. A wall clock that jumps changes nothing.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_model::{BootId, Pid, ProcessKey};
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// All that is on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Journal(pub Vec<Lease>);

/// One thing that is on.
#[derive(Clone, PartialEq, Debug)]
pub struct Lease {
    /// The process of biopsy that does it; `None`: it was about to be started.
    pub holder: Option<ProcessKey>,
    /// What it does, for people.
    pub what: String,
    /// Whom it is about; `None`: the watcher itself.
    pub target: Option<(ProcessKey, String)>,
    /// What it writes.
    pub output: Option<PathBuf>,
    /// When it began, seconds of the wall clock: for people.
    pub begun_unix: i64,
    /// In which run of the machine.
    pub boot: BootId,
    /// When it ends.
    pub until: Moment,
}

/// What is to be done about a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseState {
    /// It runs, as it may.
    On,
    /// It runs, and its time is over.
    Over,
    /// It runs no more.
    Gone,
}

impl Lease {
    /// How it stands. `runs`: whether that very process is there.
    #[must_use]
    pub fn state(&self, boot: &BootId, now: Moment, runs: impl Fn(&ProcessKey) -> bool) -> LeaseState {
        let holder = self.holder.as_ref().filter(|_| self.boot == *boot);
        match holder {
            Some(holder) if runs(holder) && now >= self.until => LeaseState::Over,
            Some(holder) if runs(holder) => LeaseState::On,
            _ => LeaseState::Gone,
        }
    }

    /// How long it still may.
    #[must_use]
    pub fn remains(&self, now: Moment) -> Duration {
        self.until.0.saturating_sub(now.0)
    }
}

/// Longest text of a journal.
pub const LONGEST: usize = 4 << 20;

#[derive(Serialize, Deserialize)]
struct JournalFile {
    version: u32,
    #[serde(default)]
    leases: Vec<LeaseEntry>,
}

#[derive(Serialize, Deserialize)]
struct LeaseEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<KeyEntry>,
    what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<TargetEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    begun_unix: i64,
    boot_id: String,
    until_boot_seconds: u64,
}

#[derive(Serialize, Deserialize)]
struct KeyEntry {
    pid: u32,
    start_ticks: u64,
}

#[derive(Serialize, Deserialize)]
struct TargetEntry {
    name: String,
    #[serde(flatten)]
    key: KeyEntry,
}

impl KeyEntry {
    fn of(key: &ProcessKey) -> Self {
        Self { pid: key.pid.0, start_ticks: key.start_ticks }
    }

    fn key(&self, boot: &str) -> ProcessKey {
        ProcessKey { boot_id: BootId(boot.to_owned()), pid: Pid(self.pid), start_ticks: self.start_ticks }
    }
}

impl Journal {
    /// As it stands in its file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let entry = |lease: &Lease| LeaseEntry {
            holder: lease.holder.as_ref().map(KeyEntry::of),
            what: lease.what.clone(),
            target: lease
                .target
                .as_ref()
                .map(|(key, name)| TargetEntry { name: name.clone(), key: KeyEntry::of(key) }),
            output: lease.output.as_ref().map(|path| path.to_string_lossy().into_owned()),
            begun_unix: lease.begun_unix,
            boot_id: lease.boot.0.clone(),
            until_boot_seconds: lease.until.0.as_secs(),
        };
        let file = JournalFile { version: 1, leases: self.0.iter().map(entry).collect() };
        serde_json::to_string_pretty(&file).unwrap_or_default()
    }

    /// From its file. `None`: it is none; what is on is not known then.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let file: JournalFile = serde_json::from_str(text).ok()?;
        let lease = |entry: LeaseEntry| Lease {
            holder: entry.holder.map(|key| key.key(&entry.boot_id)),
            what: entry.what,
            target: entry.target.map(|target| (target.key.key(&entry.boot_id), target.name)),
            output: entry.output.map(PathBuf::from),
            begun_unix: entry.begun_unix,
            boot: BootId(entry.boot_id),
            until: Moment(Duration::from_secs(entry.until_boot_seconds)),
        };
        Some(Self(file.leases.into_iter().map(lease).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lease(pid: u32, boot: &str, until: u64) -> Lease {
        let key = |pid| ProcessKey { boot_id: BootId(boot.to_owned()), pid: Pid(pid), start_ticks: 7 };
        Lease {
            holder: (pid > 0).then(|| key(pid)),
            what: "trace --for 60s".to_owned(),
            target: Some((key(99), "a \"name\"\n".to_owned())),
            output: Some(PathBuf::from("/x/y.zip")),
            begun_unix: 1_800_000_000,
            boot: BootId(boot.to_owned()),
            until: Moment(Duration::from_secs(until)),
        }
    }

    #[test]
    fn what_is_on_over_and_gone() {
        let boot = BootId("this".to_owned());
        let now = |seconds| Moment(Duration::from_secs(seconds));
        let runs = |key: &ProcessKey| key.pid == Pid(5);
        for (lease, at, expected) in [
            (lease(5, "this", 100), 50, LeaseState::On),
            (lease(5, "this", 100), 100, LeaseState::Over),
            (lease(6, "this", 100), 50, LeaseState::Gone),
            (lease(5, "another", 100), 50, LeaseState::Gone),
            (lease(0, "this", 100), 50, LeaseState::Gone),
        ] {
            assert_eq!(lease.state(&boot, now(at), runs), expected, "{lease:?}");
        }
    }

    #[test]
    fn it_comes_back_from_its_text() {
        let journal = Journal(vec![lease(5, "a", 1), lease(0, "b", 2)]);
        assert_eq!(Journal::parse(&journal.to_text()), Some(journal.clone()));
        let text = journal.to_text();
        for cut in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            assert_eq!(Journal::parse(&text[..cut]), None);
        }
        assert_eq!(Journal::parse("{\"version\": 2, \"new\": 1}"), Some(Journal::default()));
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in ".{0,200}") {
            let _ = Journal::parse(&text);
        }
    }
}
