//! Open files and sockets that pile up: how many, which, and who opens them.

use crate::findings::evidence::{at, fact, metric, process_of_key, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::made_by::name_with_maker;
use crate::findings::scene::Scene;
use crate::trace::function::{FunctionKind, FunctionRow};
use crate::whose::Whose;
use crate::words::{number, percent, seconds};
use rustc_hash::FxHashMap;

/// Functions that open files.
const FILES: &[&str] = &["do_sys_openat2", "__x64_sys_openat", "__x64_sys_open", "SafeFileHandle.Open"];
/// How names of functions begin that close what they open before they return: nothing of it piles up.
const CLOSE_THEMSELVES: &[&str] = &[
    // Go
    "os.ReadFile",
    "os.WriteFile",
    "os.ReadDir",
    "path/filepath.Glob",
    "path/filepath.Walk",
    "io/ioutil.ReadFile",
    "io/ioutil.WriteFile",
    // Rust
    "std::fs::read",
    "std::fs::write",
    "std::fs::copy",
    // .NET
    "System.IO.File.ReadAll",
    "System.IO.File.WriteAll",
    "System.IO.File.AppendAll",
    "System.IO.File.Copy",
    // Java
    "java.nio.file.Files.readAll",
    "java.nio.file.Files.readString",
    "java.nio.file.Files.write",
    "java.nio.file.Files.copy",
    // Python
    "Path.read_",
    "Path.write_",
    "copyfile",
    // Node
    "readFileSync",
    "writeFileSync",
    "appendFileSync",
];
/// Functions that make sockets and connect them.
const SOCKETS: &[&str] = &[
    "__sys_socket",
    "__sys_connect",
    "System.Net.Sockets.Socket.Connect",
    "System.Net.Http.HttpConnectionPool.ConnectAsync",
];
/// What makes descriptors of kinds of which nothing else is known.
const OTHERS: &[&str] = &["ksys_dup3", "__x64_sys_dup", "__x64_sys_signalfd4", "__x64_sys_io_uring_setup"];
/// Lines of a list that are looked at. The recorder writes some thousands.
const LINES: usize = 100_000;
/// Characters of a path in a sentence.
const LONGEST: usize = 160;
/// One function that opens this share of them is named.
const OPENER: f64 = 0.3;
/// One function that has this share of the CPU time is what the program does.
const WORKS: f64 = 0.4;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let trends = scene.analysis.metrics.trends.iter().filter(|trend| trend.growing && trend.column == "fds");
    let trend = trends.max_by(|a, b| a.per_minute.total_cmp(&b.per_minute))?;
    let pid = trend.key.split(' ').next().unwrap_or_default();
    let mut evidence = vec![at(
        metric(&trend.table, &trend.column, &trend.key),
        format!("{} more descriptors a minute in {}", number(trend.per_minute), process_of_key(&trend.key)),
        Some(Value::Count(trend.last - trend.first)),
    )];
    let grown = trend.last - trend.first;
    let most = most_grown(scene, pid).filter(|most| most.more as f64 >= grown * 0.3);
    let mut what = String::new();
    if let Some(most) = &most {
        what = format!(", most of them {}", most.words());
        evidence.push(fact(
            format!(
                "{} more of {} at the end than at the start: {} → {}",
                number(most.more as f64),
                most.words(),
                number(most.before as f64),
                number((most.before + most.more) as f64)
            ),
            Some(Value::Count(most.more as f64)),
        ));
    }
    let opener = match most.as_ref().map(|most| (most.kind, most.name.as_str())) {
        // Whoever connects may be a thread of the same process; it closes its own end.
        Some((Kind::Accepted, _)) => accepter(scene),
        Some((Kind::Sockets, _)) => opener(scene, SOCKETS),
        Some((Kind::Files, _)) => opener(scene, FILES),
        Some((Kind::Others, kind)) => opener(scene, makers(kind)),
        None => {
            let any: Vec<&str> = ANY.iter().flat_map(|kind| makers(kind)).copied().collect();
            opener(scene, FILES).or_else(|| opener(scene, &any))
        }
    };
    // Connections of clients are made behind the caller's back, by threads and tasks of the library.
    let of_sockets = most.as_ref().is_some_and(|most| most.kind == Kind::Sockets || most.name == "socket");
    // Of a connection with both ends here, who asks decides how long it lives.
    let both_ends = most.as_ref().is_some_and(|most| most.kind == Kind::Others);
    let asker = if of_sockets && (both_ends || opener.is_none()) { asks(scene) } else { None };
    let opener = asker.or(opener);
    let likely = if opener.is_none() { worker(scene) } else { None };
    let by = match (&opener, &likely) {
        (Some((_, name)), _) => format!("; opened in {name}"),
        (None, Some((_, name))) => format!("; most work meanwhile is in {name}"),
        (None, None) => String::new(),
    };
    evidence.extend(opener.or(likely).map(|(evidence, _)| evidence));
    let hung_up = most
        .as_ref()
        .filter(|most| most.kind == Kind::Accepted)
        .and_then(|most| hung_up(scene, pid, &most.name));
    if let Some((count, all)) = hung_up {
        let text = format!(
            "{} of {} of these are in state CLOSE_WAIT: the other end has hung up, and they were not closed",
            number(count),
            number(all)
        );
        evidence.insert(1, fact(text, Some(Value::Count(count))));
    }
    let closed_by_peer =
        most.as_ref().is_some_and(|most| most.name.contains("close-wait")) || hung_up.is_some();
    let mut explanation = "Most likely something is opened and not closed, or connections come faster than they are served. At the \
                           limit of open files new connections and files fail."
        .to_owned();
    if closed_by_peer {
        explanation.push_str(
            " In state close-wait the other end has closed long ago, and this process has not: an answer that was never read to its \
             end or disposed, or a client object per request.",
        );
    }
    Some(Finding {
        id: FindingId::DescriptorGrowth,
        severity: Severity::Warning,
        impact: ((trend.last - trend.first) / trend.last.max(1.0)).clamp(0.05, 1.0),
        title: format!(
            "Open files or sockets pile up: from {} to {} in {}{what}{by}",
            number(trend.first),
            number(trend.last),
            seconds(scene.seconds)
        ),
        explanation,
        evidence,
        next_steps: steps(&[
            "Compare the list of open files at the start with the one at the end (folder `target` of the recording)",
            "See that each is closed or disposed on every path, also after errors",
        ]),
    })
}

