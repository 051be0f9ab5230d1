//! What .NET runtimes say, beside the trace.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet_ipc::ReversePort;
use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_record::dotnet::{AppLogLevel, Budget, DotNetOptions, DotNetRecorder, Tree};
use biopsy_target::ProcRoot;

use crate::cli::CaptureArgs;
use crate::interrupt;

use super::record::{Session, warning};

/// How often all processes are gone through for new ones below the target.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// What is recorded, as it was typed.
fn options(args: &CaptureArgs) -> DotNetOptions {
    DotNetOptions {
        log_level: args.log_level,
        log_categories: args.log_category.clone(),
        requests: args.requests,
        allocations: args.allocations,
        counters: args.counters.clone(),
        budget: budget(args),
    }
}

/// Whoever asked for requests or messages in detail gets them up to a high rate; unasked, they may cost next to nothing.
fn budget(args: &CaptureArgs) -> Budget {
    let asked = args.requests || args.allocations || args.log_level != AppLogLevel::None;
    let all = Budget::default();
    if asked { all } else { Budget { events_per_second: 500, ..all } }
}

/// Starts listening; `None`: not wanted. That it cannot be started is a warning.
pub(super) fn start(
    args: &CaptureArgs,
    pid: Pid,
    port: Option<ReversePort>,
    session: &Session,
) -> Result<Option<DotNetRecorder>, Warning> {
    if args.no_runtime_events {
        return Ok(None);
    }
    let (folder, masking) = (Arc::clone(&session.folder), session.masking.clone());
    DotNetRecorder::start(tree(pid, args.no_children), options(args), port, folder, masking)
        .map(Some)
        .map_err(|error| warning("dotnet.not-possible", format!("runtimes are not listened to: {error}")))
}

/// The target and what is below it; biopsy itself may be.
fn tree(pid: Pid, alone: bool) -> Tree {
    let known: Mutex<(Option<Instant>, Vec<Pid>)> = Mutex::new((None, vec![pid]));
    Arc::new(move || {
        if alone {
            return vec![pid];
        }
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.is_none_or(|at| at.elapsed() >= WALK_EVERY) {
            let own = Pid(std::process::id());
            // What fails is done again as soon as it is asked for again; until then it is those that were known.
            if let Ok(mut tree) = biopsy_target::list::tree_pids(&ProcRoot::live(), pid) {
                tree.retain(|process| *process != own);
                *known = (Some(Instant::now()), tree);
            }
        }
        known.1.clone()
    })
}

/// Ends it, and writes what was gathered. Returns what could not be done.
pub(super) fn stop(recorder: DotNetRecorder) -> Vec<Warning> {
    recorder.stop().warnings.into_iter().map(|text| warning("dotnet.events", text)).collect()
}

/// Lets runtimes of a program that is about to be started connect here as soon as they start.
pub(super) fn prepare(command: &mut Command) -> Option<ReversePort> {
    const VARIABLE: &str = "DOTNET_DiagnosticPorts";
    // Somebody else's port stays the only one: a runtime may wait for it.
    if std::env::var_os(VARIABLE).is_some() {
        return None;
    }
    let port = match ReversePort::listen(&std::env::temp_dir(), interrupt::removing_at_the_end) {
        Ok(port) => port,
        Err(error) => {
            tracing::warn!(%error, "runtimes are found when they run");
            return None;
        }
    };
    command.env(VARIABLE, port.variable(false));
    Some(port)
}
