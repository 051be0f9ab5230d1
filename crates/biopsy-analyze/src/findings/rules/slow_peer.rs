//! A thread waits for another program to answer.

use crate::findings::asking::{Asker, askers};
use crate::findings::evidence::{at, fact, metric, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::trace::wait_sums::CallWait;
use crate::trace::waits::WaitReason;
use crate::words::{number, percent, seconds};
use biopsy_model::Tid;
use rustc_hash::FxHashMap;

/// Share of the time that a thread receives.
const SHARE: f64 = 0.5;
/// One long wait is a connection on which nothing happens; many are questions and answers.
const WAITS: u64 = 5;
/// Seconds of one wait. A database on the same machine answers within a millisecond, one next door within a few: shorter waits are round
/// trips, of which there may be too many.
const SLOW: f64 = 0.005;
/// TCP segments sent again a second: a network that loses some.
const RETRANSMITS: f64 = 1.0;

/// Seconds of a wait for an acknowledgement that is delayed (`TCP_DELACK_MIN`), with what it takes to be woken; and how many of them are no
/// chance.
const DELAYED: std::ops::Range<f64> = 0.039..0.05;
const MANY: u64 = 40;
/// How much less is said where the peer is in the recording.
const INSIDE: f64 = 0.4;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let askers = askers(scene);
    let long =
        |asker: &&Asker<'_>| asker.wait.share >= SHARE && asker.wait.count >= WAITS && asker.mean >= SLOW;
    let mut slow: Vec<&Asker<'_>> =
        askers.iter().filter(long).filter(|asker| !is_talk(&askers, asker)).collect();
    // Whom a thread of the recording answers waits for that thread, or is the one that answers and waits for its questions: those who
    // wait for somebody else come first.
    if slow.iter().any(|asker| asker.answered_by.is_none()) {
        slow.retain(|asker| asker.answered_by.is_none());
    }
    // Where most is waited in all: threads that wait for questions, and nothing else, wait the longest each.
    let mut by_function: FxHashMap<_, (f64, usize)> = FxHashMap::default();
    for one in &slow {
        let (share, count) = by_function.entry(one.wait.function).or_default();
        (*share, *count) = (*share + one.wait.share, *count + 1);
    }
    let all = |one: &Asker<'_>| by_function.get(&one.wait.function).map_or(0.0, |(share, _)| *share);
    let asker = slow.iter().rev().copied().max_by(|a, b| all(a).total_cmp(&all(b)))?;
    let others = by_function.get(&asker.wait.function).map_or(0, |(_, count)| count.saturating_sub(1));
    let (worst, mean) = (asker.wait, asker.mean);
    let calls = &scene.facts.waits.calls;
    let same = |row: &&CallWait| row.tid == worst.tid && row.function == worst.function;
    let call = calls.iter().find(same).map_or("recv", |row| row.call);
    let place = scene.function_name(worst.function);
    let in_place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    let mut evidence = vec![
        at(
            worst.function.map_or(Reference::Thread(worst.tid), Reference::WaitFunction),
            format!(
                "{} waits {} of the time for a peer{in_place}",
                scene.thread_name(worst.tid),
                percent(worst.share)
            ),
            Some(Value::Share(worst.share)),
        ),
        fact(
            format!("{} waits, {} each on average, in `{call}`", number(worst.count as f64), seconds(mean)),
            Some(Value::Count(worst.count as f64)),
        ),
    ];
    let inside = asker.answered_by.map(|tid| (tid, busy_with(scene, tid)));
    if let Some((tid, does)) = &inside {
        let text =
            format!("{} of the recorded processes ends most of these waits: {does}", scene.thread_name(*tid));
        evidence.push(at(Reference::Thread(*tid), text, None));
    }
    let delayed = if is_delayed(asker) {
        evidence.push(fact(
            "40 ms are what the kernel waits before it acknowledges what it received: whoever sends a message in several small writes waits for \
             that with the second one (Nagle's algorithm), unless the connection has `TCP_NODELAY` or the message is written at once",
            None,
        ));
        ", some 40 ms each: most likely small writes that wait for a delayed acknowledgement"
    } else {
        ""
    };
    if let Some(peer) = asker.peer {
        evidence.push(fact(format!("its process is connected to {peer}"), None));
    }
    if others > 0 {
        let do_so = if others == 1 { "thread does" } else { "threads do" };
        evidence.push(fact(format!("{others} more {do_so} the same"), Some(Value::Count(others as f64))));
    }
    if let Some(retransmits) = scene.system("tcp.retransmits").filter(|series| series.mean() >= RETRANSMITS) {
        evidence.push(at(
            metric("system", "tcp.retransmits", ""),
            format!(
                "{} TCP segments a second are sent again: the network loses packets",
                number(retransmits.mean())
            ),
            Some(Value::PerSecond(retransmits.mean())),
        ));
    }
    Some(Finding {
        id: FindingId::SlowPeer,
        severity: if worst.reason == WaitReason::Peer && asker.certain && inside.is_none() { Severity::Warning } else { Severity::Notice },
        // What the answering thread does is the cause, and is a finding of its own where it is one.
        impact: if inside.is_some() { worst.share * INSIDE } else { worst.share },
        title: match &inside {
            Some((tid, does)) => format!(
                "Waiting{in_place} for {}, which is recorded too: {} of the time in `{call}`{delayed}; {does}",
                scene.thread_name(*tid),
                percent(worst.share)
            ),
            None => format!(
                "Waiting for a slow peer{in_place}: {} of the time in `{call}`{}{delayed}",
                percent(worst.share),
                asker.peer.map_or(String::new(), |peer| format!(", connected to {peer}"))
            ),
        },
        explanation: "Most likely another program (a database, a service, the network to it) takes long to answer, and this \
                      one can only wait. It is neither the CPU nor a lock. If the function is where the program waits for \
                      its own clients' requests, then it is idle instead, and nothing is wrong here."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See in the list of sockets whom it is connected to, and record that process in the same moments",
            "See how often it asks: fewer, larger requests or several at a time help against latency",
        ]),
    })
}

