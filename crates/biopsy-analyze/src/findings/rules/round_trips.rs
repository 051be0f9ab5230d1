//! Many questions to a peer, one after another: none of them is slow, but all together are.

use crate::findings::asking::{Asker, askers};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::findings::spent::on;
use crate::sockets::Sides;
use crate::trace::cost_names::Cost;
use crate::trace::flame::FlameKind;
use crate::trace::function::FunctionHandle;
use crate::trace::waits::WaitReason;
use crate::words::{number, percent, seconds};
use biopsy_model::{Nanos, Pid};
use std::collections::BTreeSet;

/// Share of the time that a thread waits for answers.
const SHARE: f64 = 0.4;
/// Round trips a second of one thread: nobody notices fewer.
const RATE: f64 = 100.0;
/// Seconds of one: longer ones are the peer's.
const SHORT: f64 = 0.005;
/// Where a runtime waits for all its connections at once, only its CPU time tells what it does: share in sending and receiving, and how
/// often its threads go to sleep a second.
const SOCKETS: f64 = 0.25;
const SWITCHES: f64 = 1_000.0;
/// A process that runs more than this is not held up by waiting.
const BUSY: f64 = 0.5;
/// Share of the time that a thread waits in a function, from which on its waits are seen: a goroutine's are not its thread's.
const SEEN: f64 = 0.2;
/// Share of that CPU time below the function that is named.
const CALLER: f64 = 0.25;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    by_waits(scene).or_else(|| by_sockets(scene))
}

fn by_waits(scene: &Scene<'_>) -> Option<Finding> {
    let askers = askers(scene);
    let trips = |asker: &Asker<'_>| scene.thread(asker.wait.tid).map_or(0, |row| row.voluntary) as f64;
    let many = |asker: &&Asker<'_>| {
        let each = asker.wait.share * scene.seconds / trips(asker).max(1.0);
        asker.wait.share >= SHARE && trips(asker) / scene.seconds >= RATE && each < SHORT
    };
    let asker = askers.iter().find(many)?;
    let rate = trips(asker) / scene.seconds;
    let each = asker.wait.share / rate;
    let place = asker.wait.function;
    let evidence = vec![at(
        place.map_or(Reference::Thread(asker.wait.tid), Reference::WaitFunction),
        format!(
            "{} waits {} of the time for answers, some {} times a second, {} each",
            scene.thread_name(asker.wait.tid),
            percent(asker.wait.share),
            number(rate),
            seconds(each)
        ),
        Some(Value::PerSecond(rate)),
    )];
    Some(finding(scene, place, rate, asker.wait.share, asker.peer, evidence))
}

/// Go and event loops wait for all connections in one place. What is left is who sends and receives.
fn by_sockets(scene: &Scene<'_>) -> Option<Finding> {
    let spent =
        on(scene, &[(Cost::Sockets, "sending and receiving")]).filter(|spent| spent.share >= SOCKETS)?;
    let asks = scene.sides.values().find(|sides| !sides.asked.is_empty())?;
    let rows = &scene.analysis.threads.rows;
    let switches: u64 = rows.iter().map(|row| row.voluntary).sum();
    let rate = switches as f64 / scene.seconds;
    let row = scene.facts.costs.iter().find(|row| row.cost == Cost::Sockets)?;
    // A store that is recorded too answers as often as it is asked.
    let asking = asking_callers(scene);
    let known = |(function, _): &&(FunctionHandle, Nanos)| asking.is_empty() || asking.contains(function);
    let (caller, time) = row.callers.iter().find(known)?;
    // Whose waits are seen is judged by these.
    let waits = scene.thread_waits(|reason| matches!(reason, WaitReason::Peer | WaitReason::Descriptor));
    if waits.iter().any(|wait| wait.function == Some(*caller) && wait.share >= SEEN) {
        return None;
    }
    if scene.busy() >= BUSY || rate < SWITCHES || time.as_secs_f64() < row.time.as_secs_f64() * CALLER {
        return None;
    }
    let mut evidence = spent.evidence;
    evidence.push(fact(
        format!("its threads go to sleep {} times a second and use little CPU", number(rate)),
        Some(Value::PerSecond(rate)),
    ));
    let peers = asks.peers();
    let peer = peers.first().copied().filter(|_| peers.len() == 1);
    Some(finding(scene, Some(*caller), rate, 0.5, peer, evidence))
}

/// Functions of the program that run in processes that ask others, where others of the recorded ones only answer.
fn asking_callers(scene: &Scene<'_>) -> BTreeSet<FunctionHandle> {
    let only_answers = |pid: Pid| scene.sides.get(&pid).is_some_and(Sides::only_answers);
    let threads = &scene.analysis.flames.threads;
    if !threads.iter().any(|thread| only_answers(thread.pid)) {
        return BTreeSet::new();
    }
    let trees = threads.iter().filter(|thread| !only_answers(thread.pid)).map(|thread| &thread.flames.cpu);
    let functions = trees.flat_map(|tree| &tree.nodes).filter_map(|node| match node.kind {
        FlameKind::Function(function) => Some(function),
        FlameKind::Root | FlameKind::Pruned => None,
    });
    functions.collect()
}

fn finding(
    scene: &Scene<'_>,
    place: Option<FunctionHandle>,
    rate: f64,
    share: f64,
    peer: Option<&str>,
    evidence: Vec<Evidence>,
) -> Finding {
    let place = scene.function_name(place).map_or(String::new(), |name| format!(" in {name}"));
    let to = peer.map_or(String::new(), |peer| format!(", with {peer}"));
    Finding {
        id: FindingId::RoundTrips,
        // A program whose work is to ask looks the same.
        severity: Severity::Notice,
        impact: share,
        title: format!(
            "Most likely many round trips, one after another{place}{to}: {} waits some {} times a second",
            scene.name,
            number(rate)
        ),
        explanation: "Small messages go to a peer and back, and each is waited for before the next is sent. None of them is slow, but their \
                      number makes it so: the way there and back is paid each time. It is neither the CPU nor a lock."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See how often the function asks for one piece of work: ask for many things at once, or several at a time",
            "Keep what was asked already",
        ]),
    }
}
