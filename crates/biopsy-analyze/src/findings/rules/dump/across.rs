//! Processes wait for each other in a circle, or for one at the end of a chain.

use crate::dump::{DumpAnalysis, STOPPED, Step};
use crate::findings::dump::{at, place};
use crate::findings::evidence::steps;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use biopsy_model::Confidence;
use biopsy_model::peers::PeerObject;
use std::collections::BTreeSet;

/// Steps that are named one by one.
const NAMED: usize = 12;

pub(crate) fn circle(analysis: &DumpAnalysis) -> Option<Finding> {
    let across = analysis.across.as_ref()?;
    // A process that has both ends of a connection is told by `own_ends`: two of its threads, not two processes.
    let inside = |circle: &[Step], sure: Confidence| {
        let pids: BTreeSet<_> = circle.iter().map(|step| step.pid).collect();
        sure == Confidence::Possible && pids.len() == 1
    };
    let circles =
        across.circles.iter().zip(&across.confidence).filter(|(circle, sure)| !inside(circle, **sure));
    let (circle, sure) = circles.max_by_key(|(_, sure)| **sure)?;
    let sure = *sure;
    if sure == Confidence::Possible {
        return each_others_data(analysis, circle);
    }
    let begin = match sure {
        Confidence::Certain => "Deadlock".to_owned(),
        other => format!("Deadlock, {}", other.words()),
    };
    let processes: BTreeSet<_> = circle.iter().map(|step| step.pid).collect();
    let title = match circle.as_slice() {
        [one] => {
            format!("{begin}: {} waits for {}, which nobody but itself could give", who(one), one.waits_for)
        }
        [one, other] if one.pid == other.pid => {
            format!("{begin}: threads {} and {} of {} wait for each other", one.tid, other.tid, who(one))
        }
        [one, other] => format!("{begin}: {} and {} wait for each other", who(one), who(other)),
        all if processes.len() == 1 => {
            format!("{begin}: {} threads of {} wait for each other in a circle", all.len(), who(all.first()?))
        }
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
        evidence: circle.iter().take(NAMED).map(|one| step(analysis, one)).collect(),
        next_steps: steps(&[advice, "They do not recover: one of them has to be ended"]),
    })
}

/// Both ends of a connection wait for data: how most connections rest, and how two hang that forgot who speaks next.
fn each_others_data(analysis: &DumpAnalysis, circle: &[Step]) -> Option<Finding> {
    let (first, last) = (circle.first()?, circle.last()?);
    Some(Finding {
        id: FindingId::WaitsForProcess,
        severity: Severity::Notice,
        impact: 0.3,
        title: format!("{} and {} wait for data of each other", who(first), who(last)),
        explanation: "Neither has sent what the other would read, and no other thread of them could. Connections at rest look the same, and \
                      time limits of sockets cannot be seen: it is a deadlock only if both wait for an answer."
            .to_owned(),
        evidence: circle.iter().take(NAMED).map(|one| step(analysis, one)).collect(),
        next_steps: steps(&["Look at the place where each of them reads: does it wait for a request, or for an answer?"]),
    })
}

/// A thread waits for a lock on a file, which its own process has by another descriptor.
fn own_file(analysis: &DumpAnalysis, one: &Step) -> Finding {
    let inside = place(analysis, one.tid).map_or(String::new(), |place| format!(", in {place}"));
    Finding {
        id: FindingId::WaitsForProcess,
        severity: Severity::Notice,
        impact: 0.6,
        title: format!("{} waits for {}, which its own process has already{inside}", who(one), one.waits_for),
        explanation: "A lock by `flock`, or of an open file description, belongs to the descriptor by which it was taken: who opens the file anew and \
                      locks it again waits, also for itself. Which thread took the first one is recorded nowhere: another one of this process may \
                      give it back; if it is this very thread, nobody will."
            .to_owned(),
        evidence: vec![step(analysis, one)],
        next_steps: steps(&[
            "Look at the callers of this place: does one of them have the file locked? Hand its descriptor on",
            "Look a second time (`--looks 3`): does it still stand there?",
        ]),
    }
}

