//! Heaps of living programs, walked in a frozen copy of their memory and compared with what the runtime's own reader says of the
//! same moment, and with what the programs say of themselves.
#![expect(clippy::print_stderr, reason = "what was compared and skipped belongs on the terminal")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::{Graph, ObjectIndex, RootKind};
use biopsy_dotnet::heap::{Heap, HeapError, HeapOptions};
use biopsy_dotnet::runtime::{FieldPlace, Options, Runtime, find_runtimes};
use biopsy_image::write::{CoreKind, CoreOptions, CoreOutput, CoreProgress, write_core};
use biopsy_model::Pid;
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Survival, TargetProcess, dotnet_command, dotnet_peer, dotnet_target,
    require_all, temp_dir,
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

/// Hands over the runtime of a frozen copy.
fn with_runtime<T>(image: &FrozenProcess, use_it: impl FnOnce(&Runtime<'_>) -> T) -> T {
    let found = find_runtimes(image);
    let first = found.first().expect("a runtime");
    let runtime =
        Runtime::open(Box::new(image), first, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    use_it(&runtime)
}

/// A whole heap with what is live; `None`: a collection was under way.
fn walked(image: &FrozenProcess) -> Option<Graph> {
    with_runtime(image, walked_in)
}

fn walked_in(runtime: &Runtime<'_>) -> Option<Graph> {
    let heap = match Heap::open(runtime) {
        Ok(heap) => heap,
        Err(HeapError::Collecting) => return None,
        Err(error) => panic!("{error}"),
    };
    let (mut graph, problems) = heap.walk(&HeapOptions::default()).expect("it can be walked");
    assert!(problems.is_none(), "{problems:?}");
    let missing = heap.find_live(&mut graph).expect("nothing is spilled");
    assert_eq!(missing.missing, [""; 0]);
    Some(graph)
}

fn quiet(pid: u32) -> (FrozenProcess, Graph) {
    for _ in 0..50 {
        let image = frozen(pid);
        if let Some(graph) = walked(&image) {
            return (image, graph);
        }
    }
    panic!("it always collects");
}

struct Silent;
impl CoreProgress for Silent {}

fn core_of(image: &FrozenProcess, path: &Path) {
    let options = CoreOptions {
        compression: biopsy_image::write::Compression::None,
        ..CoreOptions::new(CoreKind::Full)
    };
    let file = File::create_new(path).expect("it is new");
    write_core(image, &options, CoreOutput::File(&file), &Silent).expect("it can be written");
}

/// Lines of a file as a multiset.
fn lines(path: &Path) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for line in std::fs::read_to_string(path).expect("it was written").lines() {
        *all.entry(line.to_owned()).or_default() += 1;
    }
    all
}

/// What only one of both has, a few of them.
fn difference(ours: &BTreeMap<String, u32>, theirs: &BTreeMap<String, u32>) -> (Vec<String>, Vec<String>) {
    let only = |a: &BTreeMap<String, u32>, b: &BTreeMap<String, u32>| {
        a.iter()
            .filter(|(line, count)| b.get(*line) != Some(count))
            .map(|(line, _)| line.clone())
            .take(5)
            .collect()
    };
    (only(ours, theirs), only(theirs, ours))
}

/// Every object and every reference, against ClrMD on a core of the same moment.
fn compare(target: &TargetProcess) {
    let folder = temp_dir("heap");
    let (image, graph) = quiet(target.pid());
    let core = folder.path().join("core");
    core_of(&image, &core);
    drop(image);
    let (objects, edges) = (folder.path().join("objects"), folder.path().join("edges"));
    let text = |path: &Path| path.to_str().expect("a plain name").to_owned();
    let arguments =
        [&text(&core), "--heap", "--top", "1", "--objects", &text(&objects), "--edges", &text(&edges)];
    let Some(output) = dotnet_peer("clrmd-truth", &arguments) else {
        eprintln!("skipped: the reference tools are not there");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut our_objects, mut our_edges) = (BTreeMap::new(), BTreeMap::new());
    for object in graph.objects() {
        let of = graph.type_of(object.of).expect("it has a type");
        let line = format!("{:x}\t{:x}\t{}", object.address, of.method_table, object.size);
        *our_objects.entry(line).or_insert(0) += 1;
        for to in graph.references(object.index).expect("in memory") {
            let to = graph.object(to).expect("an object");
            // ClrMD is asked for references of objects that have fields for some; those of collectible types to their
            // loader allocator come without a field.
            let of = graph.type_of(to.of).expect("it has a type");
            if of.name == "System.Reflection.LoaderAllocator" {
                continue;
            }
            *our_edges.entry(format!("{:x}\t{:x}", object.address, to.address)).or_insert(0) += 1;
        }
    }
    let allocators: Vec<u64> = graph
        .objects()
        .filter(|one| graph.type_of(one.of).is_some_and(|of| of.name == "System.Reflection.LoaderAllocator"))
        .map(|one| one.address)
        .collect();
    let mut their_objects = BTreeMap::new();
    for (line, count) in lines(&objects) {
        let fields: Vec<&str> = line.split('\t').take(3).collect();
        *their_objects.entry(fields.join("\t")).or_insert(0) += count;
    }
    let mut their_edges = lines(&edges);
    their_edges.retain(|line, _| {
        let to = line.split('\t').nth(1).and_then(|to| u64::from_str_radix(to, 16).ok());
        !to.is_some_and(|to| allocators.contains(&to))
    });
    let no: (Vec<String>, Vec<String>) = Default::default();
    assert_eq!(difference(&our_objects, &their_objects), no, "objects");
    assert_eq!(difference(&our_edges, &their_edges), no, "references");
    assert!(our_objects.len() > 20_000 && our_edges.len() > 20_000, "{}", our_objects.len());
}

fn compare_holder(runtime: &str, arguments: &[&str], environment: &[(&str, &str)]) {
    let mut all = vec!["--objects", "20000"];
    all.extend(arguments);
    let mut command = dotnet_command(runtime, "holder", &all).expect("the targets are there");
    command.envs(environment.iter().copied());
    let target = TargetProcess::spawn(command);
    // Threads of the runtime that compile come and go.
    let survival = Survival::before(target.pid()).threads_may_change();
    compare(&target);
    survival.assert_unharmed();
}

#[test]
fn every_object_and_reference_of_8_is_what_clrmd_says() {
    if require_all(&NEEDED) {
        compare_holder("net8.0", &["--workstation"], &[]);
    }
}

#[test]
fn every_object_and_reference_of_9_with_server_collector_is_what_clrmd_says() {
    if require_all(&NEEDED) {
        compare_holder("net9.0", &["--server"], &[]);
    }
}

#[test]
fn every_object_and_reference_of_10_with_segments_is_what_clrmd_says() {
    if require_all(&NEEDED) {
        compare_holder("net10.0", &["--workstation"], &[("DOTNET_GCName", "libclrgc.so")]);
    }
}

/// The holder says what it made: types that only it makes must be there exactly, garbage and live.
#[test]
fn a_program_that_counts_its_objects_is_met_exactly() {
    if !require_all(&NEEDED) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let folder = temp_dir("truth");
        let truth = folder.path().join("truth.json");
        let target = dotnet_target(
            runtime,
            "holder",
            &["--objects", "20000", "--truth", truth.to_str().expect("plain")],
        );
        let (_, graph) = quiet(target.pid());
        let truth: Value =
            serde_json::from_slice(&std::fs::read(&truth).expect("it was written")).expect("JSON");
        let mut by_name: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        for one in graph.by_type() {
            // The program writes nested types with a dot.
            let name = graph.type_of(one.of).expect("a type").name.replace('+', ".");
            let entry = by_name.entry(name).or_default();
            entry.0 += one.all.objects;
            entry.1 += one.all.bytes;
            entry.2 += one.live.expect("it was looked for").objects;
        }
        for row in truth["types"].as_array().expect("a list") {
            let name = row["type"].as_str().expect("a name");
            let (objects, bytes) = (row["objects"].as_u64().unwrap_or(0), row["bytes"].as_u64().unwrap_or(0));
            let (found, found_bytes, live) = by_name.get(name).copied().unwrap_or_default();
            if row["exact"] == true {
                assert_eq!((found, found_bytes), (objects, bytes), "{runtime}: {name}");
                assert_eq!(live, objects, "{runtime}: {name} is all live");
            } else {
                assert!(
                    found >= objects && found_bytes >= bytes,
                    "{runtime}: {name}: {found}, {objects} expected"
                );
            }
        }
        for row in truth["garbage"].as_array().expect("a list") {
            let name = row["type"].as_str().expect("a name");
            let (found, _, live) = by_name.get(name).copied().unwrap_or_default();
            // A register or a stack may still hold one of them.
            assert_eq!(found, row["objects"].as_u64().unwrap_or(0), "{runtime}: {name}");
            assert!(live <= 2, "{runtime}: {live} of {name} count as live");
        }
    }
}

