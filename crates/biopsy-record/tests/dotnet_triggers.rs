//! Triggers on what .NET processes say of themselves.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use biopsy_model::Pid;
use biopsy_record::triggers::{Fired, Trigger, Watch, WatchError, WatchOptions, Watched};
use biopsy_target::ProcRoot;
use biopsy_target::identity::key_of;
use biopsy_testkit::{
    DOTNET_RUNTIMES, DotNetServer, Privilege, Program, Survival, TargetProcess, require, require_all,
};

/// Waits for one trigger, while something is done to make it come true.
fn fired(pid: u32, trigger: &str, act: impl FnOnce()) -> Fired {
    let key = key_of(&ProcRoot::live(), Pid(pid)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let options = WatchOptions { stop: Arc::clone(&stop), ..WatchOptions::default() };
    let mut watch = Watch::new(&key, vec![Trigger::parse(trigger).unwrap()], options).unwrap();
    assert_eq!(watch.warnings(), [] as [&str; 0]);
    act();
    // What never comes ends the test, not the machine's patience.
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(25));
        stop.store(true, Ordering::Relaxed);
    });
    match watch.next().unwrap() {
        Watched::Fired(fired) => *fired,
        Watched::Ended(end) => panic!("`{trigger}` did not fire: {end:?}"),
    }
}

/// The same, while something is done again and again until it has.
fn fired_while(pid: u32, trigger: &str, act: impl Fn()) -> Fired {
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| fired(pid, trigger, || {}));
        while !watch.is_finished() {
            act();
            std::thread::sleep(Duration::from_millis(200));
        }
        watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn each_kind_fires_on_each_version() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let server = DotNetServer::start(runtime, &["--log", "None"]);
        let pid = server.pid();
        let thrown = fired(pid, "exception:FormatException", || server.fall_ill("exception-storm"));
        server.recover("exception-storm");
        assert!(thrown.reason.starts_with("exception thrown: System.FormatException: "), "{}", thrown.reason);
        // What a thread said last may come with what it says next.
        let heap = fired_while(pid, "gc-heap>100K", || drop(server.request("POST", "/api/collect").unwrap()));
        assert!(heap.value.unwrap() > 1e5, "{}", heap.reason);
        let oldest =
            fired_while(pid, "gc-gen2>10K", || drop(server.request("POST", "/api/collect").unwrap()));
        assert!(oldest.reason.starts_with("generation 2 > "), "{}", oldest.reason);
        let queue = fired(pid, "threadpool-queue>=0", || {});
        assert!(queue.reason.starts_with("thread pool queue >= 0: "), "{}", queue.reason);
        let counter = fired(pid, "counter:threadpool-thread-count>0", || {});
        assert!(counter.reason.starts_with("`threadpool-thread-count` > 0: "), "{}", counter.reason);
        let meter = fired(pid, "counter:Targets.Server/server.queue.length>=0", || {});
        assert!(meter.value.is_some(), "{}", meter.reason);
        let status = fired(pid, "request-status>=400", || {
            server.get("/no/such/page").unwrap();
        });
        assert_eq!(status.value, Some(404.0), "{}", status.reason);
        server.fall_ill("slow-upstream");
        let slow = fired(pid, "request>1s", || drop(server.send("GET", "/api/feeds/web")));
        assert!(slow.reason.contains("/feed"), "{}", slow.reason);
        server.recover("slow-upstream");
        server.stop();
    }
}

#[test]
fn the_target_is_as_before_when_the_watch_ends() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let server = DotNetServer::start("net8.0", &["--log", "None"]);
    drop(fired(server.pid(), "counter:threadpool-thread-count>0", || {}));
    let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
    drop(fired(server.pid(), "counter:threadpool-thread-count>0", || {}));
    survival.assert_unharmed();
    server.stop();
}

#[test]
fn an_exception_that_nobody_catches_holds_the_process() {
    if !require_all(&[Privilege::DotNetTargets, Privilege::Ptrace]) {
        return;
    }
    let server = DotNetServer::start("net10.0", &["--log", "None"]);
    let held = fired(server.pid(), "unhandled-exception", || server.fall_ill("unhandled-exception"));
    assert!(held.caught.is_some());
    assert!(held.reason.contains("SIGABRT"), "{}", held.reason);
}

#[test]
fn a_process_without_a_runtime_is_refused() {
    let target = TargetProcess::start(Program::Idle, &[]);
    let key = key_of(&ProcRoot::live(), Pid(target.pid())).unwrap();
    let triggers = vec![Trigger::parse("gc-heap>1G").unwrap()];
    match Watch::new(&key, triggers, WatchOptions::default()) {
        Err(WatchError::DotNet { .. }) => {}
        other => panic!("{other:?}"),
    }
}
