//! What .NET runtimes say, beside the trace.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use biopsy_dotnet_ipc::ReversePort;
use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_record::dotnet::DotNetRecorder;

use crate::job::Job;
use crate::recording::{Draft, warning};
use crate::tree::tree_of;

use super::plan::CapturePlan;

/// How often all processes are gone through for new ones below the target.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// Starts listening; `None`: not wanted. That it cannot be started is a warning.
pub(super) fn start(
    plan: &CapturePlan,
    pid: Pid,
    port: Option<ReversePort>,
    draft: &Draft,
) -> Result<Option<DotNetRecorder>, Warning> {
    let Some(options) = plan.dotnet.clone() else { return Ok(None) };
    let (folder, masking) = (Arc::clone(&draft.folder), draft.masking.clone());
    DotNetRecorder::start(tree_of(pid, plan.children, WALK_EVERY), options, port, folder, masking)
        .map(Some)
        .map_err(|error| warning("dotnet.not-possible", format!("runtimes are not listened to: {error}")))
}

/// Ends it, and writes what was gathered, behind what was said before. Returns what could not be done.
pub(super) fn stop(recorder: DotNetRecorder, before: Vec<RuntimeTrace>) -> Vec<Warning> {
    recorder.stop_behind(before).warnings.into_iter().map(|text| warning("dotnet.events", text)).collect()
}

/// Lets runtimes of a program that is about to be started connect here as soon as they start.
pub(super) fn prepare(command: &mut Command, job: &Job) -> Option<ReversePort> {
    const VARIABLE: &str = "DOTNET_DiagnosticPorts";
    // Somebody else's port stays the only one: a runtime may wait for it.
    if std::env::var_os(VARIABLE).is_some() {
        return None;
    }
    let port = match ReversePort::listen(&std::env::temp_dir(), |folder| job.removing_at_the_end(folder)) {
        Ok(port) => port,
        Err(error) => {
            tracing::warn!(%error, "runtimes are found when they run");
            return None;
        }
    };
    command.env(VARIABLE, port.variable(false));
    Some(port)
}
