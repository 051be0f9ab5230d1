//! What runs on this machine, what it uses, and what may be captured of it.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use biopsy_dotnet_ipc::{DiagnosticPort, IpcError};
use biopsy_model::Pid;
use biopsy_model::process::RuntimeKind;
use biopsy_redact::{Options, Redactor};
use biopsy_target::{Allowed, Check, CpuReading, Facts, ProcRoot, Status, Surveyed, survey};

/// Time between the two readings of CPU time.
pub const CPU_INTERVAL: Duration = Duration::from_millis(200);

/// A process with its CPU use over the interval.
#[derive(Debug)]
pub struct Row {
    /// The process.
    pub process: Surveyed,
    /// 1.0 is one processor; `None`: it started within the interval.
    pub cores: Option<f64>,
    /// Whether its runtime can be asked for its events; `None`: it is none of .NET.
    pub events: Option<Allowed>,
}

/// The processes, but for those of the kernel unless these are wanted. `filter`: those that match, and all below them. Their arguments
/// are masked as in a recording: what is printed here is pasted into tickets.
///
/// # Errors
/// `/proc` is not there.
pub fn processes(kernel: bool, filter: Option<&str>) -> io::Result<Vec<Row>> {
    let root = ProcRoot::live();
    let facts = Facts::read(&root);
    let before = CpuReading::take(&root);
    let begun = Instant::now();
    let redactor = Redactor::new(Options::default()).map_err(io::Error::other)?;
    std::thread::sleep(CPU_INTERVAL.saturating_sub(begun.elapsed()));
    let after = CpuReading::take(&root);
    let mut processes = survey(&root, &facts)?;
    processes.retain(|process| kernel || !process.is_kernel_thread);
    if let Some(filter) = filter {
        keep_matching(&mut processes, filter);
    }
    for process in &mut processes {
        let arguments = &mut process.info.command_line;
        *arguments = redactor.command_line(arguments).args;
    }
    let cores = |process: &Surveyed| after.cores_since(&before, &process.info.key);
    let row = |process: Surveyed| Row { cores: cores(&process), events: events(&process), process };
    Ok(processes.into_iter().map(row).collect())
}

/// Whether the .NET runtimes that run here can be asked for their events; `None`: there are none.
#[must_use]
pub fn runtime_events() -> Option<Check> {
    let dotnet =
        biopsy_target::list().ok()?.into_iter().filter(|one| one.runtime.kind == RuntimeKind::DotNet);
    let found: Vec<Result<DiagnosticPort, IpcError>> = dotnet
        .map(|one| DiagnosticPort::find(one.key.pid))
        .filter(|found| !matches!(found, Err(IpcError::Ended { .. })))
        .collect();
    let all = found.len();
    let silent: Vec<IpcError> = found.into_iter().filter_map(Result::err).collect();
    let (status, detail, hint) = match silent.first() {
        _ if all == 0 => return None,
        None => (Status::Ok, format!("{all} .NET processes, each with a diagnostics port"), None),
        Some(first) => {
            let status = if silent.len() == all { Status::Missing } else { Status::Limited };
            let detail = format!("{} of {all} .NET processes cannot be asked: {first}", silent.len());
            (status, detail, first.hint())
        }
    };
    Some(Check { name: "runtime-events", status, detail, hint })
}

/// Whether the runtime of a .NET process has a port to ask at. Nothing is sent.
fn events(process: &Surveyed) -> Option<Allowed> {
    let info = &process.info;
    if info.runtime.kind != RuntimeKind::DotNet || process.is_zombie {
        return None;
    }
    match DiagnosticPort::find(info.key.pid) {
        Ok(_) => Some(Allowed::Full),
        // It has ended since the list was made.
        Err(IpcError::Ended { .. }) => None,
        Err(IpcError::NoSocket { why, .. }) => {
            let hint = why.hint();
            Some(Allowed::No { why: why.to_string(), hint })
        }
        Err(error) => Some(Allowed::No { why: error.to_string(), hint: error.hint() }),
    }
}

/// Keeps what matches, and everything that descends from it.
fn keep_matching(processes: &mut Vec<Surveyed>, filter: &str) {
    let own = Pid(std::process::id());
    let mut kept: BTreeSet<Pid> = processes
        .iter()
        .filter(|p| p.info.key.pid != own && matches(p, filter))
        .map(|p| p.info.key.pid)
        .collect();
    loop {
        let more: Vec<Pid> = processes
            .iter()
            .filter(|p| kept.contains(&p.info.parent) && !kept.contains(&p.info.key.pid))
            .map(|p| p.info.key.pid)
            .collect();
        if more.is_empty() {
            break;
        }
        kept.extend(more);
    }
    processes.retain(|process| kept.contains(&process.info.key.pid));
}

fn matches(process: &Surveyed, filter: &str) -> bool {
    let info = &process.info;
    if filter == info.key.pid.to_string() {
        return true;
    }
    let filter = filter.to_lowercase();
    let more = [&info.runtime.entry, &info.unit, &info.container_id].into_iter().flatten();
    let mut texts = [&info.name, &info.exe].into_iter().chain(&info.command_line).chain(more);
    texts.any(|text| text.to_lowercase().contains(&filter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::process::{ProcessInfo, Runtime};
    use biopsy_model::{BootId, ProcessKey};
    use biopsy_target::{Access, Usage};

    fn process(pid: u32, parent: u32, command: &str) -> Surveyed {
        let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let info = ProcessInfo {
            key: ProcessKey { boot_id: BootId(String::new()), pid: Pid(pid), start_ticks: 5 },
            parent: Pid(parent),
            name: arguments[0].clone(),
            exe: String::new(),
            exe_deleted: false,
            command_line: arguments,
            uid: 0,
            runtime: Runtime { kind: RuntimeKind::Native, version: None, entry: Some("Shop.dll".to_owned()) },
            ns_pid: None,
            cgroup: "/".to_owned(),
            container_id: None,
            unit: (pid == 30).then(|| "other.service".to_owned()),
        };
        let usage = Usage { resident_bytes: 0, threads: 1, up_seconds: 1.0, cpu_seconds: 1.0 };
        let full = || Allowed::Full;
        let access = Access { trace: full(), metrics: full(), memory: full() };
        Surveyed { info, is_kernel_thread: false, is_zombie: false, user: String::new(), usage, access }
    }

    #[test]
    fn filters_keep_descendants() {
        // Children may be listed before their parents.
        let all =
            [(22, 21, "grandchild"), (1, 0, "init"), (21, 20, "child"), (20, 1, "Server --x"), (30, 1, "a")];
        for (filter, wanted) in [
            ("server", &[22, 21, 20][..]),
            ("20", &[22, 21, 20]),
            ("--x", &[22, 21, 20]),
            ("other.serv", &[30]),
            ("shop", &[22, 1, 21, 20, 30]),
            ("2", &[]),
            ("nothing", &[]),
        ] {
            let mut processes: Vec<Surveyed> =
                all.iter().map(|&(pid, of, name)| process(pid, of, name)).collect();
            keep_matching(&mut processes, filter);
            let kept: Vec<u32> = processes.iter().map(|process| process.info.key.pid.0).collect();
            assert_eq!(kept, wanted, "{filter}");
        }
        let mut circle = vec![process(2, 3, "a"), process(3, 2, "b")];
        keep_matching(&mut circle, "a");
        assert_eq!(circle.len(), 2);
    }
}
