//! What live tests of runtimes have in common.

use std::time::Duration;

use biopsy_model::Pid;
use biopsy_runtimes::{Limits, RuntimeKind, RuntimeStrands, read_strands};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;

/// A frozen copy of a process. The pause may be long: what is tested is what is read, not how fast.
pub(crate) fn frozen(pid: u32) -> FrozenProcess {
    let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process")
}

/// The runtime of a kind in a process, by a frozen copy.
pub(crate) fn runtime(pid: u32, kind: RuntimeKind) -> RuntimeStrands {
    let frozen = frozen(pid);
    let all = read_strands(&frozen, None, &Limits::default());
    all.into_iter().find(|one| one.kind == kind).expect("the runtime is found")
}
