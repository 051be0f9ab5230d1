//! A process as rules see it.

use biopsy_model::{Pid, ProcessKey};

/// What is known of a process when rules are asked. Plain data: whoever watches fills it.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// Which process.
    pub key: ProcessKey,
    /// It waits before the first instruction of the program that is described here.
    pub is_held: bool,
    /// Who started it.
    pub parent: Pid,
    /// Its name, as the kernel has it: 15 bytes.
    pub name: String,
    /// Path of its executable; empty: not known.
    pub exe: String,
    /// What a runtime was told to run: entry assembly, script, jar.
    pub entry: Option<String>,
    /// Its command line.
    pub arguments: Vec<String>,
    /// Whose it is.
    pub uid: u32,
    /// That user's name.
    pub user: String,
    /// Its systemd unit.
    pub unit: Option<String>,
    /// Its container.
    pub container: Option<String>,
    /// Names of its parent: process, executable, entry.
    pub parent_names: Vec<String>,
    /// How long it lives.
    pub age: std::time::Duration,
    /// CPU time that it has used.
    pub cpu: std::time::Duration,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
}

impl Observed {
    /// What it is called for people: its entry without the ending, or its executable's name.
    #[must_use]
    pub fn title(&self) -> &str {
        let file = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().len();
        match &self.entry {
            Some(entry) => {
                let name = &entry[entry.len() - file(entry)..];
                name.strip_suffix(".dll").unwrap_or(name)
            }
            None if self.exe.is_empty() => &self.name,
            None => &self.exe[self.exe.len() - file(&self.exe)..],
        }
    }
}
