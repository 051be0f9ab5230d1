//! Why a process has no diagnostics socket.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crate::error::NoSocket;
use crate::folder::{open_folder, stale};
use crate::target::{TargetFacts, read_some};

/// Bytes of an address, without its closing zero.
const SUN_PATH: usize = 107;
/// A runtime has its socket much sooner after the start of its process.
const STARTING: Duration = Duration::from_secs(10);
/// Exported by what is compiled ahead of time.
const AOT_MARK: &[u8] = b"DotNetRuntimeDebugHeader";
/// Bytes of an executable that are searched for [`AOT_MARK`]; its symbols are in front.
const SEARCH: u64 = 16 << 20;

/// The reason, the most certain first.
pub(crate) fn reason(facts: &TargetFacts, folder: &Path, name: &str) -> NoSocket {
    let environment = facts.environment();
    if let Ok(environment) = &environment {
        for setting in ["EnableDiagnostics", "EnableDiagnostics_IPC"] {
            if let Some((variable, b"0")) = environment.setting(setting) {
                return NoSocket::SwitchedOff { variable };
            }
        }
    }
    let Some(has_library) = facts.maps(b"libcoreclr.so") else { return NoSocket::NotPermitted };
    let threads = facts.threads();
    let runs = threads.iter().any(|(_, name)| name.starts_with(b".NET "));
    if !has_library && !runs {
        return if is_young(facts) && is_host(facts) { NoSocket::Starting } else { NoSocket::NoRuntime };
    }
    if !has_library && is_ahead_of_time(facts) {
        return NoSocket::NativeAot;
    }
    let length = folder.as_os_str().len() + 1 + name.len();
    if length > SUN_PATH {
        return NoSocket::FolderTooLong { length: folder.as_os_str().len() };
    }
    if open_folder(facts, folder).is_none() {
        return NoSocket::NoFolder { folder: folder.display().to_string() };
    }
    if is_young(facts) {
        return NoSocket::Starting;
    }
    if !threads.iter().any(|(_, name)| name.starts_with(b".NET Finalizer")) && threads.len() <= 2 {
        return NoSocket::Exiting;
    }
    match stale(facts, folder, name) {
        Some(found) => NoSocket::Stale { found },
        None => NoSocket::Missing { folder: folder.display().to_string() },
    }
}

/// Whether it started within the time that a runtime may need to get ready.
fn is_young(facts: &TargetFacts) -> bool {
    let uptime = read_some(Path::new("/proc/uptime")).unwrap_or_default();
    let uptime = String::from_utf8_lossy(&uptime);
    let Some(uptime) = uptime.split(' ').next().and_then(|text| text.parse::<f64>().ok()) else {
        return false;
    };
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let started = Duration::from_secs(facts.start_ticks / ticks);
    Duration::try_from_secs_f64(uptime).is_ok_and(|uptime| uptime.saturating_sub(started) < STARTING)
}

/// Whether the program is one that loads a runtime: the `dotnet` command, or an application's own host.
fn is_host(facts: &TargetFacts) -> bool {
    let Ok(exe) = std::fs::read_link(facts.path("exe")) else { return false };
    exe.file_name().is_some_and(|name| name == "dotnet")
        || facts.maps(b"libhostfxr.so") == Some(true)
        || facts.maps(b"libhostpolicy.so") == Some(true)
}

fn is_ahead_of_time(facts: &TargetFacts) -> bool {
    let Ok(exe) = biopsy_files::open(&facts.path("exe"), biopsy_files::Links::Refuse) else { return false };
    let mut bytes = Vec::new();
    let read = exe.file.take(SEARCH).read_to_end(&mut bytes);
    read.is_ok() && bytes.windows(AOT_MARK.len()).any(|window| window == AOT_MARK)
}
