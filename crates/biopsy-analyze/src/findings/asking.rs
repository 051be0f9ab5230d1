//! Who waits for an answer and who for a question: a server at rest receives all the time, and nothing is wrong with it.

use crate::findings::scene::{Scene, ThreadWait};
use crate::trace::function::FunctionRow;
use crate::trace::waits::WaitReason;
use biopsy_model::Tid;
use std::collections::BTreeMap;

/// Threads of .NET that read what nobody answers: changes of files, signals.
const SERVICES: [&str; 2] = [".NET File Watch", ".NET SigHandler"];

/// A thread that waits for a peer, by the scheduler's count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'s> {
    pub(super) wait: ThreadWait,
    /// Length of one wait, in seconds.
    pub(super) mean: f64,
    /// Its process asks others and is asked by nobody, or that was not recorded; else it may be at rest.
    pub(super) certain: bool,
    /// The one that its process made most connections to, if there are not many of them.
    pub(super) peer: Option<&'s str>,
    /// The thread that ends most of its waits, where that one is recorded too.
    pub(super) answered_by: Option<Tid>,
}

/// Share of a thread's waits that one other thread ends, from which on that is who it waits for.
const ENDED: f64 = 0.5;

/// Peers of one process that a name still helps with.
const FEW: usize = 3;

/// Threads that wait for answers, the longest first. Those that can only wait for questions are left out.
pub(super) fn askers<'s>(scene: &'s Scene<'_>) -> Vec<Asker<'s>> {
    let is_peer = |reason| matches!(reason, WaitReason::Peer | WaitReason::Descriptor);
    let client = |function| scene.row(function).is_none_or(|row| !takes_requests(row));
    let named = |function| scene.row(function).is_some_and(|row| row.named);
    // A descriptor that may as well be a pipe is worth a word only where a name makes sense of it.
    let sure = |wait: &ThreadWait| wait.reason == WaitReason::Peer || wait.function.is_some_and(named);
    let service =
        |wait: &ThreadWait| scene.thread(wait.tid).is_some_and(|row| SERVICES.contains(&row.name.as_str()));
    let waits = scene.thread_waits(is_peer).into_iter();
    let waits = waits.filter(|wait| wait.function.is_none_or(client) && !service(wait) && sure(wait));
    let waits = waits.filter(|wait| !accepts(scene, wait));
    let askers = waits.filter_map(|wait| {
        let sides = scene.sides_of(wait.tid);
        if sides.is_some_and(crate::sockets::Sides::only_answers) {
            return None;
        }
        let peers = sides.map(crate::sockets::Sides::peers).unwrap_or_default();
        Some(Asker {
            wait,
            mean: wait.share * scene.seconds / (wait.count.max(1) as f64),
            certain: sides.is_none_or(crate::sockets::Sides::only_asks),
            peer: peers.first().copied().filter(|_| peers.len() <= FEW),
            answered_by: answered_by(scene, &wait),
        })
    });
    askers.collect()
}

/// Who waits for connections waits for nobody's answer, whatever its function is called.
fn accepts(scene: &Scene<'_>, wait: &ThreadWait) -> bool {
    let calls = scene.facts.waits.calls.iter();
    let own = calls.filter(|row| row.tid == wait.tid && row.function == wait.function);
    own.max_by_key(|row| row.time).is_some_and(|row| matches!(row.call, "accept" | "accept4"))
}

/// Who ends the waits of a thread. Of what comes over a network, whoever was interrupted ends it: that is seldom one thread.
fn answered_by(scene: &Scene<'_>, wait: &ThreadWait) -> Option<Tid> {
    let rows = scene.facts.waits.answered.iter();
    let own = rows.filter(|((tid, site), _)| *tid == wait.tid && site.function == wait.function);
    let mut all = 0.0;
    let mut sums: BTreeMap<Tid, f64> = BTreeMap::new();
    for (waker, time) in own.flat_map(|(_, wakers)| wakers) {
        all += time.as_secs_f64();
        *sums.entry(*waker).or_default() += time.as_secs_f64();
    }
    let (waker, time) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_recorded = waker != wait.tid && scene.thread(waker).is_some();
    // Most of the waiting, not of the few waits that are known to have been ended by somebody.
    (is_recorded && time >= all * ENDED && time >= wait.share * scene.seconds * ENDED).then_some(waker)
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
    PARTS.iter().any(|part| row.name.contains(part)) && !asks(&row.name)
}

/// A name that says that it asks somebody: the server in `ask_server` is the other one.
fn asks(name: &str) -> bool {
    const VERBS: &[&str] =
        &["ask", "query", "call", "fetch", "contact", "connect", "consult", "ping", "reach"];
    let last = name.rsplit([':', '.']).next().unwrap_or(name).to_ascii_lowercase();
    VERBS.iter().any(|verb| {
        let rest = last.strip_prefix(verb).map(|rest| rest.trim_start_matches('_'));
        rest.is_some_and(|rest| {
            ["server", "service", "the_server", "next_server"].iter().any(|whom| rest.starts_with(whom))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::asks;

    #[test]
    fn who_asks_a_server_is_none() {
        for (name, is_client) in [
            ("ask_server", true),
            ("names::Client::query_server", true),
            ("main.(*client).callService", true),
            ("serve_call", false),
            ("run_server", false),
            ("Server::accept_one", false),
            ("call_waiting::serve", false),
        ] {
            assert_eq!(asks(name), is_client, "{name}");
        }
    }
}