/// A thread of the program reads a pipe, whose writing end only its own process has. Threads of runtimes and libraries rest so.
fn own_pipe(analysis: &DumpAnalysis, one: &Step) -> Option<Finding> {
    let place = analysis.place(one.tid).filter(|place| place.own)?;
    let inside = format!(", in {}", place.words());
    Some(Finding {
        id: FindingId::WaitsForProcess,
        // Threads that wake each other by a pipe rest in the same way.
        severity: Severity::Info,
        impact: 0.53,
        title: format!(
            "{} waits for {}{inside}; nobody but itself has the writing end of the pipe",
            who(one),
            one.waits_for
        ),
        explanation: "A pipe ends when all its writing ends are closed. This one is still open in the process that reads, and in no other that may \
                      be seen: if a child was to write, it has ended, and the reader waits for an end that its own descriptor keeps away. If \
                      another thread of it writes there, it is at rest."
            .to_owned(),
        evidence: vec![step(analysis, one)],
        next_steps: steps(&[
            "Close the writing end in the parent, after `fork` and before it reads",
            "Look a second time (`--looks 3`): does it still stand there?",
        ]),
    })
}

pub(crate) fn chain(analysis: &DumpAnalysis) -> Option<Finding> {
    let chain = analysis.across.as_ref()?.chain.as_ref()?;
    if let [one] = chain.as_slice() {
        return match one.object {
            Some(PeerObject::PipeData) => own_pipe(analysis, one),
            _ => Some(own_file(analysis, one)),
        };
    }
    let (first, last) = (chain.first()?, chain.last()?);
    // Waiting for a child is what shells and supervisors do all day; a lock that somebody keeps is worth a look.
    let across = analysis.across.as_ref()?;
    let severity = match first.object? {
        // The one that waits may be the one who should do something; another thread of it may as well.
        _ if across.chain_returns || is_alone_inside(last) => Severity::Notice,
        // It will not give back what it has until somebody lets it go on.
        PeerObject::FileLock | PeerObject::Semaphore | PeerObject::SharedLock | PeerObject::PipeRoom
            if last.does == STOPPED =>
        {
            Severity::Warning
        }
        PeerObject::FileLock | PeerObject::Semaphore | PeerObject::SharedLock => Severity::Notice,
        PeerObject::PipeData
        | PeerObject::PipeRoom
        | PeerObject::Socket
        | PeerObject::SocketRoom
        | PeerObject::Events
        | PeerObject::SharedWord
        | PeerObject::Inside
        | PeerObject::Child => Severity::Info,
    };
    Some(Finding {
        id: FindingId::WaitsForProcess,
        severity,
        impact: 0.5,
        title: format!(
            "{} waits for {}{}; at the end {} {}",
            who(first),
            first.waits_for,
            place(analysis, first.tid).map_or(String::new(), |place| format!(", in {place}")),
            who(last),
            match across.chain_returns {
                // A lock that somebody had when it was forked looks so.
                _ if is_alone_inside(last) => format!("waits for {}", last.waits_for),
                true => format!("waits for {}, which the first one has the other end of", last.waits_for),
                false => last.does.clone(),
            }
        ),
        explanation: "A thread of this process waits for another process. That is a moment, not a proof: if it stays so, what the last \
                      one does is the reason."
            .to_owned(),
        evidence: chain.iter().take(NAMED).map(|one| step(analysis, one)).collect(),
        next_steps: steps(&[match first.object {
            Some(PeerObject::PipeData) => {
                "It has the writing end of the pipe, and never writes: close what is inherited (`O_CLOEXEC`, `close_range`), or read only what is expected"
            }
            _ if last.does == STOPPED => "Let it go on (`kill -CONT PID`), and find out who stopped it",
            _ => "Look at the process at the end of the chain",
        }]),
    })
}

/// A process of one thread, which waits at memory of its own: nobody is left to end that.
fn is_alone_inside(last: &Step) -> bool {
    last.object == Some(PeerObject::Inside) && !last.waits_for.is_empty()
}

fn who(step: &Step) -> String {
    format!("process {} ({})", step.pid, step.process)
}

fn step(analysis: &DumpAnalysis, step: &Step) -> Evidence {
    let thread = if step.pid.0 == step.tid.0 { String::new() } else { format!(", thread {},", step.tid) };
    // Of other processes only what the kernel says is known.
    let own = step.pid == analysis.identity.pid;
    let inside = own
        .then(|| place(analysis, step.tid))
        .flatten()
        .map_or(String::new(), |place| format!(", in {place}"));
    let text = if step.waits_for.is_empty() {
        format!("{}{thread} {}{inside}", who(step), step.does)
    } else {
        format!("{}{thread} waits for {}{inside}", who(step), step.waits_for)
    };
    at(Reference::Thread(step.tid), text)
}
