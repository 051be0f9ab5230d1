//! Stacks and locks of living programs, read from a frozen copy of their memory and compared with what the runtime's own reader
//! says.
#![expect(clippy::print_stdout, reason = "what was compared and skipped belongs on the terminal")]

use std::collections::BTreeMap;
use std::time::Duration;

use biopsy_dotnet::heap::{Heap, HeapOptions};
use biopsy_dotnet::locks::{LockKind, LockSources, WaitKind, inside_lock, locks};
use biopsy_dotnet::runtime::{Options, Runtime, find_runtimes};
use biopsy_dotnet::stack::{ManagedUnwind, method_text};
use biopsy_dotnet::tasks::{Operations, operations};
use biopsy_model::Pid;
use biopsy_model::stack::StackEnd;
use biopsy_stacks::image::{self, ImageStacks, ThreadStack};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{DOTNET_RUNTIMES, DotNetServer, Privilege, Survival, dotnet_peer, require_all};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];

/// Generous: what is tested is what is read, not how fast.
fn frozen(pid: u32) -> FrozenProcess {
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process")
}

fn open(image: &FrozenProcess) -> Runtime<'_> {
    let found = find_runtimes(image).pop().expect("a runtime");
    Runtime::open(Box::new(image), &found, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn stacks(image: &FrozenProcess, runtime: &Runtime<'_>) -> ImageStacks {
    let code = ManagedUnwind::new([runtime]);
    let options = image::Options {
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        ..image::Options::default()
    };
    image::walk(image, &options)
}

/// `MethodDesc` of each managed frame, innermost first.
fn methods(runtime: &Runtime<'_>, stacks: &ImageStacks, stack: &ThreadStack) -> Vec<u64> {
    let places = stack.frames.iter().filter_map(|frame| stacks.place(frame.place));
    let methods = places.filter_map(|place| runtime.find_method(place.address.0).ok().flatten());
    methods.map(|method| method.method_desc).filter(|method| *method != 0).collect()
}

/// Names of the methods of each thread, innermost first.
fn truth(pid: u32) -> Option<BTreeMap<u32, Vec<String>>> {
    let output = dotnet_peer("clrmd-truth", &[&pid.to_string(), "--stacks"])?;
    let document: Value = serde_json::from_slice(&output.stdout).expect("the oracle writes JSON");
    let threads = document["threads"].as_array().expect("threads").iter().map(|thread| {
        let frames = thread["frames"].as_array().into_iter().flatten();
        let managed = frames.filter(|frame| frame["kind"] == "ManagedMethod");
        let names = managed.filter_map(|frame| frame["name"].as_str().map(str::to_owned));
        (thread["osId"].as_u64().unwrap_or(0) as u32, names.collect())
    });
    Some(threads.collect())
}

#[test]
fn a_deadlock_of_monitors_is_read_whole() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let server = DotNetServer::sick(version, "deadlock-monitor");
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let frozen = frozen(server.pid());
        let runtime = open(&frozen);
        let stacks = stacks(&frozen, &runtime);
        let found = locks(&runtime, &LockSources::default()).expect("locks");
        assert!(found.problems.is_empty(), "{version}: {:?}", found.problems);

        let threads = runtime.threads().expect("threads");
        let id = |name: &str| {
            let thread = threads.iter().find(|thread| thread.name.as_deref() == Some(name));
            thread.unwrap_or_else(|| panic!("{version}: no thread {name}")).os_id
        };
        let (deploy, release) = (id("deploy-worker"), id("release-worker"));
        let cycles = found.cycles();
        assert_eq!(cycles.len(), 1, "{version}: {found:#?}");
        assert!(cycles[0].contains(&deploy) && cycles[0].contains(&release), "{version}: {cycles:?}");
        for (waiter, type_name, owner, method) in [
            (deploy, "ReleaseLock", release, "LockDeploymentThenRelease"),
            (release, "DeploymentLock", deploy, "LockReleaseThenDeployment"),
        ] {
            let wait = found.waits.iter().find(|wait| wait.os_id == waiter).expect("it waits");
            let lock = &found.locks[wait.lock];
            assert_eq!((wait.kind, lock.kind, lock.owner), (WaitKind::Enter, LockKind::Monitor, Some(owner)));
            assert!(lock.type_name.ends_with(type_name), "{version}: {}", lock.type_name);
            let stack = stacks.threads.iter().find(|stack| stack.tid.0 == waiter).expect("a stack");
            let names: Vec<String> = methods(&runtime, &stacks, stack)
                .into_iter()
                .filter_map(|method| Some(method_text(&runtime, method)?.shown))
                .collect();
            assert!(names.iter().any(|name| name.ends_with(method)), "{version}: {names:#?}");
        }

        let rooted = stacks.threads.iter().filter(|stack| stack.end == StackEnd::Root).count();
        assert_eq!(rooted, stacks.threads.len(), "{version}: stacks to the root");
        if let Some(truth) = truth(server.pid()) {
            compare(version, &runtime, &stacks, &truth, &[deploy, release]);
        }
        drop(runtime);
        drop(frozen);
        survival.assert_unharmed();
        server.stop();
    }
}

