//! Processes as rules see them.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use biopsy_capture::{Failure, FailureKind};
use biopsy_model::{BootId, Pid, ProcessKey};
use biopsy_target::glance::Program;
use biopsy_target::{Glance, ProcRoot, Usage, user_name};
use biopsy_watch::Observed;

/// Looks at processes.
#[derive(Clone, Debug)]
pub(crate) struct Eyes {
    root: ProcRoot,
    boot: BootId,
    users: HashMap<u32, String>,
    with_parents: bool,
}

impl Eyes {
    /// `with_parents`: it matters who started a process.
    pub(crate) fn open(with_parents: bool) -> Self {
        let root = ProcRoot::live();
        let boot = root.boot_id();
        Self { root, boot, users: HashMap::new(), with_parents }
    }

    /// From now on it matters, or does not.
    pub(crate) fn set_parents(&mut self, with_parents: bool) {
        self.with_parents = with_parents;
    }

    pub(crate) fn boot(&self) -> &BootId {
        &self.boot
    }

    /// All pids.
    ///
    /// # Errors
    /// They cannot be listed, or not all of them.
    pub(crate) fn pids(&self) -> io::Result<Vec<Pid>> {
        self.root.pids()
    }

    /// All processes.
    ///
    /// # Errors
    /// As of [`Self::pids`] and [`Self::look`].
    pub(crate) fn all(&mut self) -> io::Result<Vec<Observed>> {
        self.pids()?.into_iter().filter_map(|pid| self.look(pid).transpose()).collect()
    }

    /// A process; `None`: it is gone, or a part of the kernel.
    ///
    /// # Errors
    /// Files or memory of this process or of the machine are used up, and nothing is known of that one.
    pub(crate) fn look(&mut self, pid: Pid) -> io::Result<Option<Observed>> {
        let glance = Glance::take(&self.root, &self.boot, pid)?;
        glance.map(|glance| self.observe(glance, false)).transpose()
    }

    /// What was seen of a process. `is_held`: it is about to become that.
    ///
    /// # Errors
    /// As of [`Self::look`], of its parent where that matters.
    pub(crate) fn observe(&mut self, glance: Glance, is_held: bool) -> io::Result<Observed> {
        let parent = match self.with_parents {
            true => Glance::take(&self.root, &self.boot, glance.parent)?,
            false => None,
        };
        let parent_names = parent.map(|parent| {
            [Some(parent.name), Some(parent.exe), parent.entry].into_iter().flatten().collect()
        });
        let user = self.users.entry(glance.uid).or_insert_with(|| user_name(glance.uid)).clone();
        let mut observed = Observed {
            parent: glance.parent,
            name: glance.name,
            exe: glance.exe,
            entry: glance.entry,
            arguments: glance.arguments,
            uid: glance.uid,
            user,
            unit: glance.unit,
            container: glance.container,
            parent_names: parent_names.unwrap_or_default(),
            age: Duration::ZERO,
            cpu: Duration::ZERO,
            resident_bytes: 0,
            threads: 0,
            key: glance.key,
            is_held,
        };
        take(&mut observed, &glance.usage);
        Ok(observed)
    }

    /// What a process uses now; `false`: it is gone.
    ///
    /// # Errors
    /// As of [`Self::look`].
    pub(crate) fn look_again(&self, observed: &mut Observed) -> io::Result<bool> {
        let usage = Glance::usage_now(&self.root, &observed.key)?;
        if let Some(usage) = &usage {
            take(observed, usage);
        }
        Ok(usage.is_some())
    }
}

/// A process of which nothing is known but what it is about to execute.
pub(crate) fn of_program(program: &Program) -> Observed {
    Observed {
        key: ProcessKey { boot_id: BootId::default(), pid: Pid(0), start_ticks: 0 },
        is_held: true,
        parent: Pid(0),
        name: program.name.clone(),
        exe: program.exe.clone(),
        entry: program.entry.clone(),
        arguments: program.arguments.clone(),
        uid: 0,
        user: String::new(),
        unit: None,
        container: None,
        parent_names: Vec::new(),
        age: Duration::ZERO,
        cpu: Duration::ZERO,
        resident_bytes: 0,
        threads: 0,
    }
}

/// Whether a process may be watched by this user: his own, or any as root; never the first one, and never biopsy.
pub(crate) fn may_be_watched(process: &Observed) -> bool {
    let me = rustix::process::geteuid();
    let is_own_program =
        std::env::current_exe().is_ok_and(|program| program.to_string_lossy() == process.exe);
    (me.is_root() || process.uid == me.as_raw()) && process.key.pid != Pid(1) && !is_own_program
}

fn take(observed: &mut Observed, usage: &Usage) {
    let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    observed.age = time(usage.up_seconds);
    observed.cpu = time(usage.cpu_seconds);
    observed.resident_bytes = usage.resident_bytes;
    observed.threads = usage.threads;
}

/// Processes cannot be looked at.
pub(crate) fn unseen(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Target, format!("cannot look at the processes of this machine: {error}"))
}