/// Each wait is as long as the kernel waits before it acknowledges by itself: 40 ms is no time that anything else takes again and again.
fn is_delayed(asker: &Asker<'_>) -> bool {
    // Of who is not recorded it is not known what takes it so long.
    let is_known = asker.wait.reason == WaitReason::Peer && asker.answered_by.is_some();
    is_known && DELAYED.contains(&asker.mean) && asker.wait.count >= MANY
}

/// Two recorded threads that wait for each other, most of the time both: one asks as seldom as it likes, and neither is slow.
fn is_talk(askers: &[Asker<'_>], asker: &Asker<'_>) -> bool {
    let Some(other) = asker.answered_by else { return false };
    if is_delayed(asker) {
        return false;
    }
    let back = askers.iter().find(|one| one.wait.tid == other);
    back.is_some_and(|back| back.answered_by == Some(asker.wait.tid) && back.wait.share >= SHARE)
}

/// What a thread does most of the time.
fn busy_with(scene: &Scene<'_>, tid: Tid) -> String {
    let runs = scene.thread(tid).map_or(0.0, |row| row.running.as_secs_f64() / scene.seconds);
    let waits = scene.thread_waits(|reason| reason != WaitReason::Preempted);
    let most = waits.iter().find(|wait| wait.tid == tid);
    match most.filter(|wait| wait.share > runs) {
        Some(wait) => {
            let place =
                scene.function_name(wait.function).map_or(String::new(), |name| format!(" in {name}"));
            format!("it waits {} of the time{place}, most for {}", percent(wait.share), wait.reason.words())
        }
        None => format!("it runs {} of the time", percent(runs)),
    }
}