/// Where a field is in objects of the type of this one.
fn place_of(runtime: &Runtime<'_>, object: u64, name: &str) -> u64 {
    let of = runtime.type_of_object(object).expect("an object");
    let field =
        runtime.find_field(of.method_table, name).expect("fields").unwrap_or_else(|| panic!("no {name}"));
    let FieldPlace::Instance(offset) = field.place else { panic!("{name} is static") };
    8 + u64::from(offset)
}

/// Each shard's head is as far as its tail, or one ahead while it is being changed. Returns how many are.
fn shards_ahead(runtime: &Runtime<'_>, graph: &Graph) -> u32 {
    let is_live = |index: ObjectIndex| graph.live().is_some_and(|live| live.contains(index.0 as usize));
    let is_shard = |of| graph.type_of(of).is_some_and(|of| of.name.ends_with(".Shard"));
    let shards: Vec<u64> =
        graph.objects().filter(|one| is_shard(one.of) && is_live(one.index)).map(|one| one.address).collect();
    assert!(shards.len() > 90, "{}", shards.len());
    let word = |at: u64| runtime.memory().u64(at).expect("it is there");
    let ends = ["Head", "Tail"].map(|end| {
        let place = place_of(runtime, shards[0], end);
        (place, place_of(runtime, word(shards[0] + place), "Sequence"))
    });
    let mut ahead = 0;
    for shard in shards {
        let [head, tail] = ends.map(|(end, sequence)| word(word(shard + end) + sequence));
        assert!(head == tail || head == tail + 1, "{head} and {tail}");
        ahead += u32::from(head != tail);
    }
    ahead
}

