//! Which processes are dumped.

use biopsy_model::process::ProcessInfo;
use biopsy_model::{Pid, ProcessKey};
use biopsy_target::Selector;

use crate::exit_codes::Code;
use crate::failure::Failure;

use super::args::DumpArgs;

/// The processes of one dump, the target first and parents before children.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) processes: Vec<ProcessInfo>,
    /// For headings and file names.
    pub(crate) name: String,
}

impl Subject {
    /// The process that was named.
    pub(crate) fn target(&self) -> &ProcessInfo {
        // `find` and `of` put it there.
        &self.processes[0]
    }

    pub(crate) fn keys(&self) -> Vec<ProcessKey> {
        self.processes.iter().map(|process| process.key.clone()).collect()
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.processes.iter().map(|process| process.key.pid).collect()
    }

    /// This process and, if the tree is wanted, all below it.
    pub(crate) fn of(info: ProcessInfo, name: String, tree: bool) -> Result<Self, Failure> {
        let pid = info.key.pid;
        let mut processes = match tree {
            true => biopsy_target::tree(pid).map_err(|error| not_listed(pid, &error))?,
            false => Vec::new(),
        };
        // Biopsy itself may have been started by its target's shell; it does not dump itself.
        processes
            .retain(|process| process.key.pid.0 != std::process::id() && process.key.pid != info.key.pid);
        processes.insert(0, info);
        Ok(Self { processes, name })
    }

    /// The same target with the tree of this moment; `None`: it is gone.
    pub(crate) fn again(&self, tree: bool) -> Result<Option<Self>, Failure> {
        biopsy_target::is_same(&self.target().key)
            .then(|| Self::of(self.target().clone(), self.name.clone(), tree))
            .transpose()
    }
}

/// Nobody knows what descends from it.
pub(crate) fn not_listed(pid: Pid, error: &std::io::Error) -> Failure {
    Failure::new(Code::Target, format!("cannot list what descends from process {pid}: {error}"))
}

/// Finds what was named.
pub(crate) fn find_target(text: &str) -> Result<(ProcessInfo, String), Failure> {
    let selector = Selector::parse(text)
        .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(error.hint()))?;
    let target = biopsy_target::find(&selector)
        .map_err(|error| Failure::from_error(Code::Target, &error).with_hint(error.hint()))?;
    let name = crate::session::subject::display_name(&selector, &target.info);
    Ok((target.info, name))
}

/// The subject of a dump that is taken now.
pub(crate) fn find(args: &DumpArgs) -> Result<Subject, Failure> {
    let (info, name) = find_target(&args.target)?;
    Subject::of(info, name, args.tree)
}
