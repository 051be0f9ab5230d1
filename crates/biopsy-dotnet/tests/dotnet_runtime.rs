//! Runtimes of living programs, read from a frozen copy of their memory and compared with what the runtime's own reader says.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use biopsy_dotnet::layout::{LayoutError, LayoutFiles};
use biopsy_dotnet::methods::NameAddresses;
use biopsy_dotnet::runtime::{
    Check, CheckResult, CodeKind, FoundRuntime, LocalFiles, MethodDesc, Options, Runtime, RuntimeError,
    find_runtimes, find_runtimes_with,
};
use biopsy_dotnet::stack::ManagedUnwind;
use biopsy_image::mapping::{self, Protection, is_memory_file};
use biopsy_image::{Absence, Image, Mapping, ReadError};
use biopsy_model::{Avma, Pid};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{
    DOTNET_RUNTIMES, PACKAGED_DOTNET, Privilege, Survival, TargetProcess, dotnet_peer, dotnet_run,
    dotnet_target, packaged_dotnet_target, require_all, temp_dir,
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

fn only_runtime(image: &dyn Image) -> FoundRuntime {
    let mut found = find_runtimes(image);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn open<'i>(image: &'i FrozenProcess, found: &FoundRuntime) -> Runtime<'i> {
    Runtime::open(Box::new(image), found, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn assert_checked(checks: &[Check]) {
    let holding = checks.iter().filter(|check| check.result == CheckResult::Holds).count();
    let failed: Vec<_> = checks.iter().filter(|one| matches!(one.result, CheckResult::Fails(_))).collect();
    assert!(failed.is_empty() && holding >= 8, "{checks:#?}");
}

fn holder(runtime: &str, more: &[&str]) -> TargetProcess {
    let mut arguments = vec!["--objects", "2000"];
    arguments.extend(more);
    dotnet_target(runtime, "holder", &arguments)
}

fn truth(arguments: &[&str]) -> Option<Value> {
    let output = dotnet_peer("clrmd-truth", arguments)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("clrmd-truth prints JSON"))
}

fn hexadecimal(value: &Value) -> Avma {
    let text = value.as_str().expect("a text").trim_start_matches("0x");
    Avma(u64::from_str_radix(text, 16).expect("a hexadecimal number"))
}

/// So many addresses of code that was compiled at run time, and as many of code that was compiled ahead, where there are so many.
fn sample_code(runtime: &Runtime<'_>, count: usize) -> BTreeMap<Avma, (MethodDesc, CodeKind)> {
    // A generator with a fixed start (xorshift): the same program is asked the same questions.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below.max(1)
    };
    let code = |wanted: fn(&[u8]) -> bool| -> Vec<&Mapping> {
        let all = runtime.image().mappings().iter();
        all.filter(|one| one.protection.execute && one.path().is_some_and(wanted)).collect()
    };
    let compiled = code(|path| path.windows(12).any(|part| part == b"doublemapper"));
    let ahead = code(|path| path.ends_with(b".dll"));
    let mut found = BTreeMap::new();
    for kind in [compiled, ahead] {
        let total: u64 = kind.iter().map(|one| one.size()).sum();
        let enough = found.len() + count;
        for _ in 0..count * 40 {
            if found.len() >= enough {
                break;
            }
            let mut at = random(total);
            let Some(mapping) = kind.iter().find(|one| {
                let inside = at < one.size();
                if !inside {
                    at -= one.size();
                }
                inside
            }) else {
                continue;
            };
            let ip = Avma(mapping.start + at);
            // The other reader gives padding, free room, and code compiled ahead that was never called to the method before:
            // compared is what is code of a method.
            if let Ok(Some(method)) = runtime.find_method(ip)
                && let Some(method_desc) = method.method_desc
            {
                found.insert(ip, (method_desc, method.kind));
            }
        }
    }
    found
}

/// Addresses of entries of methods, with the methods. The other reader knows them at their first byte alone.
fn sample_entries(runtime: &Runtime<'_>, count: usize) -> BTreeMap<Avma, MethodDesc> {
    let mappings = runtime.image().mappings().iter();
    mappings
        .filter(|one| one.protection.execute && one.path().is_some_and(|path| path.starts_with(b"/memfd:")))
        .flat_map(|one| (one.start..one.end).step_by(8).map(Avma))
        .filter(|ip| runtime.find_method(*ip).is_ok_and(|found| found.is_none()))
        .filter_map(|ip| Some((ip, runtime.entry_at(ip)?)))
        .take(count)
        .collect()
}

