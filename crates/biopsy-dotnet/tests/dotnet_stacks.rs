//! Stacks and locks of living programs, read from a frozen copy of their memory and compared with what the runtime's own reader
//! says.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stdout, reason = "what was compared and skipped belongs on the terminal")]

use std::collections::BTreeMap;
use std::time::Duration;

use biopsy_dotnet::heap::{Heap, HeapOptions};
use biopsy_dotnet::locks::{LockKind, LockSources, Locks, WaitKind, inside_lock, locks};
use biopsy_dotnet::runtime::{MethodDesc, Options, Runtime, find_runtimes};
use biopsy_dotnet::stack::{ExplicitFrames, FrameKinds, ManagedUnwind, explicit_frames, method_text};
use biopsy_dotnet::tasks::{Operations, operations};
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, Pid};
use biopsy_stacks::image::{self, ImageStacks, ThreadStack};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{
    DOTNET_RUNTIMES, DotNetServer, Privilege, Survival, dotnet_held, dotnet_peer, require_all,
};
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
        roots: vec!["/".into()],
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        ..image::Options::default()
    };
    image::walk(image, &options)
}

/// `MethodDesc` of each managed frame, innermost first.
fn methods(runtime: &Runtime<'_>, stacks: &ImageStacks, stack: &ThreadStack) -> Vec<MethodDesc> {
    let places = stack.frames.iter().filter_map(|frame| stacks.place(frame.place));
    let methods = places.filter_map(|place| runtime.find_method(place.address).ok().flatten());
    methods.filter_map(|method| method.method_desc).collect()
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
            let still = still(&stacks, server.pid());
            assert!(still.contains(&deploy) && still.contains(&release), "{version}: {still:?}");
            compare(version, &runtime, &stacks, &truth, &still);
        }
        drop(runtime);
        drop(frozen);
        survival.assert_unharmed();
        server.stop();
    }
}

/// Threads that stand at the same instructions now as in `before`: those that the other reader, who came between, saw there too.
fn still(before: &ImageStacks, pid: u32) -> Vec<u32> {
    let frozen = frozen(pid);
    let runtime = open(&frozen);
    let after = stacks(&frozen, &runtime);
    let frames =
        |stack: &ThreadStack| stack.frames.iter().map(|frame| (frame.ip, frame.sp)).collect::<Vec<_>>();
    let same = |stack: &&ThreadStack| after.of(stack.tid).is_some_and(|now| frames(now) == frames(stack));
    before.threads.iter().filter(same).map(|stack| stack.tid.0).collect()
}

/// Equal methods at equal depth, of threads that stood still.
fn compare(
    version: &str,
    runtime: &Runtime<'_>,
    stacks: &ImageStacks,
    truth: &BTreeMap<u32, Vec<String>>,
    still: &[u32],
) {
    let mut all = 0;
    for stack in stacks.threads.iter().filter(|stack| still.contains(&stack.tid.0)) {
        let Some(theirs) = truth.get(&stack.tid.0).filter(|theirs| !theirs.is_empty()) else { continue };
        let ours: Vec<String> = methods(runtime, stacks, stack)
            .into_iter()
            .filter_map(|method| runtime.method_name(method).ok())
            .map(|name| name.method.split('<').next().unwrap_or_default().to_owned())
            .collect();
        let plain: Vec<&str> = theirs.iter().map(|name| name.split('<').next().unwrap_or_default()).collect();
        let same = ours.iter().map(String::as_str).eq(plain.iter().copied());
        // Threads of the pool look for work, and wait at the same place again.
        let pool = ours.iter().any(|method| method == "WorkerThreadStart");
        assert!(same || pool, "{version}, {:?}: {ours:#?}\n{theirs:#?}", stack.tid);
        all += usize::from(same);
    }
    println!(
        "{version}: {all} threads that stand still have the methods that the runtime's own reader gives"
    );
    assert!(all >= 4, "{version}: {all} threads stand still");
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

/// Address, owner and how often it was entered again, of locks that nobody waits for.
type Thin = BTreeMap<Avma, (u32, u32)>;

/// Address and kind of the explicit frames of each thread, innermost first.
type Explicit = BTreeMap<u32, Vec<(Avma, String)>>;

fn thin(locks: &Locks) -> Thin {
    let thin = locks.locks.iter().filter(|lock| lock.kind == LockKind::ThinMonitor);
    thin.map(|lock| (lock.object, (lock.owner.unwrap_or(0), lock.recursion))).collect()
}

fn number(value: &Value) -> Avma {
    let text = value.as_str().unwrap_or_default();
    Avma(u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0))
}

/// What the runtime's own reader says of the same process: thin locks, and kinds of explicit frames of each thread by their address.
fn truth_of_held(pid: u32) -> Option<(Thin, Explicit)> {
    let output = dotnet_peer("clrmd-truth", &[&pid.to_string(), "--stacks", "--locks"])?;
    let document: Value = serde_json::from_slice(&output.stdout).expect("the oracle writes JSON");
    let rows = document["locks"]["thinLocks"].as_array().expect("thin locks").iter();
    let word = |value: &Value| value.as_u64().unwrap_or(0) as u32;
    let thin =
        rows.map(|row| (number(&row["obj"]), (word(&row["ownerOsId"]), word(&row["recursion"])))).collect();
    let threads = document["threads"].as_array().expect("threads").iter().map(|thread| {
        let frames = thread["frames"].as_array().into_iter().flatten();
        let explicit = frames.filter(|frame| frame["kind"] != "ManagedMethod");
        let mut all: Vec<(Avma, String)> = explicit
            .map(|frame| (number(&frame["sp"]), frame["frame"].as_str().unwrap_or_default().to_owned()))
            .collect();
        // A call into native code is two rows of it: the call, and where it returns to.
        all.dedup();
        (word(&thread["osId"]), all)
    });
    Some((thin, threads.collect()))
}