/// While a program replaces its objects and collects all the time, each frozen copy is a consistent heap, or says that a
/// collection is under way.
#[test]
fn freezes_of_a_program_that_collects_without_pause_are_consistent() {
    if !require_all(&NEEDED) {
        return;
    }
    const FREEZES: u32 = 8;
    const THREADS: u32 = 2;
    for runtime in DOTNET_RUNTIMES {
        let threads = THREADS.to_string();
        let target =
            dotnet_target(runtime, "holder", &["--objects", "20000", "--mutate", "--threads", &threads]);
        let (mut clean, mut collecting) = (0, 0);
        // One in the middle of a collection says nothing: on until there was one that is not.
        while clean + collecting < FREEZES || (clean == 0 && collecting < 5 * FREEZES) {
            let image = frozen(target.pid());
            let ahead = with_runtime(&image, |open| Some(shards_ahead(open, &walked_in(open)?)));
            match ahead {
                Some(ahead) => {
                    clean += 1;
                    assert!(ahead <= THREADS, "{ahead} shards are being changed by {THREADS} threads");
                }
                None => collecting += 1,
            }
        }
        assert!(clean > 0, "{runtime}: {collecting} were in the middle of a collection");
        eprintln!("{runtime}: {clean} clean, {collecting} in the middle of a collection");
    }
}

/// What other tools read must be what we mean.
#[test]
fn a_gcdump_is_opened_by_the_readers_of_the_format() {
    if !require_all(&NEEDED) {
        return;
    }
    let target = dotnet_target("net10.0", "holder", &["--objects", "20000"]);
    let (_, graph) = quiet(target.pid());
    let folder = temp_dir("gcdump");
    let path = folder.path().join("heap.gcdump");
    let options =
        WriteOptions { process_name: "holder".to_owned(), pid: target.pid(), ..WriteOptions::default() };
    let written = gcdump::write(&graph, &options, File::create(&path).expect("it is new")).expect("it fits");
    let Some(output) =
        dotnet_peer("gcdump-check", &[path.to_str().expect("plain"), "--top", "0", "--no-dominators"])
    else {
        eprintln!("skipped: the reference tools are not there");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(checked["objects"].as_u64(), Some(written), "{checked}");
    let bytes: u64 = graph
        .objects()
        .filter(|one| graph.live().is_some_and(|live| live.contains(one.index.0 as usize)))
        .filter(|one| graph.type_of(one.of).is_some_and(|of| !of.is_free))
        .map(|one| one.size)
        .sum();
    assert_eq!(checked["bytes"].as_u64(), Some(bytes), "{checked}");
    let again = gcdump::read(&std::fs::read(&path).expect("it is there")).expect("it can be read");
    assert_eq!(again.graph.len() as u64, written);
    let ours: Vec<ObjectIndex> = again.graph.objects().map(|one| one.index).collect();
    assert!(ours.iter().all(|index| again.graph.live().is_some_and(|live| live.contains(index.0 as usize))));
}

/// Roots that no handle holds.
#[test]
fn what_stacks_and_thread_statics_hold_is_live() {
    if !require_all(&NEEDED) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let target = dotnet_target(runtime, "holder", &["--objects", "2000"]);
        let (_, graph) = quiet(target.pid());
        let held = |name: &str| {
            let full = format!("Targets.Holder.Roots.{name}");
            let found = graph
                .objects()
                .find(|one| graph.type_of(one.of).is_some_and(|of| of.name == full))
                .unwrap_or_else(|| panic!("{runtime}: no {full}"));
            assert!(
                graph.live().is_some_and(|live| live.contains(found.index.0 as usize)),
                "{runtime}: {full}"
            );
            found.index
        };
        let on_stack = held("HeldByStack");
        assert!(graph.roots().iter().any(|root| root.object == on_stack && root.kind == RootKind::Stack));
        for name in
            ["HeldByInterior", "HeldByThreadStatic", "HeldByThreadLocal", "HeldByTimer", "DependentValue"]
        {
            held(name);
        }
    }
}