/// Several threads may ask the same runtime.
#[test]
fn a_runtime_may_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Runtime<'static>>();
}

/// Threads, assemblies, and methods of a thousand addresses are what the runtime's own reader says.
#[test]
fn threads_modules_and_code_are_what_the_runtimes_own_reader_says() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let target = holder(version, &[]);
        // Its pool ends threads that have had nothing to do for long.
        let survival = Survival::before(target.pid()).threads_may_change();
        let image = frozen(target.pid());
        let found = only_runtime(&image);
        let told = found.version.expect("its version is told");
        assert!(version.ends_with(&format!("{}.{}", told.major, told.minor)), "{version}: {told}");
        let runtime = open(&image, &found);
        assert_checked(runtime.checks());

        let code = sample_code(&runtime, 500);
        assert!(code.len() >= 500, "{version}: {} addresses", code.len());
        let folder = temp_dir("code");
        let file = folder.path().join("code");
        let entries = sample_entries(&runtime, 300);
        let lines: Vec<_> = code.keys().chain(entries.keys()).map(|ip| format!("{ip:x}")).collect();
        std::fs::write(&file, lines.join("\n")).expect("the list is written");
        let file = file.to_str().expect("the path is text");
        let pid = target.pid().to_string();
        let Some(truth) = truth(&[&pid, "--modules", "--code", file, "--top", "0"]) else { return };

        assert_threads(version, &runtime, &truth);
        assert_modules(version, &runtime, &truth);
        assert_code(version, &runtime, &code, &truth);
        assert_entries(version, &entries, &truth);
        drop(runtime);
        drop(image);
        survival.assert_unharmed();
    }
}

fn assert_threads(version: &str, runtime: &Runtime<'_>, truth: &Value) {
    // The image is some seconds older than what the other reader saw: threads of the runtime's own end and begin.
    let image = runtime.image();
    let pid = image.process().pid.0;
    let there_all_the_time: BTreeSet<_> = image
        .threads()
        .iter()
        .map(|one| one.tid.0)
        .filter(|tid| Path::new(&format!("/proc/{pid}/task/{tid}")).exists())
        .collect();
    let ours: BTreeSet<_> = runtime
        .threads()
        .expect("threads")
        .into_iter()
        .filter(|thread| there_all_the_time.contains(&thread.os_id))
        .map(|thread| {
            (thread.address, thread.id, thread.os_id, thread.finalizer, thread.name.unwrap_or_default())
        })
        .collect();
    let theirs: BTreeSet<_> = truth["threads"]
        .as_array()
        .expect("threads")
        .iter()
        .map(|thread| {
            let number = |key: &str| u32::try_from(thread[key].as_u64().unwrap_or(0)).expect("an id");
            (
                hexadecimal(&thread["address"]),
                number("managedId"),
                number("osId"),
                thread["finalizer"].as_bool().unwrap_or(false),
                thread["name"].as_str().unwrap_or_default().to_string(),
            )
        })
        .collect();
    let theirs: BTreeSet<_> =
        theirs.into_iter().filter(|(_, _, tid, _, _)| there_all_the_time.contains(tid)).collect();
    assert!(ours.len() >= 5, "{version}: {ours:?}");
    assert_eq!(ours, theirs, "{version}");
}

fn assert_modules(version: &str, runtime: &Runtime<'_>, truth: &Value) {
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    let ours: BTreeSet<_> = runtime
        .modules()
        .expect("modules")
        .iter()
        .filter(|module| !module.dynamic && module.path.ends_with(".dll"))
        .map(|module| (module.address, file(&module.path)))
        .collect();
    let theirs: BTreeSet<_> = truth["modules"]
        .as_array()
        .expect("modules")
        .iter()
        .filter(|module| module["name"].as_str().is_some_and(|name| name.ends_with(".dll")))
        .map(|module| (hexadecimal(&module["address"]), file(module["name"].as_str().unwrap_or_default())))
        .collect();
    assert_eq!(ours, theirs, "{version}");
}

