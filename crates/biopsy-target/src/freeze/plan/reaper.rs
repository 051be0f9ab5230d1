//! Who removes orphans of a process, and whether that one is known to.
//!
//! A copy that is an orphan needs somebody who takes note of its end: the first process of the pid namespace, or a
//! subreaper (prctl(2)) between that one and the process. Who asks to be a subreaper wants orphans. The first process of a
//! container was never asked: PostgreSQL's takes any unknown child that was killed for one of its own, and starts all of the
//! others anew; a Node.js program never looks, and the zombie stays. So there only programs count that are known to
//! remove orphans; with others the copy is a child of the process, and is removed by us.

use biopsy_model::Pid;

use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL, is_of_machine};
use crate::process::seen::Seen;
use crate::process::stat::Stat;
use crate::process::status::Status;

/// Programs that run as the first process of containers and remove orphans: by design, or because they wait for any child.
const INITS: &[&[u8]] = &[
    b"systemd",
    b"init",
    b"tini",
    b"tini-static",
    b"docker-init",
    b"dumb-init",
    b"catatonit",
    b"s6-svscan",
    b"runit",
    b"runit-init",
    b"openrc-init",
    b"busybox",
    b"pause",
    b"bash",
    b"dash",
    b"conmon",
    b"containerd-shim-runc-v2",
];
/// Most ancestors that are looked at.
const ANCESTORS: usize = 256;
const SIGCHLD: u32 = 17;

/// Whether a copy of this process may be an orphan.
pub(super) fn takes_orphans(root: &ProcRoot, seen: &Seen) -> bool {
    let Ok(namespace) = seen.dir.link("ns/pid") else { return false };
    // As the first process, it would get its own copy back as a child that sends SIGCHLD.
    if is_first(&seen.dir) {
        return false;
    }
    // What the kernel itself started as its first process is an init: without one, every daemon that was ever started would be a zombie.
    is_of_machine(&namespace) || first_of(root, seen, &namespace).is_some_and(|first| is_known(&first))
}

fn is_first(process: &ProcessDir) -> bool {
    let status = process.read("status", SMALL).unwrap_or_default();
    Status::parse(&status).namespace_pids.last() == Some(&1)
}

/// The first process of its namespace: an ancestor, or ours, if we are in it.
fn first_of(root: &ProcRoot, seen: &Seen, namespace: &[u8]) -> Option<ProcessDir> {
    let is_it =
        |process: &ProcessDir| is_first(process) && process.link("ns/pid").is_ok_and(|one| one == namespace);
    let parent = |process: &ProcessDir| {
        let stat = Stat::parse(&process.read("stat", SMALL).ok()?)?;
        root.process(Pid(stat.parent)).ok()
    };
    let ancestors = std::iter::successors(parent(&seen.dir), parent).take(ANCESTORS);
    ancestors.chain(root.process(Pid(1)).ok()).find(is_it)
}

fn is_known(first: &ProcessDir) -> bool {
    let status = first.read("status", SMALL).unwrap_or_default();
    // The kernel removes the children of who ignores their signal.
    if ignores(&status, SIGCHLD) {
        return true;
    }
    let program = first.link("exe").unwrap_or_default();
    let name = program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    INITS.contains(&name)
}

/// Whether a process ignores a signal, by the line `SigIgn` of its `status`.
fn ignores(status: &[u8], signal: u32) -> bool {
    let text = String::from_utf8_lossy(status);
    let ignored = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ignores_the_signal_of_children() {
        assert!(ignores(b"Name:\tx\nSigIgn:\t0000000000011000\n", SIGCHLD));
        assert!(!ignores(b"SigIgn:\t0000000000001000\nSigCgt:\t0000000000010000\n", SIGCHLD));
        assert!(!ignores(b"", SIGCHLD));
    }
}
