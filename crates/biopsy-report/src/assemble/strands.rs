//! Language runtimes other than .NET in the types of the output schema.

use biopsy_analyze::dump::StrandRuntime;
use biopsy_analyze::dump::strands::{Holder, StrandFrame, StrandGroup};

use crate::schema::strands::{Frame, Group, Runtime, Wait, WaitOwner};

/// Groups and their members that are written as JSON.
const GROUPS: usize = 1_000;
const IDS: usize = 1_000;
/// As JSON has it.
pub(super) fn runtime(runtime: &StrandRuntime) -> Runtime {
    let id = |index: &usize| runtime.runtime.strands.get(*index).map(|strand| strand.id.to_string());
    Runtime {
        name: runtime.runtime.label(),
        path: String::from_utf8_lossy(&runtime.runtime.path).into_owned(),
        strands: runtime.runtime.total,
        problems: runtime.runtime.warnings.clone(),
        interpreter_lock: runtime
            .runtime
            .interpreter_lock
            .as_ref()
            .and_then(|lock| lock.holder)
            .map(|holder| holder.to_string()),
        cycles: runtime.cycles.iter().map(|cycle| cycle.members.iter().filter_map(id).collect()).collect(),
        groups: runtime.groups.iter().take(GROUPS).filter_map(|one| group(runtime, one)).collect(),
    }
}

fn group(runtime: &StrandRuntime, group: &StrandGroup) -> Option<Group> {
    let first = runtime.first(group)?;
    let members = || group.members.iter().take(IDS).filter_map(|index| runtime.runtime.strands.get(*index));
    Some(Group {
        count: group.members.len(),
        kind: first.kind.word().to_owned(),
        ids: members().map(|member| member.id.to_string()).collect(),
        names: members().filter_map(|member| member.name.clone()).collect(),
        threads: members().filter_map(|member| member.tid.map(|tid| tid.0)).collect(),
        state: first.state.words().to_owned(),
        wait: runtime.wait(group).map(|wait| Wait {
            kind: wait.kind.words().to_owned(),
            address: wait.address.map(|address| format!("{address:#x}")),
            reason: wait.reason.clone(),
            object: wait.object.clone(),
            descriptor: wait.descriptor,
            since_ns: wait.since.map(|since| since.0),
            never_ends: wait.never_ends,
            owners: wait
                .owners
                .iter()
                .map(|owner| WaitOwner {
                    strand: match owner.holder {
                        Holder::Strand(id) => Some(id.to_string()),
                        Holder::Thread(_) => None,
                    },
                    thread: match owner.holder {
                        Holder::Thread(tid) => Some(tid.0),
                        Holder::Strand(_) => None,
                    },
                    confidence: owner.confidence.words().to_owned(),
                    proof: owner.proof.clone(),
                })
                .collect(),
        }),
        frames: first.frames.iter().map(frame).collect(),
        cut: first.cut,
        started_by: first.started_at.as_ref().map(frame),
        of_runtime: first.of_runtime,
    })
}

fn frame(frame: &StrandFrame) -> Frame {
    Frame {
        function: frame.function.to_string(),
        file: frame.file.as_deref().map(str::to_owned),
        line: frame.line,
        inlined: frame.inlined,
    }
}
