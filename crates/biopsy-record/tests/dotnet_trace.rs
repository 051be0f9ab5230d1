//! Traces of .NET servers: every managed frame has a name, stacks reach the thread's root, and the cause of a fault is among what
//! is hottest or waited for longest.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::time::Duration;

use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::{FrameHandle, StackEnd, StackHandle};
use biopsy_model::timeline::Timeline;
use biopsy_record::trace::{self, TraceOptions};
use biopsy_recording::{Limits, RecordingFolder, layout};
use biopsy_testkit::{DOTNET_RUNTIMES, DotNetServer, packaged_dotnet_target};
use biopsy_testkit::{Privilege, Survival, machine_to_myself, require_all, temp_dir};

const TIME: Duration = Duration::from_secs(2);

fn record(pid: u32) -> Timeline {
    let (timeline, warnings) = record_with_warnings(pid);
    assert_eq!(warnings, [], "the timeline is whole");
    timeline
}

fn record_with_warnings(pid: u32) -> (Timeline, Vec<Warning>) {
    let parent = temp_dir("trace");
    let folder = RecordingFolder::create(parent.path().join("recording")).unwrap();
    let options = TraceOptions { pids: vec![Pid(pid)], ..TraceOptions::default() };
    let handle = trace::start(&options, folder.create_member(layout::TIMELINE).unwrap(), None).unwrap();
    std::thread::sleep(TIME);
    let _ = handle.stop();
    let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
    biopsy_recording::timeline::read(file, &Limits::default()).unwrap()
}

fn names(timeline: &Timeline, frame: FrameHandle) -> Option<&str> {
    Some(&timeline.symbols[frame.0 as usize].as_ref()?.functions.first()?.name)
}

/// In no ELF file: compiled methods, precompiled assemblies, glue.
fn is_managed(timeline: &Timeline, frame: FrameHandle) -> bool {
    let module = timeline.frames[frame.0 as usize].module;
    module.is_some_and(|module| {
        matches!(timeline.modules[module.0 as usize].kind, ModuleKind::Jit | ModuleKind::OtherFile)
    })
}

