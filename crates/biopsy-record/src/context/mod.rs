//! Context: what `/proc` says about the processes of the tree and about the machine, masked.
//!
//! Everything is taken at the start, and what changes is taken again at the end (members ending in `-end`). The
//! environment comes first: values behind the names of secrets are learned there and masked everywhere else, so
//! that the context of the start should be taken before other recorders write text.
//!
//! | member of `target/PID/` | what |
//! | --- | --- |
//! | `command-line.txt` | arguments, one a line; executable, working folder, root |
//! | `environment.txt` | all names, values from the allow-list |
//! | `facts.txt` | namespaces, scheduling, out-of-memory score, security labels |
//! | `status.txt`, `limits.txt`, `smaps_rollup.txt`, `mountinfo.txt`, `cgroup.txt` | as in `/proc` |
//! | `cgroup-settings.txt` | limits and counters of its control groups and their parents |
//! | `smaps.txt` | the same with what is in memory; only beside a dump, from the frozen copy |
//! | `maps.txt`, `maps-summary.txt` | mappings; memory by file |
//! | `jvm.txt` | what a Java virtual machine counts of its heap and its collections |
//! | `descriptors.txt` | open files by kind, and each |
//! | `sockets.txt` | connections by state and peer, and each |
//! | `threads.txt` | threads by name and state, and each with what it waits in |
//!
//! `target/host.txt` describes the machine.

mod cgroup;
mod clock;
mod config;
mod descriptors;
mod environment;
mod facts;
mod host;
mod jvm;
mod maps;
mod members;
mod people;
mod smaps;
mod sockets;
#[cfg(test)]
mod tests;
mod threads;

use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_recording::{RecordingFolder, WriteError};

use crate::masking::Masking;
use members::Members;

pub use clock::clock_pair;
pub use config::{Config, Moment};
pub use environment::preview;
pub use host::host_info;
pub use members::Summary;
pub use people::{machine, people};
pub use smaps::write_smaps;

/// Reads any bytes as the counters that a Java virtual machine shares: for fuzzing. Never panics.
pub fn fuzz_hsperf(bytes: &[u8]) {
    jvm::fuzz(bytes);
}

/// Takes the context of these processes, the target first.
///
/// # Errors
/// When the recording cannot be written (disk full): what was written until then is whole. Everything else is a
/// warning.
pub fn collect(
    config: &Config,
    moment: Moment,
    processes: &[Pid],
    folder: &RecordingFolder,
    masking: &Masking,
) -> Result<Summary, WriteError> {
    let mut summary = Summary::default();
    if processes.len() > config.max_processes {
        let message = format!(
            "context of {} processes of {} is not taken",
            processes.len() - config.max_processes,
            processes.len()
        );
        summary.warnings.push(Warning::new("context.many-processes", message));
    }
    let taken = processes.get(..config.max_processes).unwrap_or(processes);
    let mut open = Vec::new();
    for pid in taken {
        match config.root.process(*pid) {
            Ok(dir) => open.push((*pid, dir)),
            Err(_) if moment == Moment::End => {}
            Err(error) => {
                let message = format!("context of process {pid} is not taken: {error}");
                summary.warnings.push(Warning::new("context.gone", message));
            }
        }
    }
    if moment == Moment::Start {
        // Of all processes first: what is learned here is masked in everything that follows.
        for (pid, dir) in &open {
            let mut members = Members::new(*pid, dir, config, moment, folder, masking, &mut summary);
            environment::write(&mut members)?;
            members.finish();
        }
        host::write(config, folder, masking, &mut summary)?;
    }
    for (pid, dir) in &open {
        let mut members = Members::new(*pid, dir, config, moment, folder, masking, &mut summary);
        members.copy("status", "status.txt")?;
        members.copy("limits", "limits.txt")?;
        members.copy("cgroup", "cgroup.txt")?;
        facts::write_memory(&mut members)?;
        cgroup::write(&mut members)?;
        threads::write(&mut members)?;
        let sockets = descriptors::write(&mut members)?;
        sockets::write(&mut members, &sockets)?;
        let maps = maps::write(&mut members)?;
        jvm::write(&mut members, &maps)?;
        if moment == Moment::Start {
            facts::write(&mut members)?;
            members.copy("mountinfo", "mountinfo.txt")?;
        }
        members.finish();
    }
    Ok(summary)
}
