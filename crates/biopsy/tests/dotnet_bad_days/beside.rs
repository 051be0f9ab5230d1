//! Another tool beside us: both record the same process, both count the same, and theirs goes on when ours has ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use biopsy_dotnet::nettrace::{Limits, Reader};
use biopsy_model::MonoNanos;
use biopsy_testkit::{
    DotNetServer, Privilege, Signal, Survival, dotnet_peer, dotnet_peer_command, require_all, send_signal,
    temp_dir,
};
use serde_json::Value;

use crate::support::{biopsy, report};

const LIVE: &[Privilege] = &[Privilege::Perf, Privilege::Bpf, Privilege::DotNetTargets];

/// The same as `--requests --log-level Information` asks for, in one session: levels and filters of log messages are those of whoever
/// came last, for all tools.
const PROVIDERS: &str = concat!(
    "Microsoft-Windows-DotNETRuntime:0x1c009:4,Microsoft.AspNetCore.Hosting:0xffffffffffffffff:4,System.Net.Http:0x1:4,",
    "Microsoft.Data.SqlClient.EventSource:0x1:4,Microsoft-Extensions-Logging:0x4:4:",
    "FilterSpecs=\"*:Information;Microsoft.AspNetCore.Hosting.Diagnostics*:Information\"",
);

/// What is counted: a word for it, its provider, and how the name of the event begins or its number.
const KINDS: [(&str, &str, u32); 8] = [
    ("collections", "Microsoft-Windows-DotNETRuntime", 1),
    ("exceptions", "Microsoft-Windows-DotNETRuntime", 80),
    ("contentions", "Microsoft-Windows-DotNETRuntime", 91),
    ("requests", "Microsoft.AspNetCore.Hosting", 3),
    ("answers", "Microsoft.AspNetCore.Hosting", 4),
    ("requests sent", "System.Net.Http", 1),
    ("commands", "Microsoft.Data.SqlClient.EventSource", 1),
    ("messages", "Microsoft-Extensions-Logging", 0),
];

/// When each event of a kind was, in the order of the stream; and what was lost.
#[derive(Default)]
struct Heard {
    times: BTreeMap<&'static str, Vec<MonoNanos>>,
    lost: u64,
}

impl Heard {
    fn read(&mut self, file: &Path) {
        let file = std::fs::File::open(file).unwrap();
        let mut reader = Reader::new(std::io::BufReader::new(file), &Limits::default()).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let of = event.metadata;
            let kind = KINDS.iter().find(|(_, provider, id)| {
                *of.provider == **provider
                    && (of.id == *id || (*id == 0 && of.name.starts_with("FormattedMessage")))
            });
            if let Some((kind, ..)) = kind {
                self.times.entry(kind).or_default().push(event.time);
            }
        }
        self.lost += reader.lost();
    }

    fn all(&self, kind: &str) -> u64 {
        self.times.get(kind).map_or(0, |times| times.len() as u64)
    }

    fn within(&self, window: (MonoNanos, MonoNanos)) -> BTreeMap<&'static str, usize> {
        let count = |times: &Vec<MonoNanos>| {
            times.iter().filter(|time| (window.0..=window.1).contains(*time)).count()
        };
        self.times.iter().map(|(kind, times)| (*kind, count(times))).collect()
    }
}

/// Threads that the runtime has for sessions.
fn sessions(pid: u32) -> usize {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b".NET EventPipe")).count()
}