#[test]
fn locks_that_nobody_waits_for_and_explicit_frames() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let mut target = dotnet_held(version, &[]);
        // Threads of the runtime's own that have had nothing to do for a while end, on a slow machine while we look.
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let frozen = frozen(target.pid());
        let runtime = open(&frozen);
        let (graph, _) = Heap::open(&runtime)
            .and_then(|heap| heap.walk_objects(&HeapOptions::default()))
            .unwrap_or_else(|error| panic!("{version}: {error}"));
        let all = locks(&runtime, &LockSources { graph: Some(&graph), inside: &[] }).expect("locks");
        let by_stacks = locks(&runtime, &LockSources::default()).expect("locks");
        assert_eq!(thin(&all), thin(&by_stacks), "{version}: who holds a lock has it on the stack");
        let threads = runtime.threads().expect("threads");
        let id = |name: &str| {
            let thread = threads.iter().find(|thread| thread.name.as_deref() == Some(name));
            thread.unwrap_or_else(|| panic!("{version}: no thread {name}")).os_id
        };
        for (type_name, owner, recursion) in
            [("OnceLock", "hold-once", 0), ("ThriceLock", "hold-thrice", 2), ("InnerLock", "hold-thrice", 0)]
        {
            let lock = all.locks.iter().find(|lock| lock.type_name.ends_with(type_name));
            let lock = lock.unwrap_or_else(|| panic!("{version}: {type_name}: {all:#?}"));
            assert_eq!((lock.owner, lock.recursion), (Some(id(owner)), recursion), "{version}: {type_name}");
        }
        let wanted = all.waits.iter().find(|wait| wait.os_id == id("want-it")).expect("it waits");
        assert_eq!(all.locks[wanted.lock].owner, Some(id("hold-wanted")), "{version}");
        let pulse = all.waits.iter().find(|wait| wait.os_id == id("wait-pulse")).expect("it waits");
        assert_eq!(pulse.kind, WaitKind::Pulse, "{version}");

        let kinds = FrameKinds::of(&runtime, &threads);
        let truth = truth_of_held(target.pid());
        if let Some((thin_truth, frames)) = &truth {
            assert_eq!(&thin(&all), thin_truth, "{version}: thin locks");
            for thread in threads.iter().filter(|thread| !thread.dead && thread.os_id != 0) {
                let ours: Vec<(Avma, String)> = explicit_frames(&runtime, &kinds, thread)
                    .iter()
                    .filter(|frame| frame.kind != Some("InlinedCallFrame") || frame.resumes.is_some())
                    .map(|frame| (frame.address, frame.kind.unwrap_or("?").to_owned()))
                    .collect();
                let name = thread.name.as_deref().unwrap_or("no name");
                assert_eq!(Some(&ours), frames.get(&thread.os_id), "{version}: {name}");
            }
        }
        walks_with_and_without(version, &frozen, &runtime, id("in-native"), id("through-native"));
        drop(runtime);
        drop(frozen);
        survival.assert_unharmed();
        target.stop();
    }
}

/// All stacks reach their root. Without unwind information of native code the notes of the runtime lead on.
fn walks_with_and_without(
    version: &str,
    image: &FrozenProcess,
    runtime: &Runtime<'_>,
    native: u32,
    through: u32,
) {
    let code = ManagedUnwind::new([runtime]);
    let explicit = ExplicitFrames::read([runtime]);
    let options = image::Options {
        roots: vec!["/".into()],
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        resumes: Some(&explicit),
        ..image::Options::default()
    };
    let mut stacks = image::walk(image, &options);
    explicit.add_to(&mut stacks);
    let rooted = stacks.threads.iter().filter(|stack| stack.end == StackEnd::Root).count();
    assert_eq!(rooted, stacks.threads.len(), "{version}: stacks to the root");
    let names = |tid: u32| {
        let stack = stacks.threads.iter().find(|stack| stack.tid.0 == tid).expect("a stack");
        let places = stack.frames.iter().filter_map(|frame| stacks.place(frame.place));
        let names = places.filter_map(|place| Some(place.functions.first()?.name.clone()));
        names.collect::<Vec<_>>()
    };
    let order = |names: &[String], wanted: &[&str]| {
        let mut left = names.iter();
        wanted.iter().all(|wanted| left.any(|name| name == wanted))
    };
    let stack = names(native);
    assert!(order(&stack, &["Held.Program.Pause", "Held.Program.InNativeCode"]), "{version}: {stack:#?}");
    let stack = names(through);
    let wanted = ["Held.Program.CalledBack", "Held.Program.Sort", "Held.Program.ThroughNativeCode"];
    assert!(order(&stack, &wanted), "{version}: {stack:#?}");

    for tid in [native, through] {
        let mut walked = Vec::new();
        let mut sp = 0;
        while let Some(next) = image::ResumePoints::above(&explicit, biopsy_model::Tid(tid), sp) {
            let method = runtime.find_method(Avma(next.ip)).ok().flatten().expect("managed code");
            let text = method.method_desc.and_then(|method| method_text(runtime, method));
            walked.extend(text.map(|text| text.shown));
            sp = next.sp;
        }
        let last = if tid == native { "InNativeCode" } else { "ThroughNativeCode" };
        // The caller is the method itself, or the glue that the runtime compiled for the call.
        assert!(
            walked.last().is_some_and(|name| name.ends_with(last) || name == "IL_STUB_PInvoke"),
            "{version}: {walked:#?}"
        );
    }
}
