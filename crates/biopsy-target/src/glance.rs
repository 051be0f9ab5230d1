//! What is seen of a process at a glance: who it is and what it uses, from five small files, and never from its memory or mappings.
//!
//! For whoever looks at every program that starts on a machine.

use std::io;
use std::time::Duration;

use biopsy_model::{BootId, Pid, ProcessKey};

use crate::process::command::{self, base_name};
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL, found};
use crate::process::seen::Seen;
use crate::process::stat::Stat;
use crate::process::usage::Usage;

/// A process at a glance.
#[derive(Clone, PartialEq, Debug)]
pub struct Glance {
    /// Which process.
    pub key: ProcessKey,
    /// Who started it.
    pub parent: Pid,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Path of its executable; empty: not known.
    pub exe: String,
    /// What a runtime was told to run: entry assembly, script, jar.
    pub entry: Option<String>,
    /// Its command line.
    pub arguments: Vec<String>,
    /// Whose it is.
    pub uid: u32,
    /// systemd unit.
    pub unit: Option<String>,
    /// Container.
    pub container: Option<String>,
    /// What it uses.
    pub usage: Usage,
}

/// What is about to be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Name that the process will have, as the kernel will keep it.
    pub name: String,
    /// Path of the file.
    pub exe: String,
    /// What a runtime is told to run.
    pub entry: Option<String>,
    /// Its command line.
    pub arguments: Vec<String>,
}

impl Glance {
    /// Of a process; `None`: it is gone, is a part of the kernel, or has ended and not been noticed.
    ///
    /// # Errors
    /// Files or memory are used up, and nothing is known of the process.
    pub fn take(root: &ProcRoot, boot_id: &BootId, pid: Pid) -> io::Result<Option<Self>> {
        let Some(seen) = Seen::look(root, pid)?.filter(Seen::is_living) else { return Ok(None) };
        let exe = seen.exe.clone().unwrap_or_default();
        Ok(Some(Self {
            key: identity::key(boot_id.clone(), pid, &seen.stat),
            parent: Pid(seen.stat.parent),
            name: seen.name(),
            entry: entry(&exe, &seen.arguments),
            uid: seen.uid(),
            unit: seen.cgroup.unit.clone(),
            container: seen.cgroup.container_id.clone(),
            usage: Usage::of(&seen),
            exe,
            arguments: seen.arguments,
        }))
    }

    /// What a process uses now; `None`: it is gone, or its pid is another's.
    ///
    /// # Errors
    /// As of [`Self::take`].
    pub fn usage_now(root: &ProcRoot, key: &ProcessKey) -> io::Result<Option<Usage>> {
        let line = found(root.process(key.pid).and_then(|dir| dir.read("stat", SMALL)))?;
        let stat = line.and_then(|line| Stat::parse(&line));
        let stat = stat.filter(|stat| stat.start_ticks == key.start_ticks && !stat.is_zombie());
        Ok(stat.map(|stat| Usage::of_stat(&stat)))
    }

    /// Who it will be when it has executed a program.
    #[must_use]
    pub(crate) fn before(self, program: Program) -> Self {
        let Program { name, exe, entry, arguments } = program;
        Self { name, exe, entry, arguments, ..self }
    }

    /// How long it lives.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::try_from_secs_f64(self.usage.up_seconds).unwrap_or_default()
    }
}

/// What a runtime was told to run, by the name of either.
pub(crate) fn entry(exe: &str, arguments: &[String]) -> Option<String> {
    let called = arguments.first().map_or("", String::as_str);
    let kind = command::kind_by_name(base_name(exe)).or_else(|| command::kind_by_name(base_name(called)))?;
    command::entry(kind, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_that_runs_and_of_one_that_is_gone() {
        let root = ProcRoot::live();
        let boot = root.boot_id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Between fork and exec it still is this program.
        let glance = std::iter::repeat_with(|| Glance::take(&root, &boot, Pid(child.id())).unwrap().unwrap())
            .find(|glance| glance.arguments.iter().any(|argument| argument == "60"))
            .unwrap();
        assert!(!glance.exe.is_empty() && glance.parent == Pid(std::process::id()), "{glance:?}");
        assert!(Glance::usage_now(&root, &glance.key).unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Glance::take(&root, &boot, glance.key.pid).unwrap(), None);
        assert_eq!(Glance::usage_now(&root, &glance.key).unwrap(), None);
    }
}