/// Returns when there are more sessions than `before`, and none has come for a while.
#[track_caller]
fn settled(pid: u32, before: usize) -> usize {
    let deadline = Instant::now() + Duration::from_secs(25);
    let (mut known, mut since) = (before, Instant::now());
    while known == before || since.elapsed() < Duration::from_millis(2500) {
        assert!(Instant::now() < deadline, "no session comes, or there is no end of them: {known}");
        let now = sessions(pid);
        if now != known {
            (known, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    known
}

/// A tool that is ended in any case.
struct Tool(Child);

impl Tool {
    fn end(mut self) {
        send_signal(self.0.id(), Signal::INT);
        let status = self.0.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Something of everything, and the time it took. The program does something now and then by itself, too.
fn load(server: &DotNetServer) -> (MonoNanos, MonoNanos) {
    let now = || MonoNanos(biopsy_sys::clock::monotonic_nanos());
    let from = now();
    for mode in ["exception-storm", "lock-convoy"] {
        server.fall_ill(mode);
        std::thread::sleep(Duration::from_millis(300));
        server.recover(mode);
    }
    for number in 0..40 {
        server.get("/api/releases/1").unwrap();
        if number % 8 == 0 {
            server.request("POST", "/api/collect").unwrap();
            server.get("/api/feeds/web").unwrap();
            server.get("/no/such/page").unwrap();
        }
    }
    (from, now())
}

/// dotnet-trace's file, and our recording of the same time.
fn record(runtime: &str, folder: &Path) -> (PathBuf, PathBuf, (MonoNanos, MonoNanos)) {
    let server = DotNetServer::start(runtime, &["--log", "None"]);
    let (theirs, ours) = (folder.join(format!("{runtime}.nettrace")), folder.join(runtime));
    let pid = server.pid().to_string();
    let before = sessions(server.pid());
    let arguments = [
        "collect",
        "-p",
        &pid,
        "--buffersize",
        "256",
        "--providers",
        PROVIDERS,
        "-o",
        theirs.to_str().unwrap(),
    ];
    let mut peer = dotnet_peer_command("dotnet-trace", &arguments).expect("the reference tools are there");
    peer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let peer = Tool(peer.spawn().unwrap());
    let with_theirs = settled(server.pid(), before);
    let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
    let mut command =
        biopsy(&["capture", &pid, "--for", "10m", "--quiet", "--folder", "--requests", "--output"]);
    command.arg(&ours).args(["--log-level", "Information"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let capture = Tool(command.spawn().unwrap());
    settled(server.pid(), with_theirs);
    let window = load(&server);
    std::thread::sleep(Duration::from_millis(300));
    capture.end();
    survival.assert_unharmed();
    for _ in 0..3 {
        server.request("POST", "/api/collect").unwrap();
    }
    peer.end();
    server.stop();
    (theirs, ours, window)
}

#[test]
fn both_count_the_same_and_theirs_goes_on_with_net_8() {
    both_count_the_same("net8.0");
}

#[test]
fn both_count_the_same_and_theirs_goes_on_with_net_9() {
    both_count_the_same("net9.0");
}

#[test]
fn both_count_the_same_and_theirs_goes_on_with_net_10() {
    both_count_the_same("net10.0");
}

fn both_count_the_same(runtime: &str) {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("beside");
    let (their_file, our_folder, window) = record(runtime, folder.path());
    let mut theirs = Heard::default();
    theirs.read(&their_file);
    let mut ours = Heard::default();
    for entry in std::fs::read_dir(our_folder.join("dotnet")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|ending| ending == "nettrace") {
            ours.read(&file);
        }
    }
    // Everything of the time that both were there for.
    let counted = ours.within(window);
    assert_eq!(counted, theirs.within(window), "{runtime}");
    for (kind, least) in [("collections", 5), ("exceptions", 10), ("contentions", 10), ("requests", 50)] {
        assert!(counted.get(kind) >= Some(&least), "{runtime}: {counted:?}");
    }
    for (kind, least) in [("answers", 50), ("requests sent", 5), ("commands", 40), ("messages", 200)] {
        assert!(counted.get(kind) >= Some(&least), "{runtime}: {counted:?}");
    }

    // Their file, as the reader of its authors counts it.
    let file = their_file.to_str().unwrap();
    let told = dotnet_peer("nettrace-check", &[file, "--top", "0", "--no-stacks"]).unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    for (kind, place) in [
        ("collections", "/gc/count"),
        ("exceptions", "/exceptions/count"),
        ("contentions", "/contention/stops"),
        ("requests", "/http/serverStart"),
        ("answers", "/http/serverStop"),
        ("requests sent", "/http/clientStart"),
        ("messages", "/logging/byEvent/FormattedMessage"),
    ] {
        assert_eq!(Some(theirs.all(kind)), told.pointer(place).and_then(Value::as_u64), "{runtime}: {kind}");
    }
    assert_eq!(Some(theirs.lost), told["lostEvents"].as_u64(), "{runtime}");

    // And ours, as the report says it.
    let report = report(&our_folder);
    let said = &report["runtimes"][0];
    let rows = |table: &str, field: &str| -> u64 {
        let rows = said[table].as_array().map_or(&[][..], Vec::as_slice);
        rows.iter().filter_map(|row| row[field].as_u64()).sum()
    };
    for (kind, number) in [
        ("collections", said["collections"]["total"].as_u64()),
        ("exceptions", said["exceptions_total"].as_u64()),
        ("contentions", said["contentions_total"].as_u64()),
        ("answers", Some(rows("requests", "count"))),
        ("commands", Some(rows("commands", "count"))),
        ("messages", said["messages_total"].as_u64()),
    ] {
        // What began before the session, or had not ended with it, may be in the stream by half: that is outside of the window.
        let least = match kind {
            "exceptions" | "messages" => ours.all(kind),
            _ => counted[kind] as u64,
        };
        let number = number.unwrap_or_default();
        assert!(
            (least..=ours.all(kind)).contains(&number),
            "{number} of {least}: {runtime}: {kind}: {said:#}"
        );
    }
    assert_eq!((said["lost"].as_u64(), ours.lost, theirs.lost), (Some(0), 0, 0), "{runtime}");

    // What came after we had gone.
    let after = theirs.within((window.1, MonoNanos(u64::MAX)));
    assert!(after.get("collections") >= Some(&3), "{runtime}: {after:?}");
}
