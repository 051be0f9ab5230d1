//! Taking one snapshot, by the way that was asked for or that is to be had.

use std::time::Duration;

use biopsy_dotnet::graph::Graph;
use biopsy_model::footprint::Footprint;
use biopsy_model::heap::HeapFacts;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_record::snapshot::{self, AskError, AskOptions, Options, SnapshotError};
use biopsy_target::freeze::{FreezeError, FreezeOptions};

use super::plan::{From, How};
use crate::dump::more_patience;
use crate::failure::{Failure, FailureKind};

/// The heap, where the process has a managed one, and where all its memory went, where that was read.
pub(crate) type Taken = (Option<(Graph, HeapFacts)>, Option<Footprint>);

/// Takes the snapshot by the way that was asked for.
pub(crate) fn take(how: &How, info: &ProcessInfo) -> Result<Taken, Failure> {
    if how.from == From::Runtime {
        let heap = ask(how, info).map_err(|error| ask_failure(&error, how))?;
        return Ok((Some(heap), None));
    }
    match from_memory(how, info) {
        Ok(taken) => Ok((Some((taken.graph, taken.facts)), Some(taken.footprint))),
        // Where its memory went can be told of any process.
        Err(SnapshotError::NoRuntime { .. })
            if how.from == From::Auto && info.runtime.kind != RuntimeKind::DotNet =>
        {
            let options = FreezeOptions { max_pause: how.max_pause, ..FreezeOptions::default() };
            // Runtimes with heaps of their own hold native blocks by pointers that are not always words.
            let wants_blocks = matches!(info.runtime.kind, RuntimeKind::Native | RuntimeKind::Python);
            let taken = snapshot::take_footprint(&info.key, &options, wants_blocks);
            let (heap, footprint) = taken.map_err(|error| failure(&error))?;
            Ok((heap, Some(footprint)))
        }
        Err(error) if how.from == From::Auto && error.may_ask_the_runtime() => {
            let (graph, mut facts) = ask(how, info).map_err(|second| {
                let asked = ask_failure(&second, how);
                Failure::new(asked.kind, format!("{}; and: {asked}", failure(&error)))
                    .passing(error.is_passing())
            })?;
            facts.warnings.insert(0, format!("not from memory: {}", failure(&error)));
            Ok((Some((graph, facts)), None))
        }
        Err(error) => Err(failure(&error)),
    }
}

fn from_memory(how: &How, info: &ProcessInfo) -> Result<snapshot::Taken, SnapshotError> {
    let options = Options {
        freeze: FreezeOptions { max_pause: how.max_pause, ..FreezeOptions::default() },
        ..Options::default()
    };
    snapshot::take(&info.key, &options)
}

/// Asks the runtime.
fn ask(how: &How, info: &ProcessInfo) -> Result<(Graph, HeapFacts), AskError> {
    /// Longest time for the whole answer.
    const LONGEST: Duration = Duration::from_secs(300);
    let options = AskOptions { max_pause: how.max_pause, longest: LONGEST };
    snapshot::ask(info.key.pid, snapshot::own_bytes(info.key.pid), &options)
}

fn ask_failure(error: &AskError, how: &How) -> Failure {
    let hint = match error {
        AskError::TooLong { predicted, .. } => {
            let seconds = predicted.as_secs_f64().mul_add(1.2, 0.1).ceil();
            Some(format!("`--max-pause {seconds}s` allows it; now it is {:?}", how.max_pause))
        }
        AskError::Ipc(error) => error.hint(),
        _ => None,
    };
    Failure::from_error(FailureKind::Target, error).with_hint(hint)
}

fn failure(error: &SnapshotError) -> Failure {
    let (kind, hint) = match error {
        SnapshotError::Freeze(FreezeError::NotPermitted { .. }) => (
            FailureKind::Permission,
            Some(
                "`biopsy doctor` says what this account may do, and the command that would allow more"
                    .to_owned(),
            ),
        ),
        SnapshotError::AlwaysCollecting { .. } => {
            (FailureKind::Target, Some("try again: between two collections a moment is enough".to_owned()))
        }
        SnapshotError::Freeze(freeze) => (FailureKind::Target, more_patience(freeze)),
        _ => (FailureKind::Target, None),
    };
    Failure::from_error(kind, error).with_hint(hint).passing(error.is_passing())
}
