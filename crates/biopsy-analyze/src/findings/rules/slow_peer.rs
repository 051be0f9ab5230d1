//! A thread waits for another program to answer.

use crate::findings::evidence::{at, fact, metric, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, ThreadWait};
use crate::trace::function::FunctionRow;
use crate::trace::waits::WaitReason;
use crate::words::{number, percent, seconds};

/// Threads of .NET that read what nobody answers: changes of files, signals.
const SERVICES: [&str; 2] = [".NET File Watch", ".NET SigHandler"];
/// Share of the time that a thread receives.
const SHARE: f64 = 0.5;
/// One long wait is a connection on which nothing happens; many are questions and answers.
const WAITS: u64 = 5;
/// TCP segments sent again a second: a network that loses some.
const RETRANSMITS: f64 = 1.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let is_peer = |reason| matches!(reason, WaitReason::Peer | WaitReason::Descriptor);
    let waits = scene.thread_waits(is_peer);
    let client = |function| scene.row(function).is_none_or(|row| !takes_requests(row));
    let named = |function| scene.row(function).is_some_and(|row| row.named);
    // A descriptor that may as well be a pipe is worth a word only where a name makes sense of it.
    let sure = |wait: &&ThreadWait| wait.reason == WaitReason::Peer || wait.function.is_some_and(named);
    let service = |tid| scene.thread(tid).is_some_and(|row| SERVICES.contains(&row.name.as_str()));
    let mut waits =
        waits.iter().filter(|wait| wait.function.is_none_or(client) && !service(wait.tid)).filter(sure);
    let worst = waits.find(|wait| wait.share >= SHARE && wait.count >= WAITS)?;
    let others = waits.filter(|wait| wait.share >= SHARE && wait.count >= WAITS).count();
    let row = scene.analysis.waits.reasons.iter().find(|row| row.reason == worst.reason)?;
    let mean = worst.share * scene.seconds / (worst.count as f64);
    let place = scene.function_name(worst.function);
    let in_place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    let call = row.syscalls.first().map_or("recv", |(name, _)| name.as_str());
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
    if others > 0 {
        evidence.push(fact(format!("{others} more threads do the same"), Some(Value::Count(others as f64))));
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
        severity: if worst.reason == WaitReason::Peer { Severity::Warning } else { Severity::Notice },
        impact: worst.share,
        title: format!("Waiting for a slow peer{in_place}: {} of the time in `{call}`", percent(worst.share)),
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

/// Names of functions that wait for the requests of others: a server at rest.
fn takes_requests(row: &FunctionRow) -> bool {
    const PARTS: &[&str] = &[
        "accept",
        "do_command",
        "read_command",
        "ReadCommand",
        "read_request",
        "ReadRequest",
        "next_request",
        "get_command",
        "SocketBackend",
        "handle_connection",
        "handle_one_connection",
        "serve",
        "Serve",
        "listen",
        "secure_read",
        "pq_getbyte",
        "net_read_packet",
        "my_net_read",
        "FileSystemWatcher",
        "ConsoleStream",
        "ReadMessage",
    ];
    PARTS.iter().any(|part| row.name.contains(part))
}