/// Whether a name is that of a function, compiled in whatever tier.
fn is_of(name: &str, function: &str) -> bool {
    name.strip_prefix(function).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ["))
}

/// Share of the weight of stacks in which a function is.
fn share(
    timeline: &Timeline,
    stacks: impl Iterator<Item = (Option<StackHandle>, u64)>,
    function: &str,
) -> f64 {
    let (mut all, mut with) = (0, 0);
    for (stack, weight) in stacks {
        all += weight;
        if timeline
            .frames_of(stack)
            .any(|frame| names(timeline, frame).is_some_and(|name| is_of(name, function)))
        {
            with += weight;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = with as f64 / all.max(1) as f64;
    share
}

fn cpu(timeline: &Timeline) -> impl Iterator<Item = (Option<StackHandle>, u64)> {
    timeline.samples.iter().map(|sample| (sample.stack, 1))
}

/// Every managed frame of every stack, named; and stacks that are whole.
fn assert_named_and_whole(timeline: &Timeline, of: &str) {
    let stacks = timeline.samples.iter().map(|sample| (sample.stack, sample.end));
    let stacks: Vec<_> =
        stacks.chain(timeline.wait_samples.iter().map(|sample| (sample.stack, sample.end))).collect();
    let mut nameless: Vec<String> = Vec::new();
    let mut managed = 0;
    for frame in stacks.iter().flat_map(|(stack, _)| timeline.frames_of(*stack)) {
        if is_managed(timeline, frame) {
            managed += 1;
            if names(timeline, frame).is_none() {
                nameless.push(format!("{:?}", timeline.frames[frame.0 as usize]));
            }
        }
    }
    nameless.sort();
    nameless.dedup();
    assert!(managed > 100, "{of}: {managed} managed frames");
    assert_eq!(nameless, Vec::<String>::new(), "{of}: all managed frames have names");
    let whole = stacks.iter().filter(|(_, end)| matches!(end, StackEnd::Root)).count();
    // A program that starts on a loaded machine compiles deep below its main thread, whose stack is not known yet.
    assert!(whole * 100 >= stacks.len() * 90, "{of}: {whole} of {} stacks reach the root", stacks.len());
}

fn with_sick_server(mode: &str, check: impl Fn(&Timeline, &str)) {
    if !require_all(&[Privilege::DotNetTargets, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    for runtime in DOTNET_RUNTIMES {
        let server = DotNetServer::sick(runtime, mode);
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let timeline = record(server.pid());
        survival.assert_unharmed();
        server.stop();
        assert_named_and_whole(&timeline, runtime);
        check(&timeline, runtime);
    }
}

#[test]
fn a_hot_function_is_found_with_its_line() {
    with_sick_server("hot-function", |timeline, runtime| {
        let hot = "Targets.Server.Sick.PackageVerifier.ComputeChecksumBitByBit";
        let share = share(timeline, cpu(timeline), hot);
        assert!(share > 0.5, "{runtime}: {share} of the samples are in it");
        let symbols =
            timeline.symbols.iter().flatten().find(|symbols| is_of(&symbols.functions[0].name, hot));
        let function = &symbols.unwrap().functions[0];
        assert!(function.file.as_deref().is_some_and(|file| file.ends_with(".cs")), "{function:?}");
        assert!(function.line.is_some_and(|line| line > 1), "{function:?}");
    });
}

#[test]
fn a_regular_expression_that_backtracks_is_found() {
    with_sick_server("regex-backtracking", |timeline, runtime| {
        let of = |function| share(timeline, cpu(timeline), function);
        let caller = of("Targets.Server.Sick.VersionRangeParser.IsRange");
        assert!(caller > 0.5, "{runtime}: {caller} of the samples are below the cause");
        let engine = timeline.samples.iter().filter(|sample| {
            timeline.frames_of(sample.stack).any(|frame| {
                names(timeline, frame).is_some_and(|name| name.starts_with("System.Text.RegularExpressions."))
            })
        });
        let engine = engine.count();
        assert!(engine * 2 > timeline.samples.len(), "{runtime}: {engine} samples are in the engine");
    });
}

#[test]
fn a_convoy_is_found_where_threads_wait() {
    with_sick_server("lock-convoy", |timeline, runtime| {
        let writers: Vec<_> = timeline
            .threads
            .iter()
            .filter(|thread| thread.info.name.starts_with("log-writer"))
            .map(|thread| thread.info.tid)
            .collect();
        assert!(writers.len() > 10, "{runtime}: {} writers", writers.len());
        let waits = timeline
            .wait_samples
            .iter()
            .filter(|sample| writers.contains(&sample.tid))
            .map(|sample| (sample.stack, sample.weight.0));
        let share = share(timeline, waits, "Targets.Server.Sick.LogWriterConvoy.AppendUnderLock");
        assert!(share > 0.9, "{runtime}: {share} of the writers' waiting is in it");
    });
}

#[test]
fn programs_in_one_file_and_trimmed_ones_have_names() {
    // The others are made with it.
    if !require_all(&[Privilege::DotNet31, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    for version in ["9", "10"] {
        let (target, _) = packaged_dotnet_target(version, &[]).expect("it was made with 3.1");
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let timeline = record(target.pid());
        survival.assert_unharmed();
        assert_named_and_whole(&timeline, version);
        let share = share(&timeline, cpu(&timeline), "Sick.Hot.Loop");
        assert!(share > 0.3, ".NET {version}: {share} of the samples are in the loop");
    }
}

#[test]
fn a_runtime_whose_memory_cannot_be_read_tells_its_methods() {
    if !require_all(&[Privilege::DotNet31, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let (target, _) = packaged_dotnet_target("3.1", &[]).expect("it was made");
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let (timeline, warnings) = record_with_warnings(target.pid());
    survival.assert_unharmed();
    // Its glue has no events that tell of it: one place in a thousand.
    assert!(warnings.iter().all(|warning| warning.code == "trace.managed-names"), "{warnings:?}");
    let managed = timeline.samples.iter().flat_map(|sample| timeline.frames_of(sample.stack));
    let managed: Vec<_> = managed.filter(|frame| is_managed(&timeline, *frame)).collect();
    let named = managed.iter().filter(|frame| names(&timeline, **frame).is_some()).count();
    assert!(managed.len() > 100 && named * 100 >= managed.len() * 99, "{named} of {} frames", managed.len());
    let share = share(&timeline, cpu(&timeline), "Sick.Hot.Loop");
    assert!(share > 0.3, "{share} of the samples are in the loop");
}