fn assert_code(
    version: &str,
    runtime: &Runtime<'_>,
    ours: &BTreeMap<Avma, (MethodDesc, CodeKind)>,
    truth: &Value,
) {
    let theirs = truth["code"].as_array().expect("code");
    let mut kinds = BTreeSet::new();
    let (mut asked, mut unknown) = (0, 0);
    for one in theirs {
        let ip = hexadecimal(&one["address"]);
        let Some(&(method, kind)) = ours.get(&ip) else { continue };
        asked += 1;
        if one["methodDesc"].is_null() {
            // It does not name methods of some generic types.
            unknown += 1;
            continue;
        }
        assert_eq!(hexadecimal(&one["methodDesc"]), method.0, "{version} {ip:#x} {one}");
        kinds.insert(format!("{kind:?}"));
        let name = runtime.method_name(method).unwrap_or_else(|error| panic!("{version} {ip:#x}: {error}"));
        let signature = one["method"].as_str().expect("a name");
        // Signatures are written in other styles; the name is the same but for type arguments.
        let bare = name.method.split('<').next().unwrap_or_default();
        if !bare.is_empty() && !name.dynamic {
            assert!(signature.contains(bare), "{version} {ip:#x}: `{name:?}`, `{signature}`");
        }
        assert!(ManagedUnwind::new([runtime]).name(ip).is_some());
    }
    assert_eq!(asked, ours.len(), "{version}");
    assert!(unknown * 20 <= asked, "{version}: {unknown} of {asked} are not named by the other reader");
    assert!(kinds.contains("Jit") && kinds.contains("ReadyToRun"), "{version}: {kinds:?}");
}

fn assert_entries(version: &str, ours: &BTreeMap<Avma, MethodDesc>, truth: &Value) {
    let mut equal = 0;
    for one in truth["code"].as_array().expect("code") {
        let ip = hexadecimal(&one["address"]);
        let Some(&method) = ours.get(&ip).filter(|_| !one["methodDesc"].is_null()) else { continue };
        assert_eq!(hexadecimal(&one["methodDesc"]), method.0, "{version}: entry at {ip:#x} {one}");
        equal += 1;
    }
    assert!(equal >= 50, "{version}: {equal} of {} entries", ours.len());
}

