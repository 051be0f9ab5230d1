//! Threads wait for an answer of a process that does not read what it was sent.

use crate::dump::DumpAnalysis;
use crate::findings::dump::{NAMED, at, label, place, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let silent = &analysis.across.as_ref()?.silent;
    let peer = silent.iter().max_by_key(|peer| (!peer.may_read, peer.waiters.len()))?;
    let count = peer.waiters.len();
    // One request that was just sent is not read yet either.
    let own = peer.pid == analysis.identity.pid;
    let severity = match (peer.may_read, count) {
        // It may wait for room elsewhere before it reads on.
        (false, _) if peer.missed && (!own || count == 1) => Severity::Notice,
        (false, _) => Severity::Warning,
        (true, 1) => Severity::Info,
        (true, _) => Severity::Notice,
    };
    let inside = peer.waiters.first().and_then(|tid| place(analysis, *tid));
    let inside = inside.map_or(String::new(), |place| format!(", in {place}"));
    let (who, verb) = (threads(count), if count == 1 { "waits" } else { "wait" });
    let mut evidence: Vec<Evidence> = peer
        .waiters
        .iter()
        .take(NAMED)
        .map(|tid| {
            let inside = place(analysis, *tid).map_or(String::new(), |place| format!(" in {place}"));
            at(Reference::Thread(*tid), format!("{} waits to receive{inside}", label(analysis, *tid)))
        })
        .collect();
    let does = match peer.missed {
        true => {
            "all its threads sleep, and the one that waits for events is not told of these: it watches for new bytes only (`EPOLLET`), or \
                 not for input"
        }
        false => &format!("it {}", peer.does),
    };
    evidence.push(fact(
        format!(
            "process {} ({}) has not read {} bytes that were sent to it; {does}",
            peer.pid, peer.process, peer.unread
        ),
        Some(Value::Bytes(peer.unread as f64)),
    ));
    let whose = match own {
        true => "its own process".to_owned(),
        false => format!("process {} ({})", peer.pid, peer.process),
    };
    Some(Finding {
        id: FindingId::SilentPeer,
        severity,
        impact: share(analysis, count).max(0.4),
        title: format!("{who} {verb} for an answer of {whose}, which does not read what it was sent{inside}"),
        explanation: if peer.missed {
            "What was sent lies unread in its socket, and the event loop that should read it was told of it once and is not told again. Either it \
             read a part only and forgot the rest, or it does not read on before something else happens."
        } else if peer.may_read {
            "What was sent to it lies unread in its socket. It may be about to read it: that is a moment, and no proof."
        } else {
            "What was sent to it lies unread in its socket, and none of its threads runs, reads or waits for data. Threads that wait for it \
             without a time limit wait as long as that stays so."
        }
        .to_owned(),
        evidence,
        next_steps: steps(&[
            match peer.missed {
                true => "Read until `EAGAIN` for each event where they are edge-triggered; switch a one-shot descriptor on again on every way",
                false => "Look at that process: what is it doing instead of reading?",
            },
            "Give the wait a time limit",
        ]),
    })
}
