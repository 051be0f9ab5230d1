//! Switches off what is on: ends the processes of biopsy that the journal names, the watcher first.

use std::time::Duration;

use biopsy_capture::Failure;
use biopsy_target::ProcRoot;
use biopsy_watch::lease::{Journal, Lease, LeaseState};
use biopsy_watch::quantity::duration_text;
use rustix::process::Signal;

use crate::journal::{self, JournalFolder};

/// How long one has to finish what it has.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one that was killed takes to be gone.
const KILLED: Duration = Duration::from_secs(10);

/// What is on, by the journal: leases whose process is there.
pub fn on(folder: &JournalFolder) -> Vec<(Lease, LeaseState)> {
    let boot = ProcRoot::live().boot_id();
    let now = journal::now();
    let state = |lease: Lease| {
        let state = lease.state(&boot, now, biopsy_target::is_same);
        (lease, state)
    };
    folder.read().0.into_iter().map(state).filter(|(_, state)| *state != LeaseState::Gone).collect()
}

/// Ends what is on, and says what that was. `force`: what does not end in time is killed.
pub fn clean_up(folder: &JournalFolder, force: bool) -> Result<Vec<String>, Failure> {
    let journal = folder.read();
    let own = std::process::id();
    let boot = ProcRoot::live().boot_id();
    let mut said = Vec::new();
    let mut still_on = Vec::new();
    for lease in journal.0 {
        let is_on = lease.state(&boot, journal::now(), biopsy_target::is_same) != LeaseState::Gone;
        let name = text(&lease);
        let Some(holder) = lease.holder.as_ref().filter(|holder| is_on && holder.pid.0 != own) else {
            if let Some(left) =
                lease.output.as_ref().filter(|_| lease.target.is_some()).filter(|path| !path.exists())
                && let Some(draft) = draft(left)
            {
                said.push(format!("{name}: ended before; what there is of it is in {}", draft.display()));
            }
            continue;
        };
        // A command was asked by the end of its watcher, and finishes what it has: asked again it would hurry, and make no report.
        let mut is_gone = lease.target.is_some() && journal::gone_within(holder, PATIENCE);
        if !is_gone {
            // Where it cannot be asked it is said below that it is still there.
            let _ = journal::signal(holder, Signal::TERM);
            is_gone = journal::gone_within(holder, PATIENCE);
        }
        if !is_gone && force {
            let _ = journal::signal(holder, Signal::KILL);
            is_gone = journal::gone_within(holder, KILLED);
        }
        said.push(format!(
            "{name}: {}",
            if is_gone { "ended" } else { "was asked to end, and is still there" }
        ));
        if !is_gone {
            still_on.push(lease);
        }
    }
    if folder.path().is_dir() {
        folder.write(&Journal(still_on))?;
    }
    Ok(said)
}

/// What of this user is on, in a sentence; `None`: nothing.
pub fn summary() -> Option<String> {
    let on = on(&JournalFolder::usual().ok()?);
    let now = journal::now();
    let one = |(lease, state): &(Lease, LeaseState)| {
        let end = match state {
            LeaseState::Over => "should have ended".to_owned(),
            LeaseState::On | LeaseState::Gone => {
                format!(
                    "ends in {} at the latest",
                    duration_text(Duration::from_secs(lease.remains(now).as_secs().max(1)))
                )
            }
        };
        format!("{}, {end}", text(lease))
    };
    let all: Vec<String> = on.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("on: {}", all.join("; ")))
}

/// A lease for people.
pub fn text(lease: &Lease) -> String {
    let pid = lease.holder.as_ref().map(|key| format!("process {}, ", key.pid)).unwrap_or_default();
    match &lease.target {
        Some((key, name)) => format!("{pid}`{}` of {name} ({})", lease.what, key.pid),
        None => format!("{pid}`{}`", lease.what),
    }
}

fn draft(bundle: &std::path::Path) -> Option<std::path::PathBuf> {
    let name = bundle.file_name()?.to_string_lossy().into_owned();
    let draft = bundle.with_file_name(format!("{}.recording", name.strip_suffix(".biopsy.zip")?));
    draft.is_dir().then_some(draft)
}