/// Equal methods at equal depth. Threads that moved on between the freeze and the look of the other reader differ; those that
/// cannot move must not.
fn compare(
    version: &str,
    runtime: &Runtime<'_>,
    stacks: &ImageStacks,
    truth: &BTreeMap<u32, Vec<String>>,
    still: &[u32],
) {
    let (mut equal, mut all) = (0, 0);
    for stack in &stacks.threads {
        let Some(theirs) = truth.get(&stack.tid.0).filter(|theirs| !theirs.is_empty()) else { continue };
        let ours: Vec<String> = methods(runtime, stacks, stack)
            .into_iter()
            .filter_map(|method| runtime.method_name(method).ok())
            .map(|name| name.method.split('<').next().unwrap_or_default().to_owned())
            .collect();
        let plain: Vec<&str> = theirs.iter().map(|name| name.split('<').next().unwrap_or_default()).collect();
        let same = ours.iter().map(String::as_str).eq(plain.iter().copied());
        assert!(same || !still.contains(&stack.tid.0), "{version}: {ours:#?}\n{theirs:#?}");
        all += 1;
        equal += usize::from(same);
    }
    println!("{version}: {equal} of {all} threads have the methods that the runtime's own reader gives");
    assert!(all >= 5 && equal * 10 >= all * 8, "{version}: {equal} of {all}");
}

#[test]
fn lock_objects_and_operations_that_never_end() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let server = DotNetServer::sick(version, "deadlock-lock");
        server.fall_ill("async-deadlock");
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        lock_objects(version, server.pid());
        let operations = until_stuck(version, server.pid());
        let first = operations.groups.first().expect("operations");
        assert!(
            first.methods.iter().any(|method| method.ends_with("DeployAsync")),
            "{version}: {:#?}",
            operations.groups
        );
        let (_, object) = first.object.as_ref().unwrap_or_else(|| panic!("{version}: {first:#?}"));
        assert_eq!(object, "System.Threading.SemaphoreSlim", "{version}");
        survival.assert_unharmed();
        server.stop();
    }
}

fn lock_objects(version: &str, pid: u32) {
    let frozen = frozen(pid);
    let runtime = open(&frozen);
    let stacks = stacks(&frozen, &runtime);
    let inside: Vec<_> = stacks.threads.iter().filter_map(|stack| inside_lock(&stacks, stack)).collect();
    let found = locks(&runtime, &LockSources { graph: None, inside: &inside }).expect("locks");
    let cycles = found.cycles();
    assert_eq!(cycles.len(), 1, "{version}: {found:#?}");
    let threads = runtime.threads().expect("threads");
    for name in ["channel-worker", "lifecycle-worker"] {
        let thread = threads.iter().find(|thread| thread.name.as_deref() == Some(name)).expect(name);
        assert!(cycles[0].contains(&thread.os_id), "{version}: {name} {cycles:?}");
    }
    // .NET 8 has no such type; there they are monitors.
    let kind = if version == "net8.0" { LockKind::Monitor } else { LockKind::Lock };
    let waits = found.waits.iter().filter(|wait| cycles[0].contains(&wait.os_id));
    assert!(waits.clone().count() == 2 && waits.clone().all(|wait| found.locks[wait.lock].kind == kind));
}

/// Looks again until enough operations stand at one place, and no collection is under way.
fn until_stuck(version: &str, pid: u32) -> Operations {
    const ENOUGH: u64 = 20;
    let mut last = Operations::default();
    for _ in 0..60 {
        let frozen = frozen(pid);
        let runtime = open(&frozen);
        if let Ok((graph, _)) =
            Heap::open(&runtime).and_then(|heap| heap.walk_objects(&HeapOptions::default()))
        {
            last = operations(&runtime, &graph);
            if last.groups.first().is_some_and(|group| group.count >= ENOUGH) {
                return last;
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("{version}: {last:#?}");
}