/// Of what there is more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A file of this name.
    Files,
    /// Sockets to this peer.
    Sockets,
    /// Connections that others made to this address.
    Accepted,
    /// Of this kind: `eventfd`, `pipe`, `socket`.
    Others,
}

/// Functions that make descriptors of a kind, by its word in the list.
fn makers(kind: &str) -> &'static [&'static str] {
    match kind {
        // A file that was removed while it was open.
        "deleted" => FILES,
        "epoll" => &["do_epoll_create", "__x64_sys_epoll_create1"],
        "eventfd" => &["do_eventfd", "__x64_sys_eventfd2"],
        "inotify" => &["do_inotify_init", "__x64_sys_inotify_init1"],
        "memfd" => &["__x64_sys_memfd_create"],
        "perf" => &["__x64_sys_perf_event_open"],
        "pidfd" => &["__x64_sys_pidfd_open"],
        "pipe" => &["do_pipe2", "__x64_sys_pipe2"],
        "socket" => &["__sys_socket", "__sys_socketpair", "__sys_accept4"],
        "timerfd" => &["do_timerfd_create", "__x64_sys_timerfd_create"],
        _ => OTHERS,
    }
}

/// What makes any.
const ANY: &[&str] =
    &["socket", "pipe", "eventfd", "epoll", "timerfd", "inotify", "memfd", "perf", "pidfd", ""];

/// What grew most between the lists at the start and at the end.
struct Grown {
    name: String,
    kind: Kind,
    before: u64,
    more: u64,
}

impl Grown {
    fn words(&self) -> String {
        let name = self.name.replace('`', "'");
        match self.kind {
            Kind::Files => format!("`{name}`"),
            Kind::Sockets => format!("sockets `{name}`"),
            Kind::Accepted => format!("connections that were accepted at `{name}`"),
            Kind::Others => format!("descriptors of kind `{name}`"),
        }
    }
}

fn most_grown(scene: &Scene<'_>, pid: &str) -> Option<Grown> {
    let text = |name: &'static str| {
        let wanted = format!("target/{pid}/{name}");
        scene.capture.context.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.as_str())
    };
    let files = compare(text("descriptors.txt"), text("descriptors-end.txt"), file_of);
    let sockets = compare(text("sockets.txt"), text("sockets-end.txt"), peer_of);
    let accepted = compare(text("sockets.txt"), text("sockets-end.txt"), accepted_at);
    let others = compare(text("descriptors.txt"), text("descriptors-end.txt"), kind_of);
    // Of equals the last one is taken: a name says more than a kind.
    let (kind, (name, before, more)) = others
        .map(|row| (Kind::Others, row))
        .into_iter()
        .chain(files.map(|row| (Kind::Files, row)))
        .chain(sockets.map(|row| (Kind::Sockets, row)))
        .chain(accepted.map(|row| (Kind::Accepted, row)))
        .max_by_key(|(_, (name, _, more))| (*more, std::cmp::Reverse(*name)))?;
    (more >= 2).then(|| Grown { name: name.chars().take(LONGEST).collect(), kind, before, more })
}

