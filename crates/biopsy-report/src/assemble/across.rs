//! Who waits for whom, how sure that is, and across processes, in the types of the output schema.

use biopsy_analyze::dump;

use crate::schema::dump::{
    Across, AcrossCircle, Circle, LockHolder, OrphanedLock, SilentPeer, Step, StuckWait,
};
use crate::units::hex;

pub(super) fn circle(circle: &dump::Circle) -> Circle {
    let (waiter, owner) = circle.weakest;
    Circle { confidence: circle.confidence.words().to_owned(), weakest: [waiter.0, owner.0] }
}

pub(super) fn holder(holder: &dump::Holder) -> LockHolder {
    LockHolder {
        thread: holder.thread.0,
        confidence: holder.confidence.words().to_owned(),
        site: holder.site.clone(),
        shared: holder.shared,
    }
}

pub(super) fn stuck(stuck: &dump::StuckWait) -> StuckWait {
    StuckWait {
        address: hex(stuck.lock),
        kind: stuck.kind.words().to_owned(),
        waiters: stuck.waiters.iter().map(|tid| tid.0).collect(),
        confidence: stuck.confidence.words().to_owned(),
        proof: stuck.proof.clone(),
    }
}

pub(super) fn orphaned(lock: &dump::OrphanedLock) -> OrphanedLock {
    OrphanedLock { waiter: lock.waiter.0, owner: lock.owner.map(|tid| tid.0), proof: lock.proof.clone() }
}

pub(super) fn across(across: &dump::Across) -> Across {
    let circles = across.circles.iter().zip(&across.confidence);
    Across {
        circles: circles
            .map(|(steps, sure)| AcrossCircle {
                confidence: sure.words().to_owned(),
                steps: steps.iter().map(step).collect(),
            })
            .collect(),
        chain: across.chain.iter().flatten().map(step).collect(),
        silent: across.silent.iter().map(silent).collect(),
    }
}

fn step(step: &dump::Step) -> Step {
    Step {
        pid: step.pid.0,
        process: step.process.clone(),
        tid: step.tid.0,
        waits_for: step.waits_for.clone(),
        does: step.does.clone(),
    }
}

fn silent(peer: &dump::SilentPeer) -> SilentPeer {
    SilentPeer {
        pid: peer.pid.0,
        process: peer.process.clone(),
        waiters: peer.waiters.iter().map(|tid| tid.0).collect(),
        unread_bytes: peer.unread,
        does: peer.does.clone(),
    }
}
