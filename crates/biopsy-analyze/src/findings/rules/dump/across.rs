//! Processes wait for each other in a circle, or for one at the end of a chain.

use crate::dump::{DumpAnalysis, Step};
use crate::findings::dump::at;
use crate::findings::evidence::steps;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use biopsy_model::Confidence;
use biopsy_model::peers::PeerObject;
use std::collections::BTreeSet;

/// Steps that are named one by one.
const NAMED: usize = 12;

pub(crate) fn circle(analysis: &DumpAnalysis) -> Option<Finding> {
    let across = analysis.across.as_ref()?;
    let circle = across.circles.first()?;
    let sure = across.confidence.first().copied().unwrap_or_default();
    let begin = match sure {
        Confidence::Certain => "Deadlock".to_owned(),
        other => format!("Deadlock, {}", other.words()),
    };
    let processes: BTreeSet<_> = circle.iter().map(|step| step.pid).collect();
    let title = match circle.as_slice() {
        [one] => {
            format!("{begin}: {} waits for {}, which nobody but itself could give", who(one), one.waits_for)
        }
        [one, other] => format!("{begin}: {} and {} wait for each other", who(one), who(other)),
        all => format!(
            "{begin}: {} threads of {} processes wait for each other in a circle",
            all.len(),
            processes.len()
        ),
    };
    let children = circle.iter().any(|step| step.object == Some(PeerObject::Child));
    let pipes =
        circle.iter().any(|step| matches!(step.object, Some(PeerObject::PipeRoom | PeerObject::PipeData)));
    let advice = match (circle.len(), children, pipes) {
        (1, ..) => {
            "Close the ends of a pipe that are not used: a reader that has the writing end open never sees its end"
        }
        (_, true, true) => {
            "Read all that a child writes before waiting for its end, or let it write to a file"
        }
        (_, false, true) => {
            "Read while writing (`poll`, or a thread for each direction): a pipe holds 64 KiB, then its writer waits"
        }
        _ => "Let one side never wait for the other while that one waits for it",
    };
    Some(Finding {
        id: FindingId::Deadlock,
        severity: Severity::Critical,
        impact: 1.0,
        title,
        explanation: "Each of them waits for something that only the next one can give, so that none goes on by itself. Who has the other \
                      ends was read from the kernel, for all processes that may be seen."
            .to_owned(),
        evidence: circle.iter().take(NAMED).map(step).collect(),
        next_steps: steps(&[advice, "They do not recover: one of them has to be ended"]),
    })
}

pub(crate) fn chain(analysis: &DumpAnalysis) -> Option<Finding> {
    let chain = analysis.across.as_ref()?.chain.as_ref()?;
    let (first, last) = (chain.first()?, chain.last()?);
    // Waiting for a child is what shells and supervisors do all day; a lock that somebody keeps is worth a look.
    let severity = match first.object? {
        PeerObject::FileLock | PeerObject::Semaphore | PeerObject::SharedLock => Severity::Notice,
        PeerObject::PipeData | PeerObject::PipeRoom | PeerObject::Socket | PeerObject::Child => {
            Severity::Info
        }
    };
    Some(Finding {
        id: FindingId::WaitsForProcess,
        severity,
        impact: 0.5,
        title: format!("{} waits for {}; at the end {} {}", who(first), first.waits_for, who(last), last.does),
        explanation: "A thread of this process waits for another process. That is a moment, not a proof: if it stays so, what the last \
                      one does is the reason."
            .to_owned(),
        evidence: chain.iter().take(NAMED).map(step).collect(),
        next_steps: steps(&["Look at the process at the end of the chain"]),
    })
}

fn who(step: &Step) -> String {
    format!("process {} ({})", step.pid, step.process)
}

fn step(step: &Step) -> Evidence {
    let thread = if step.pid.0 == step.tid.0 { String::new() } else { format!(", thread {},", step.tid) };
    let text = if step.waits_for.is_empty() {
        format!("{}{thread} {}", who(step), step.does)
    } else {
        format!("{}{thread} waits for {}", who(step), step.waits_for)
    };
    at(Reference::Thread(step.tid), text)
}