/// The name that is there more often in `after` than in `before`: name, count before, how many more.
fn compare<'t>(
    before: Option<&'t str>,
    after: Option<&'t str>,
    name_of: fn(&'t str) -> Option<(&'t str, u64)>,
) -> Option<(&'t str, u64, u64)> {
    let count = |text: &'t str| {
        let mut counts: FxHashMap<&str, u64> = FxHashMap::default();
        for (name, count) in text.lines().take(LINES).filter_map(name_of) {
            let sum = counts.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        counts
    };
    let (before, after) = (count(before?), count(after?));
    let more = |name: &str, now: u64| now.saturating_sub(before.get(name).copied().unwrap_or(0));
    let (name, now) =
        after.into_iter().max_by(|a, b| more(a.0, a.1).cmp(&more(b.0, b.1)).then_with(|| b.0.cmp(a.0)))?;
    Some((name, before.get(name).copied().unwrap_or(0), more(name, now)))
}

/// The path in a line of the list of descriptors, where it is one of a file.
fn file_of(line: &str) -> Option<(&str, u64)> {
    let (descriptor, rest) = line.trim_start().split_once("  ")?;
    descriptor.parse::<u32>().ok()?;
    let path = rest.strip_prefix("file")?.trim_start();
    let path = path.rsplit_once("  at ").map_or(path, |(path, _)| path);
    Some((path, 1)).filter(|_| path.starts_with('/'))
}

/// What a descriptor in the list is, where it is no file: `pipe`.
fn kind_of(line: &str) -> Option<(&str, u64)> {
    let (descriptor, rest) = line.trim_start().split_once("  ")?;
    descriptor.parse::<u32>().ok()?;
    let (kind, target) = rest.split_once(' ')?;
    (!target.trim().is_empty() && !matches!(kind, "file" | "device")).then_some((kind, 1))
}

/// State and peer of a line of the summary of sockets: `205  tcp6 [::1]:80 close-wait`.
fn peer_of(line: &str) -> Option<(&str, u64)> {
    let (count, rest) = line.strip_prefix("  ")?.trim_start().split_once("  ")?;
    let words = rest.split(' ').count();
    Some((rest, count.parse().ok()?)).filter(|_| words >= 3)
}

/// The own address of a connection: `tcp   127.0.0.1:80 -> 127.0.0.1:59173 established ...`. Whoever asks has another port each time, so
/// that only the side that was asked has many of one.
fn accepted_at(line: &str) -> Option<(&str, u64)> {
    let (table, rest) = line.split_once(' ')?;
    let (local, rest) = rest.trim_start().split_once(" -> ")?;
    let state = rest.split(' ').nth(1)?;
    let connected = matches!(state, "established" | "close-wait");
    (table.starts_with("tcp") && connected).then_some((local, 1))
}

/// How many of the connections that were accepted at `local` the other end has closed, where that is most of them; and all of them.
fn hung_up(scene: &Scene<'_>, pid: &str, local: &str) -> Option<(f64, f64)> {
    let wanted = format!("target/{pid}/sockets-end.txt");
    let (_, text) = scene.capture.context.iter().find(|(name, _)| **name == wanted)?;
    let lines =
        || text.lines().take(LINES).filter(|line| accepted_at(line).is_some_and(|(at, _)| at == local));
    let (all, closed) = (lines().count(), lines().filter(|line| line.contains(" close-wait")).count());
    (closed >= 2 && closed * 2 >= all).then_some((closed as f64, all as f64))
}

/// The function of the program that accepts connections: by its CPU time in it, else by where it waits for them.
fn accepter(scene: &Scene<'_>) -> Option<(Evidence, String)> {
    const ACCEPTS: [&str; 4] = ["inet_csk_accept", "__sys_accept4", "accept4", "accept"];
    if let Some(known) = opener(scene, &["__sys_accept4", "inet_csk_accept"]) {
        return Some(known);
    }
    let tree = &scene.analysis.flames.all.waiting;
    let (function, share) = scene.caller_of(tree, |_, row| ACCEPTS.contains(&row.name.as_str()))?;
    let name = scene.function_name(Some(function))?;
    let text = format!("{} of the time in which connections are waited for is below {name}", percent(share));
    (share >= OPENER).then(|| (at(Reference::Function(function), text, Some(Value::Share(share))), name))
}

/// How names of functions begin by which libraries ask over connections of their own; those on the stack of who asks, for the rest of it runs
/// elsewhere.
const CLIENTS: &[&str] = &[
    "net/http.(*Client).",
    "net/rpc.Dial",
    "database/sql.(*DB).",
    "System.Net.Http.HttpClient.",
    "System.Net.Http.HttpMessageInvoker.",
    "System.Net.Http.SocketsHttpHandler.",
    "System.Net.Sockets.TcpClient.",
    "java.net.http.HttpClient",
    "jdk.internal.net.http.",
    "sun.net.www.protocol.http.",
    "HTTPConnection.",
    "create_connection",
    "ClientRequest",
];

