//! Whether a child of this thread would be what its other children are.
//!
//! unshare(2) gives a thread a new pid namespace, or a new clock, *for its children*. The first of them is the first process
//! of that namespace: when it ends, the namespace is closed for ever, and fork fails with ENOMEM from then on. A
//! copy must not be that child. Likewise the offsets of a new clock can be set only until the first child has it.

use biopsy_model::{Pid, Tid};

use crate::process::proc_root::ProcRoot;

/// Checks a thread of the process. Namespaces belong to threads, so each may answer differently.
///
/// # Errors
/// Why it must not have a child.
pub(super) fn may_have_children(pid: Pid, tid: Tid) -> Result<(), &'static str> {
    let Ok(process) = ProcRoot::live().process(pid) else { return Err("it is gone") };
    let link = |name: &str| process.link(&format!("task/{tid}/ns/{name}")).ok();
    // A namespace that has no process yet cannot be told: its link cannot be read. A kernel without the kind has neither.
    if link("pid") != link("pid_for_children") {
        return Err("it has a new pid namespace for its children, whose first process the copy would be");
    }
    if link("time") != link("time_for_children") {
        return Err("it has a new time namespace for its children, whose first process the copy would be");
    }
    Ok(())
}
