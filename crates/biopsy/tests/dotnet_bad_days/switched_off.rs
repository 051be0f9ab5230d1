//! What was switched on is off again: after an end in peace, and after a SIGKILL at any moment.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use biopsy_dotnet::heap::{Heap, HeapOptions};
use biopsy_dotnet::runtime::{FieldPlace, Options, Runtime, TypeHandle, find_runtimes};
use biopsy_model::{Avma, Pid};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{DOTNET_RUNTIMES, DotNetServer, Privilege, Survival, at_once, require_all, temp_dir};

use crate::support::{biopsy, capture};

/// Requests with their filters, messages at the lowest level, allocations: everything that can be switched on.
const EVERYTHING: [&str; 4] = ["--requests", "--allocations", "--log-level", "Debug"];

/// Threads that the runtime has for sessions.
fn sessions(pid: u32) -> usize {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b".NET EventPipe")).count()
}

/// What is on, as the memory of the process has it: event sources that are enabled, listeners that are subscribed to, the filter of
/// the source of log messages and of diagnostic sources, the meters that are listened to.
fn switched_on(pid: u32) -> BTreeMap<String, u64> {
    for _ in 0..50 {
        let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
        let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
        let image = freeze(plan(&[key], &options).expect("it runs"), &options).expect("it can be frozen");
        let image = image.into_iter().next().expect("one process");
        let found = find_runtimes(&image);
        let runtime = Runtime::open(Box::new(&image), &found[0], &Options::default()).expect("it is known");
        // A collection is under way.
        let Ok(heap) = Heap::open(&runtime) else { continue };
        let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).expect("it can be walked");
        let _ = heap.find_live(&mut graph, &mut problems).expect("its roots are known");
        let mut on = BTreeMap::new();
        for object in graph.objects() {
            let Some(of) = graph.type_of(object.of).filter(|of| !of.is_free && of.method_table != Avma(0))
            else {
                continue;
            };
            if !graph.live().is_some_and(|live| live.contains(object.index.0 as usize)) {
                continue;
            }
            let watched: &[&str] = match of.name.as_str() {
                "System.Diagnostics.DiagnosticListener" => &["_subscriptions"],
                "System.Diagnostics.DiagnosticSourceEventSource" => &["m_eventSourceEnabled", "_specs"],
                "System.Diagnostics.Metrics.MeterListener" => &["_enabledMeasurementInstruments"],
                name if name.ends_with("EventSource") || name.ends_with("EventLog") => {
                    &["m_eventSourceEnabled"]
                }
                _ => continue,
            };
            for field in watched {
                let Ok(Some(found)) = runtime.find_field(TypeHandle(of.method_table), field) else {
                    continue;
                };
                let FieldPlace::Instance(offset) = found.place else { continue };
                let at = Avma(object.address.0 + 8 + u64::from(offset));
                let value = match *field {
                    "m_eventSourceEnabled" => runtime.read_u32(at).map(|word| u64::from(word & 0xff)),
                    // A reference: there is something, or nothing.
                    _ => runtime.read_u64(at).map(|value| u64::from(value != 0)),
                };
                // A linked list of its own that is there once and for all.
                if *field != "_enabledMeasurementInstruments" && value.expect("it is there") != 0 {
                    *on.entry(format!("{} {field}", of.name)).or_insert(0) += 1;
                }
            }
        }
        return on;
    }
    panic!("it always collects");
}

/// How many kills each runtime gets: `BIOPSY_KILLS` for more than two.
fn kills() -> u32 {
    std::env::var("BIOPSY_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// Milliseconds after the first session began: another one in each run.
fn some_moment(kill: u32) -> u64 {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .subsec_nanos();
    // Half of them while sessions are opened and replaced.
    u64::from(nanos / 1000) % if kill.is_multiple_of(2) { 2500 } else { 400 }
}

/// Kills a recording some time after its first session began, and returns when none is on any more.
fn kill_a_recording(server: &DotNetServer, arguments: &[&str], after: u64) {
    let before = sessions(server.pid());
    let folder = temp_dir("killed");
    let pid = server.pid().to_string();
    let mut command = biopsy(&["capture", &pid, "--for", "1h", "--quiet", "--output"]);
    command.arg(folder.path().join("recording.zip")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while sessions(server.pid()) == before && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(after));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while sessions(server.pid()) != before {
        assert!(killed.elapsed() < Duration::from_secs(25), "{after} ms: sessions are on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn after_an_end_and_after_a_kill_at_any_moment_nothing_is_on() {
    if !require_all(&[Privilege::Perf, Privilege::Bpf, Privilege::Ptrace, Privilege::DotNetTargets]) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |runtime| {
        let server = DotNetServer::start(runtime, &["--log", "None"]);
        server.get("/api/releases/1").unwrap();
        let untouched = switched_on(server.pid());
        drop(capture(server.pid(), 1, &EVERYTHING));
        assert_eq!(switched_on(server.pid()), untouched, "{runtime}: after an end in peace");

        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        for kill in 0..kills() {
            let arguments = if kill % 4 == 3 { &[][..] } else { &EVERYTHING[..] };
            let after = some_moment(kill);
            kill_a_recording(&server, arguments, after);
            // The runtime tells the sources one after the other, when the session itself has ended. Nothing else is done here: no
            // later session that would mend what this one left.
            let deadline = Instant::now() + Duration::from_secs(8);
            while switched_on(server.pid()) != untouched && Instant::now() < deadline {}
            let left = switched_on(server.pid());
            assert_eq!(left, untouched, "{runtime}: kill {kill} after {after} ms: left on");
        }
        survival.assert_unharmed();
        server.stop();
    });
}

#[test]
fn what_is_on_while_recording_is_seen() {
    if !require_all(&[Privilege::Perf, Privilege::Bpf, Privilege::Ptrace, Privilege::DotNetTargets]) {
        return;
    }
    // Without this, the test above could look past everything.
    let server = DotNetServer::start("net9.0", &["--log", "None"]);
    server.get("/api/releases/1").unwrap();
    let untouched = switched_on(server.pid());
    let pid = server.pid();
    let recording = std::thread::spawn(move || drop(capture(pid, 4, &EVERYTHING)));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut on = switched_on(pid);
    while on == untouched && Instant::now() < deadline {
        on = switched_on(pid);
    }
    recording.join().unwrap();
    assert!(on.keys().any(|name| name.contains("RuntimeEventSource")), "{on:?}");
    server.stop();
}