/// The function of the program that asks by a client of a library, by its CPU time in that, else by its waits.
fn asks(scene: &Scene<'_>) -> Option<(Evidence, String)> {
    let flames = &scene.analysis.flames.all;
    let is_client = |row: &FunctionRow| {
        row.whose != Whose::Program && CLIENTS.iter().any(|known| row.name.starts_with(known))
    };
    let found = |tree| scene.caller_of(tree, |_, row| is_client(row)).filter(|(_, share)| *share >= OPENER);
    let (function, share, what) =
        found(&flames.cpu)
            .map(|(function, share)| (function, share, "CPU time"))
            .or_else(|| found(&flames.waiting).map(|(function, share)| (function, share, "waiting")))?;
    scene.row(function).filter(|row| row.whose == Whose::Program)?;
    let name = scene.function_name(Some(function))?;
    let text = format!(
        "{} of the {what} in clients of libraries is below {name}: the connections are theirs",
        percent(share)
    );
    Some((at(Reference::Function(function), text, Some(Value::Share(share))), name))
}

/// Opening may take too little time to be seen: what the program does meanwhile is the next best that is known.
fn worker(scene: &Scene<'_>) -> Option<(Evidence, String)> {
    let (function, share) =
        scene.program_of(&scene.analysis.flames.all.cpu).filter(|(_, share)| *share >= WORKS)?;
    let name = scene.function_name(Some(function))?;
    let text = format!(
        "{} of its CPU time meanwhile is in {name}: likely what opens them, for opening itself was not seen",
        percent(share)
    );
    Some((at(Reference::Function(function), text, Some(Value::Share(share))), name))
}

/// The function of the program that opens, by CPU samples.
fn opener(scene: &Scene<'_>, names: &[&str]) -> Option<(Evidence, String)> {
    let tree = &scene.analysis.flames.all.cpu;
    let opens = |_, row: &FunctionRow| {
        names.iter().any(|name| match row.kind {
            FunctionKind::Kernel => row.name == *name,
            FunctionKind::Native | FunctionKind::Jit | FunctionKind::Heading | FunctionKind::Unknown => {
                row.name.contains(name)
            }
        })
    };
    let closes = |row: &FunctionRow| {
        row.whose != Whose::Program && CLOSE_THEMSELVES.iter().any(|known| row.name.starts_with(known))
    };
    let (function, share) = scene.caller_outside_of(tree, opens, closes)?;
    let name = name_with_maker(scene.analysis, tree, function)?;
    let text = format!("{} of the CPU time in opening them is below {name}", percent(share));
    (share >= OPENER).then(|| (at(Reference::Function(function), text, Some(Value::Share(share))), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_lists() {
        assert_eq!(file_of("   751  file        /tmp/a b.nupkg  at 12"), Some(("/tmp/a b.nupkg", 1)));
        assert_eq!(file_of("   751  file        /tmp/a.nupkg"), Some(("/tmp/a.nupkg", 1)));
        assert_eq!(file_of("   725  file"), None);
        assert_eq!(kind_of("   456  eventfd     anon_inode:[eventfd]"), Some(("eventfd", 1)));
        assert_eq!(kind_of("   456  pipe        pipe:[77]"), Some(("pipe", 1)));
        assert_eq!(kind_of("   751  file        /tmp/a"), None);
        assert_eq!(kind_of("   725  eventfd"), None, "how many there are");
        assert_eq!(file_of("   456  socket      socket:[4009890]"), None);
        assert_eq!(
            peer_of("     205  tcp6 [::1]:43137 close-wait"),
            Some(("tcp6 [::1]:43137 close-wait", 205))
        );
        assert_eq!(peer_of("     205  tcp6 close-wait"), None);
        let line = "tcp   127.0.0.1:80 -> 127.0.0.1:59173 established to send 0 descriptor 4";
        assert_eq!(accepted_at(line), Some(("127.0.0.1:80", 1)));
        assert_eq!(accepted_at("tcp   127.0.0.1:80 -> 0.0.0.0:0 listening"), None);
        assert_eq!(accepted_at("     205  tcp6 [::1]:43137 close-wait"), None);
        assert_eq!(peer_of("tcp   127.0.0.1:43137 -> 0.0.0.0:0 listening"), None);
    }

    #[test]
    fn what_grew_most_is_told() {
        let before = "3 open\n\n     1  file\n\n     3  file        /a\n     4  file        /b\n";
        let after = "6 open\n\n     5  file\n\n     3  file        /a\n     4  file        /b\n     5  file        /b\n     6  file        /b  at 9\n";
        assert_eq!(compare(Some(before), Some(after), file_of), Some(("/b", 1, 2)));
        assert_eq!(compare(None, Some(after), file_of), None);
    }
}
