//! Who waits for an answer and who for a question: a server at rest receives all the time, and nothing is wrong with it.

use crate::findings::scene::{Scene, ThreadWait};
use crate::trace::function::FunctionRow;
use crate::trace::waits::WaitReason;

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
}

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
        })
    });
    askers.collect()
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