/// A layout that does not fit is refused, and said which check it failed; so is a version nobody has a layout for.
#[test]
fn a_layout_that_does_not_fit_is_refused() {
    if !require_all(&NEEDED) {
        return;
    }
    let target = holder("net8.0", &[]);
    let image = frozen(target.pid());
    let found = only_runtime(&image);
    let built_in = LayoutFiles::built_in();
    // The true layout with one field shifted, under the name of a file for 8.0: it comes first.
    let shifted = |type_name: &str, field: &str, offset: u32| {
        let json = format!(
            r#"{{"baseline":"coreclr-8.0","match":{{"major":8,"minor":0,"rid":"linux-x64","addresses":"g_dacTable"}},
                "types":{{"{type_name}":{{"{field}":{offset}}}}}}}"#
        );
        let files = (*built_in).clone().with("shifted", &json).expect("a layout file");
        let mut options = Options::default();
        options.layouts = files.into();
        Runtime::open(Box::new(&image), &found, &options).map(|runtime| runtime.checks().to_vec())
    };
    assert!(shifted("Thread", "Id", 32).is_ok(), "unchanged, it fits");
    for (type_name, field, offset) in [
        ("Thread", "LinkNext", 240),
        ("Thread", "OSId", 432),
        ("Thread", "Id", 36),
        ("Thread", "AllocContext", 96),
        ("Thread", "AllocContext", 80),
        ("Thread", "GCHandle", 424),
        ("MethodTable", "ParentMethodTable", 24),
        ("MethodTable", "Token", 12),
        ("MethodTable", "Module", 32),
        ("MethodTable", "EEClassOrCanonMT", 48),
        ("PEImageLayout", "Base", 16),
        ("EEClass", "MethodTable", 24),
        ("ThreadStore", "FirstThreadLink", 168),
    ] {
        let outcome = shifted(type_name, field, offset);
        assert!(outcome.is_err(), "{type_name}.{field} at {offset} was believed: {outcome:#?}");
    }

    let mut unknown = found.clone();
    unknown.version = unknown.version.map(|mut version| {
        version.major = 7;
        version
    });
    let error = Runtime::open(Box::new(&image), &unknown, &Options::default()).unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Layout(LayoutError::UnknownVersion { version, .. }) if version.starts_with("7.0"))
    );

    // A file for it is all that is needed, and is believed because of the checks: this one fits, as the process is 8 in truth.
    let with_file = |types: &str| {
        let json = format!(
            r#"{{"baseline":"coreclr-8.0","match":{{"major":7,"minor":0,"rid":"linux-x64","addresses":"g_dacTable"}},"types":{{{types}}}}}"#
        );
        let mut options = Options::default();
        options.layouts = (*built_in).clone().with("coreclr-7.0", &json).expect("a layout file").into();
        Runtime::open(Box::new(&image), &unknown, &options)
    };
    let runtime = with_file("").expect("it fits");
    assert!(runtime.checks().iter().all(|check| !matches!(check.result, CheckResult::Fails(_))));
    assert!(runtime.threads().expect("they can be read").len() > 2);
    assert!(matches!(with_file(r#""Thread":{"Id":36}"#), Err(RuntimeError::DoesNotFit { .. })));
}

/// A dump without the text of files, as most are.
struct WithoutFiles<'a>(&'a FrozenProcess);

impl Image for WithoutFiles<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let missing = Err(ReadError::Missing { address, why: Absence::LeftOut });
        let Some(found) = mapping::find(self.0.mappings(), address) else { return missing };
        if found.path().is_none() || is_memory_file(found.path().unwrap_or_default()) {
            return self.0.read(address, buffer);
        }
        // What was written is in every dump.
        let mut written = Vec::new();
        self.0.written(address..found.end, &mut written)?;
        let Some(run) = written.first().filter(|run| run.start <= address) else { return missing };
        let room = usize::try_from(run.end - address).unwrap_or(usize::MAX).min(buffer.len());
        self.0.read(address, &mut buffer[..room])
    }

    fn mappings(&self) -> &[Mapping] {
        self.0.mappings()
    }

    fn threads(&self) -> &[biopsy_image::Thread] {
        self.0.threads()
    }

    fn modules(&self) -> &[biopsy_image::ImageModule] {
        self.0.modules()
    }

    fn process(&self) -> &biopsy_image::ProcessFacts {
        self.0.process()
    }
}

/// A process whose mappings were listed before its heap grew to where it allocates now.
struct Older<'a> {
    now: &'a FrozenProcess,
    mappings: Vec<Mapping>,
}

impl Image for Older<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.now.read(address, buffer)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[biopsy_image::Thread] {
        self.now.threads()
    }

    fn modules(&self) -> &[biopsy_image::ImageModule] {
        self.now.modules()
    }

    fn process(&self) -> &biopsy_image::ProcessFacts {
        self.now.process()
    }
}

#[test]
fn a_heap_that_grows_meanwhile_is_no_sign_of_a_wrong_layout() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let target = holder(version, &[]);
        let image = frozen(target.pid());
        let runtime = open(&image, &only_runtime(&image));
        let threads = runtime.threads().expect("they can be read");
        let grown: Vec<u64> =
            threads.iter().map(|thread| thread.allocation.0.0).filter(|pointer| *pointer != 0).collect();
        assert!(!grown.is_empty(), "{version}: no thread has room");
        let reserved = |one: &Mapping| {
            let mut one = one.clone();
            if grown.iter().any(|pointer| (one.start..one.end).contains(pointer)) {
                one.protection = Protection::default();
            }
            one
        };
        let older = Older { now: &image, mappings: image.mappings().iter().map(reserved).collect() };
        let runtime = Runtime::open(Box::new(older), &only_runtime(&image), &Options::default());
        assert_checked(runtime.expect("it fits").checks());
    }
}

