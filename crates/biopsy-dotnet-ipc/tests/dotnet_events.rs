//! Real streams, read and collected, beside the reader of the tools' own authors.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use biopsy_dotnet::events::{self, Collector};
use biopsy_dotnet::methods::{MethodMap, feed_payload};
use biopsy_dotnet::nettrace::{End, Limits, Reader};
use biopsy_dotnet_ipc::{Client, EventLevel, Provider, Rundown, SessionConfig};
use biopsy_model::Pid;
use biopsy_model::runtime_trace::{RuntimeStack, RuntimeTrace};
use biopsy_testkit::{
    DOTNET_RUNTIMES, DotNetServer, PACKAGED_DOTNET, Privilege, dotnet_peer, packaged_dotnet_target, require,
    temp_dir,
};
use serde_json::Value;

/// Collections, loader, compiler, contention, exceptions, thread pool, with stacks; activities; what the application does.
fn providers() -> Vec<Provider> {
    vec![
        Provider::new("System.Threading.Tasks.TplEventSource", 0x80, EventLevel::Informational),
        Provider::new("Microsoft-Windows-DotNETRuntime", 0x4001_d039, EventLevel::Verbose),
        Provider::new("Microsoft.AspNetCore.Hosting", u64::MAX, EventLevel::Informational),
        Provider::new("System.Net.Http", u64::MAX, EventLevel::Informational),
        Provider::new("Microsoft.Data.SqlClient.EventSource", 1, EventLevel::Informational),
        Provider::new("Microsoft-Extensions-Logging", 0xc, EventLevel::Verbose)
            .with_arguments("FilterSpecs=\"*:Information;Targets*:Debug\""),
        Provider::new("System.Runtime", 0, EventLevel::Critical).with_arguments("EventCounterIntervalSec=1"),
    ]
}

/// Records while `meanwhile` runs, to the last byte.
fn record(pid: u32, meanwhile: impl FnOnce()) -> Vec<u8> {
    let client = Client::of(Pid(pid)).unwrap();
    let config =
        SessionConfig { buffer_mb: 64, rundown: Rundown::Default, stacks: true, providers: providers() };
    let mut session = client.start_session(&config).unwrap();
    let control = session.control().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        session.read_to_end(&mut bytes).unwrap();
        bytes
    });
    meanwhile();
    control.stop(Duration::from_secs(20)).unwrap();
    reading.join().unwrap()
}

fn collect(bytes: &[u8]) -> RuntimeTrace {
    let mut reader = Reader::new(bytes, &Limits::default()).unwrap();
    reader.sort_by_time(true);
    let mut methods = MethodMap::new();
    let limits = events::Limits::default();
    let mut collector = Collector::new(Pid(0), "test".to_owned(), &limits, str::to_owned);
    let mut before = 0;
    while let Some(event) = reader.next_event().unwrap() {
        assert!(event.ticks >= before, "in order of time");
        before = event.ticks;
        collector.event(&event);
        let kind = event.metadata;
        feed_payload(&mut methods, &kind.provider, kind.id, kind.version, event.payload, event.time);
    }
    assert_eq!(reader.end(), Some(End::Complete));
    collector.lost(reader.lost(), reader.unknown(), false);
    collector.finish(&methods)
}

