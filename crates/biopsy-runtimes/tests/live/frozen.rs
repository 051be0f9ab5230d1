//! A frozen copy of a program, and what is looked for in its strands.

use std::time::Duration;

use biopsy_model::Pid;
use biopsy_runtimes::{
    Confidence, Holder, Limits, Owner, RuntimeKind, RuntimeStrands, Strand, StrandWait, read_strands,
};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Survival, TargetProcess};

/// The runtime of this kind, and that the program was not harmed by the look.
pub(super) fn strands(target: &TargetProcess, kind: RuntimeKind) -> RuntimeStrands {
    let survival = Survival::before(target.pid());
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(target.pid())).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    let frozen = freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process");
    let mut found = read_strands(&frozen, None, &Limits::default());
    drop(frozen);
    survival.assert_unharmed();
    let place =
        found.iter().position(|one| one.kind == kind).unwrap_or_else(|| panic!("no {kind:?}: {found:?}"));
    found.swap_remove(place)
}

/// The strand that has this function in its stack and waits.
pub(super) fn waiting_in<'r>(
    runtime: &'r RuntimeStrands,
    function: &str,
) -> Vec<(&'r Strand, &'r StrandWait)> {
    let is_in = |strand: &&Strand| strand.frames.iter().any(|frame| &*frame.function == function);
    runtime.strands.iter().filter(is_in).filter_map(|strand| Some((strand, strand.wait.as_ref()?))).collect()
}

/// The one owner that is more than a candidate.
pub(super) fn owner(wait: &StrandWait) -> &Owner {
    match wait.owners.as_slice() {
        [owner] if owner.confidence >= Confidence::VeryLikely => owner,
        owners => panic!("{owners:?} of {wait:?}"),
    }
}

/// The two wait for each other.
pub(super) fn assert_deadlock(pair: &[(&Strand, &StrandWait)]) {
    let [(one, for_other), (other, for_one)] = pair else { panic!("not two: {pair:?}") };
    assert_eq!(owner(for_other).holder, Holder::Strand(other.id), "{one:?}");
    assert_eq!(owner(for_one).holder, Holder::Strand(one.id), "{other:?}");
    assert!(!for_one.ends_by_itself && !for_other.ends_by_itself);
}
