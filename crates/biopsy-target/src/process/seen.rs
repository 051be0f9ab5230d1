//! One process, as it is seen when one is looked for.

use std::io;

use biopsy_model::Pid;

use super::cgroup::Cgroup;
use super::command;
use super::elf;
use super::proc_root::{ProcRoot, ProcessDir, SMALL, found};
use super::stat::Stat;
use super::status::Status;

const DELETED: &str = " (deleted)";

/// What is read of every process when looking for one: cheap, without its mappings.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) dir: ProcessDir,
    pub(crate) stat: Stat,
    pub(crate) status: Status,
    pub(crate) arguments: Vec<String>,
    /// Path of the executable, without the kernel's ` (deleted)`.
    pub(crate) exe: Option<String>,
    pub(crate) exe_deleted: bool,
    pub(crate) cgroup: Cgroup,
}

impl Seen {
    /// As [`Self::look`]; `None` also when looking was not possible.
    pub(crate) fn read(root: &ProcRoot, pid: Pid) -> Option<Self> {
        Self::look(root, pid).ok().flatten()
    }

    /// `None`: there is no such process. What may not be read of it is not known.
    ///
    /// # Errors
    /// Files or memory are used up, and nothing is known of the process.
    pub(crate) fn look(root: &ProcRoot, pid: Pid) -> io::Result<Option<Self>> {
        let Some(dir) = found(root.process(pid))? else { return Ok(None) };
        let stat = found(dir.read("stat", SMALL))?.and_then(|line| Stat::parse(&line));
        let Some(stat) = stat else { return Ok(None) };
        let status = found(dir.read("status", SMALL))?.map(|text| Status::parse(&text)).unwrap_or_default();
        let arguments = command::arguments(&found(dir.read("cmdline", command::LIMIT))?.unwrap_or_default());
        let link = found(dir.link("exe"))?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // A file may really be called `x (deleted)`: it has links, a deleted one has none.
        let exe_deleted =
            link.as_deref().is_some_and(|path| path.ends_with(DELETED)) && dir.link_count("exe") == Some(0);
        let exe = link.map(|path| match path.strip_suffix(DELETED) {
            Some(path) if exe_deleted => path.to_owned(),
            _ => path,
        });
        let cgroup = found(dir.read("cgroup", SMALL))?.map(|text| Cgroup::parse(&text)).unwrap_or_default();
        Ok(Some(Self { pid, dir, stat, status, arguments, exe, exe_deleted, cgroup }))
    }

    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.stat.comm).into_owned()
    }

    pub(crate) fn exe_name(&self) -> Option<&str> {
        self.exe.as_deref().map(command::base_name)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.status.uids.map_or(u32::MAX, |(real, _)| real)
    }

    /// The command line for people.
    pub(crate) fn short_command(&self) -> String {
        let exe = self.exe.as_deref().unwrap_or_default();
        let kind = command::kind_by_name(command::base_name(exe));
        let entry = kind.and_then(|kind| command::entry(kind, &self.arguments));
        let (name, rest) = command::short_command(&self.name(), exe, entry.as_deref(), &self.arguments);
        if rest.is_empty() { name } else { format!("{name} {rest}") }
    }

    /// Whether its program is one of 32 bits.
    pub(crate) fn is_32_bit(&self) -> bool {
        self.dir.file("exe").is_ok_and(|exe| elf::is_32_bit(&exe))
    }

    /// Neither a part of the kernel, nor one that has ended.
    pub(crate) fn is_living(&self) -> bool {
        !self.stat.is_kernel_thread && !self.stat.is_zombie()
    }
}