/// What the authors' own reader finds.
fn reference(bytes: &[u8], folder: &Path) -> Option<Value> {
    let file = folder.join("trace.nettrace");
    std::fs::write(&file, bytes).unwrap();
    let output = dotnet_peer("nettrace-check", &[file.to_str().unwrap(), "--no-stacks", "--top", "0"])?;
    assert!(output.status.success(), "nettrace-check: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn assert_equal(trace: &RuntimeTrace, reference: &Value, runtime: &str) {
    let number = |path: &str| reference.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let of = |provider: &str, id: u32| -> u64 {
        let ending = format!("({id})");
        let found =
            trace.providers.iter().filter(|one| one.provider == provider && one.event.ends_with(&ending));
        found.map(|one| one.count).sum()
    };
    let all: u64 = trace.providers.iter().map(|one| one.count).sum();
    assert_eq!(all, number("/events"), "{runtime}: events");
    assert_eq!(trace.lost, number("/lostEvents"), "{runtime}: lost events");
    for (provider, found) in reference.get("eventCounts").and_then(Value::as_object).unwrap() {
        for event in found.get("byName").and_then(Value::as_array).unwrap() {
            let id = event.get("id").and_then(Value::as_u64).unwrap() as u32;
            // The reference turns `GCDynamicEvent` (39) into events of its own numbers.
            if id < 60_000 {
                let ids = found.get("byName").and_then(Value::as_array).unwrap();
                let same = ids.iter().filter(|one| one.get("id") == event.get("id"));
                let count: u64 = same.filter_map(|one| one.get("count")?.as_u64()).sum();
                assert_eq!(of(provider, id), count, "{runtime}: {provider} {id}");
            }
        }
    }
    // The stream may stop between the end of the last one and that of its pause: the reference does not count it then.
    let ended = trace.collections.items.iter().filter(|one| one.end.is_some() && one.pause.0 > 0);
    let pause: u64 = ended.clone().map(|one| one.pause.0).sum();
    assert_eq!(ended.count() as u64, number("/gc/count"), "{runtime}: collections");
    let expected = reference.pointer("/gc/pauseMs").and_then(Value::as_f64).unwrap();
    assert!((pause as f64 / 1e6 - expected).abs() < 0.01, "{runtime}: paused {pause} ns, {expected} ms");
    assert_eq!(trace.exceptions.total, number("/exceptions/count"), "{runtime}: exceptions");
    let grouped: u64 = trace.exception_groups.iter().map(|group| group.count).sum();
    assert_eq!(grouped, trace.exceptions.total, "{runtime}: exceptions in groups");
    let waits = number("/contention/starts").max(number("/contention/stops"));
    assert!(trace.contentions.total >= waits, "{runtime}: {} waits, {waits}", trace.contentions.total);
    assert_eq!(trace.requests.total, number("/http/serverStart"), "{runtime}: requests");
    assert_eq!(trace.outgoing.total, number("/http/clientStart"), "{runtime}: requests sent");
    assert_eq!(trace.commands.total, of("Microsoft.Data.SqlClient.EventSource", 1), "{runtime}: commands");
    let logged = reference.pointer("/logging/byEvent/FormattedMessage").and_then(Value::as_u64).unwrap_or(0);
    assert_eq!(trace.messages.total, logged, "{runtime}: messages");
    let counters = reference.get("counters").and_then(Value::as_object).unwrap();
    let readings: u64 = counters.values().filter_map(|one| one.get("samples")?.as_u64()).sum();
    let rows: usize = trace.counters.iter().map(|table| table.rows.len()).sum();
    assert_eq!(rows as u64, readings, "{runtime}: readings");
    assert_eq!(trace.unknown, 0, "{runtime}: all is understood");
}

fn has_frame(trace: &RuntimeTrace, stack: Option<RuntimeStack>, name: &str) -> bool {
    let Some(stack) = stack else { return false };
    let mut frames = trace.stacks[stack.0 as usize].iter();
    frames.any(|frame| trace.functions[*frame as usize].name.contains(name))
}

#[test]
fn counts_of_a_sick_server_are_those_of_the_reference_and_the_causes_are_named() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let server = DotNetServer::start(runtime, &[]);
        for path in ["/api/releases", "/api/releases/1", "/api/feeds/web"] {
            assert_eq!(server.get(path).unwrap().0, 200, "{path}");
        }
        for mode in ["exception-storm", "lock-convoy", "alloc-storm", "n-plus-one"] {
            server.fall_ill(mode);
        }
        let bytes = record(server.pid(), || {
            for _ in 0..2 {
                assert_eq!(server.get("/api/releases").unwrap().0, 200);
                assert_eq!(server.get("/api/feeds/web?key=secret").unwrap().0, 200);
            }
            std::thread::sleep(Duration::from_secs(1));
        });
        server.stop();
        let trace = collect(&bytes);
        let folder = temp_dir("dotnet-events");
        if let Some(reference) = reference(&bytes, folder.path()) {
            assert_equal(&trace, &reference, runtime);
        }
        assert_eq!(trace.runtime.entry.as_deref(), Some("server.dll"), "{runtime}");

        let storm = &trace.exception_groups[0];
        assert_eq!(storm.type_name, "System.FormatException", "{runtime}");
        assert!(has_frame(&trace, storm.stack, "VersionParser.ParseMajorOrZero"), "{runtime}");
        let convoy = trace.contention_groups.iter().take(3);
        assert!(convoy.clone().any(|group| has_frame(&trace, group.stack, "LogWriterConvoy")), "{runtime}");
        assert!(
            trace.contentions.items.iter().any(|wait| wait.lock.is_some() && wait.owner.is_some()),
            "{runtime}"
        );
        assert!(trace.collections.total > 0, "{runtime}");
        let storm = trace.allocation_groups.iter().take(5);
        assert!(
            storm.clone().any(|group| has_frame(&trace, group.stack, "LogFormatter.FormatLine")),
            "{runtime}"
        );

        // 201 commands on behalf of each of the requests, through awaits, while other requests run.
        let group = trace.request_groups.iter().find(|group| group.route == "/api/releases").unwrap();
        // The mode itself asks too.
        assert!(group.count >= 2, "{runtime}: {group:?}");
        assert_eq!(group.children.1, 201, "{runtime}");
        assert_eq!(
            trace.command_groups.iter().map(|one| one.most_in_one_request).max(),
            Some(200),
            "{runtime}"
        );
        let feed = trace.requests.items.iter().find(|one| one.path == "/api/feeds/web").unwrap();
        assert_eq!((feed.method.as_str(), feed.children), ("GET", 1), "{runtime}");
        assert!(
            trace.outgoing.items.iter().all(|one| one.status == Some(200) || one.duration.is_none()),
            "{runtime}"
        );
    }
}

#[test]
fn streams_of_other_versions_are_read_too() {
    let folder = temp_dir("dotnet-events-packaged");
    for version in PACKAGED_DOTNET {
        let Some((target, _)) = packaged_dotnet_target(version, &["leak=1"]) else { continue };
        let bytes = record(target.pid(), || std::thread::sleep(Duration::from_secs(2)));
        let trace = collect(&bytes);
        if let Some(reference) = reference(&bytes, folder.path()) {
            assert_equal(&trace, &reference, version);
        }
        let thrown = trace.exception_groups.iter().find(|group| group.type_name == "System.FormatException");
        let thrown = thrown.unwrap_or_else(|| panic!("{version}: {:?}", trace.exception_groups));
        assert!(has_frame(&trace, thrown.stack, "Program.ThrowAndCatch"), "{version}");
        assert!(trace.counters.iter().any(|table| !table.rows.is_empty()), "{version}");
    }
}
