//! Which processes belong to a recording now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_target::ProcRoot;

/// Which processes there are, asked again and again.
pub(crate) type Tree = Arc<dyn Fn() -> Vec<Pid> + Send + Sync>;

/// The target and what is below it, found again at most this often; biopsy itself may be below it.
pub(crate) fn tree_of(pid: Pid, children: bool, every: Duration) -> Tree {
    let known: Mutex<(Option<Instant>, Vec<Pid>)> = Mutex::new((None, vec![pid]));
    Arc::new(move || {
        if !children {
            return vec![pid];
        }
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.is_none_or(|at| at.elapsed() >= every) {
            let own = Pid(std::process::id());
            // What fails is done again as soon as it is asked for again; until then it is those that were known.
            if let Ok(mut tree) = biopsy_target::list::tree_pids(&ProcRoot::live(), pid) {
                tree.retain(|&process| process != own);
                *known = (Some(Instant::now()), tree);
            }
        }
        known.1.clone()
    })
}