/// The descriptor, tables of code and metadata are in files: those of this machine are read, where they are the same.
#[test]
fn what_a_dump_leaves_out_is_read_from_files() {
    if !require_all(&NEEDED) {
        return;
    }
    for version in DOTNET_RUNTIMES {
        let target = holder(version, &[]);
        let image = frozen(target.pid());
        let dump = WithoutFiles(&image);
        let bare = find_runtimes(&dump);
        assert!(
            bare.iter().all(|found| Runtime::open(Box::new(&dump), found, &Options::default()).is_err()),
            "{version}: read without the files"
        );
        let files = Arc::new(LocalFiles::new(&dump, &["/".into()]));
        let found = find_runtimes_with(&dump, Some(Arc::clone(&files) as _));
        assert_eq!(found.len(), 1, "{version}");
        let mut options = Options::default();
        options.files = Some(files);
        let runtime = Runtime::open(Box::new(&dump), &found[0], &options).expect("it opens");
        assert_checked(runtime.checks());
        let whole = open(&image, &only_runtime(&image));
        let code = sample_code(&whole, 50);
        for (ip, (method, _)) in &code {
            let found = runtime.find_method(*ip).expect("it is read").expect("a method");
            assert_eq!(found.method_desc, Some(*method), "{version} {ip:#x}");
            let names = [&runtime, &whole].map(|one| one.method_name(*method).expect("a name"));
            assert_eq!(names[0], names[1]);
        }
    }
}

/// Versions from public packages: an older 9 and 10, and 3.1, which exports nothing and is refused by its name.
#[test]
fn versions_of_public_packages_are_read_or_refused_by_name() {
    if !require_all(&[Privilege::Ptrace, Privilege::DotNet31]) {
        return;
    }
    for version in PACKAGED_DOTNET {
        let Some((target, _)) = packaged_dotnet_target(version, &[]) else {
            assert_ne!(version, "3.1", "it is there, as was asked before");
            continue;
        };
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let image = frozen(target.pid());
        let found = only_runtime(&image);
        if version == "3.1" {
            let error = Runtime::open(Box::new(&image), &found, &Options::default()).unwrap_err();
            let RuntimeError::Layout(LayoutError::UnknownVersion { version, .. }) = error else {
                panic!("{error}");
            };
            assert!(version.starts_with("3.1"), "{version}");
        } else {
            let runtime = open(&image, &found);
            assert_checked(runtime.checks());
            let code = sample_code(&runtime, 100);
            assert!(code.len() >= 40, "{version}: {} addresses", code.len());
            for (method, _) in code.values() {
                let name = runtime.method_name(*method).expect("a name");
                assert!(!name.method.is_empty());
            }
            let modules = runtime.modules().expect("modules");
            assert!(modules.iter().any(|one| &*one.name == "System.Private.CoreLib"), "{modules:?}");
        }
        drop(image);
        survival.assert_unharmed();
    }
}

/// One of the programs that bring their runtime along; `None` where it is not there.
fn published(folder: &str) -> Option<TargetProcess> {
    let unpack = dotnet_run()?.parent()?.join("unpack");
    let root = Command::new(unpack).output().ok()?.stdout;
    let root = PathBuf::from(String::from_utf8(root).ok()?.trim());
    let program = root.join("variants").join(folder).join("variant");
    let mut command = Command::new(program.exists().then_some(program)?);
    command.args(["--kind", "plain"]);
    Some(TargetProcess::spawn(command))
}

/// One file, trimmed or not: found in the executable, all checks hold, and its methods have names.
#[test]
fn programs_of_one_file_are_read() {
    if !require_all(&NEEDED) {
        return;
    }
    for (folder, trimmed) in
        [("net10.0/single-file", false), ("net8.0/single-file-trimmed", true), ("net10.0/trimmed", true)]
    {
        let Some(target) = published(folder) else { continue };
        let image = frozen(target.pid());
        let found = only_runtime(&image);
        let runtime = open(&image, &found);
        assert_checked(runtime.checks());
        let threads = runtime.threads().expect("threads");
        assert!(threads.iter().any(|thread| thread.finalizer), "{folder} {trimmed}");
        let modules = runtime.modules().expect("modules");
        assert!(
            modules.iter().any(|module| &*module.name == "System.Private.CoreLib"),
            "{folder}: {modules:?}"
        );
    }
}
