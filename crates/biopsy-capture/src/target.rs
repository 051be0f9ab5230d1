//! From what was typed to a process, and to the tree below it.

use std::time::{Duration, Instant};

use biopsy_model::process::ProcessInfo;
use biopsy_model::{Pid, ProcessKey};
use biopsy_redact::{Options, Redactor};
use biopsy_target::{FindError, Selector};

use crate::failure::{Failure, FailureKind};

/// A process that was named.
#[derive(Clone, Debug)]
pub struct Target {
    /// The process.
    pub info: ProcessInfo,
    /// For headings and names of files.
    pub name: String,
}

/// Finds what was named: a pid, name, .NET entry assembly, systemd unit or container id.
///
/// # Errors
/// It is none of these ([`FailureKind::Usage`]); there is no such process, or several ([`FailureKind::Target`]).
pub fn find(text: &str) -> Result<Target, Failure> {
    let selector = parse(text)?;
    let found = biopsy_target::find(&selector).map_err(not_found)?;
    Ok(Target::of(&selector, found.info))
}

/// No process, or several. What is shown of their arguments is masked as in a recording.
pub(crate) fn not_found(mut error: FindError) -> Failure {
    if let FindError::Ambiguous { candidates, .. } = &mut error {
        let redactor = Redactor::new(Options::default()).ok();
        for candidate in candidates {
            let words: Vec<String> = candidate.command.split(' ').map(str::to_owned).collect();
            let masked = redactor.as_ref().map(|redactor| redactor.command_line(&words).args.join(" "));
            candidate.command = masked.unwrap_or_else(|| candidate.name.clone());
        }
    }
    Failure::from_error(FailureKind::Target, &error).with_hint(error.hint())
}

pub(crate) fn parse(text: &str) -> Result<Selector, Failure> {
    Selector::parse(text)
        .map_err(|error| Failure::from_error(FailureKind::Usage, &error).with_hint(error.hint()))
}

impl Target {
    pub(crate) fn of(selector: &Selector, info: ProcessInfo) -> Self {
        let name = display_name(selector, &info);
        Self { info, name }
    }

    /// This process, first, and if they are wanted all below it, parents before children.
    pub(crate) fn tree(&self, wanted: bool) -> Result<Vec<ProcessInfo>, Failure> {
        let pid = self.info.key.pid;
        let mut tree = match wanted {
            true => biopsy_target::tree(pid).map_err(|error| not_listed(pid, &error))?,
            false => Vec::new(),
        };
        // Biopsy itself may have been started by its target's shell; it does not record itself. A program that was started and
        // is held is described as what it will be, not as the copy of biopsy that it still is.
        let own = Pid(std::process::id());
        tree.retain(|process| process.key.pid != own && process.key.pid != pid);
        tree.insert(0, self.info.clone());
        Ok(tree)
    }

    /// Waits until the process is another program than before, and takes what is known of it then. `false`: it has ended, or is not.
    pub(crate) fn executes(&mut self, before: &ProcessInfo, patience: Duration) -> bool {
        let begin = Instant::now();
        while biopsy_target::is_same(&self.info.key) && begin.elapsed() < patience {
            if let Ok(info) = biopsy_target::list::process(self.info.key.pid)
                && (&info.exe, &info.command_line) != (&before.exe, &before.command_line)
                && info.key == self.info.key
            {
                self.info = info;
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Refuses if the pid means another process by now.
    pub(crate) fn check_same(&self) -> Result<(), Failure> {
        biopsy_target::check_same(&self.info.key)
            .map_err(|error| Failure::from_error(FailureKind::Target, &error).with_hint(error.hint()))
    }
}

/// Nobody knows what descends from it.
fn not_listed(pid: Pid, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Target, format!("cannot list what descends from process {pid}: {error}"))
}

/// What a process is called in headings and names of files: its entry assembly or script when it was asked for by name, or
/// when its own name is that of the runtime, which says nothing.
fn display_name(selector: &Selector, info: &ProcessInfo) -> String {
    match &info.runtime.entry {
        Some(entry) if matches!(selector, Selector::Name(_)) || is_runtime_name(&info.name) => {
            let file = entry.rsplit('/').next().unwrap_or(entry);
            file.strip_suffix(".dll").unwrap_or(file).to_owned()
        }
        _ => info.name.clone(),
    }
}

fn is_runtime_name(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(stem, "dotnet" | "java" | "node" | "python" | "ruby" | "php" | "perl")
}

/// The processes of one dump, the target first and parents before children. Never empty.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The processes.
    pub processes: Vec<ProcessInfo>,
    /// For headings and names of files.
    pub name: String,
}

impl Subject {
    /// The target and, if the tree is wanted, all below it.
    pub(crate) fn of(target: Target, tree: bool) -> Result<Self, Failure> {
        Ok(Self { processes: target.tree(tree)?, name: target.name })
    }

    /// One process of the target's tree, named as the target.
    pub(crate) fn one(&self, info: ProcessInfo) -> Self {
        Self { processes: vec![info], name: self.name.clone() }
    }

    /// The process that was named.
    #[must_use]
    pub fn target(&self) -> &ProcessInfo {
        // Whoever makes one puts it there.
        &self.processes[0]
    }

    pub(crate) fn keys(&self) -> Vec<ProcessKey> {
        self.processes.iter().map(|process| process.key.clone()).collect()
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.processes.iter().map(|process| process.key.pid).collect()
    }

    /// The same target with the tree of this moment; `None`: it is gone.
    pub(crate) fn again(&self, tree: bool) -> Result<Option<Self>, Failure> {
        let target = || Target { info: self.target().clone(), name: self.name.clone() };
        biopsy_target::is_same(&self.target().key).then(|| Self::of(target(), tree)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::process::Runtime;

    use super::*;

    fn process(name: &str, entry: Option<&str>) -> ProcessInfo {
        ProcessInfo {
            key: ProcessKey { boot_id: biopsy_model::BootId(String::new()), pid: Pid(2), start_ticks: 0 },
            parent: Pid(1),
            name: name.to_owned(),
            exe: String::new(),
            exe_deleted: false,
            command_line: Vec::new(),
            uid: 0,
            runtime: Runtime {
                kind: biopsy_model::process::RuntimeKind::Unknown,
                version: None,
                entry: entry.map(str::to_owned),
            },
            ns_pid: None,
            cgroup: String::new(),
            container_id: None,
            unit: None,
        }
    }

    #[test]
    fn a_process_is_called_by_what_says_most() {
        let (by_pid, by_name) = (Selector::Pid(Pid(1)), Selector::Name("x".to_owned()));
        for (name, entry, selector, expected) in [
            ("dotnet", Some("/srv/Shop.Api.dll"), &by_pid, "Shop.Api"),
            ("python3.11", Some("jobs/run.py"), &by_pid, "run.py"),
            ("nginx", Some("/srv/x"), &by_pid, "nginx"),
            ("nginx", Some("/srv/x"), &by_name, "x"),
            ("dotnet", None, &by_name, "dotnet"),
        ] {
            assert_eq!(display_name(selector, &process(name, entry)), expected, "{name} {entry:?}");
        }
    }
}
