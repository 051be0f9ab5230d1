//! Names and lines, compared with what `nm`, `objdump` and `addr2line` of binutils say.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![cfg(target_arch = "x86_64")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use biopsy_model::symbol::SymbolSource;
use biopsy_model::{Avma, Svma};
use biopsy_stacks::elf::{self, ElfCache};
use biopsy_stacks::symbols::{ModuleSource, Options, Resolved, SymbolProblem, Symbolizer, demangle};
use support::{compile, run};

fn symbolizer(options: Options) -> Symbolizer {
    Symbolizer::new(options, Arc::new(ElfCache::default()))
}

/// Looks for debug files in `folder` only.
fn with_debug_folder(folder: &Path) -> Symbolizer {
    symbolizer(Options { debug_folders: vec![folder.to_owned()], ..Options::default() })
}

fn tables_only() -> Symbolizer {
    symbolizer(Options { inlines: false, lines: false, debug_folders: Vec::new(), ..Options::default() })
}

fn real_name(resolved: &Option<Resolved>) -> Option<&str> {
    Some(resolved.as_ref()?.functions.last()?.name.as_str())
}

/// Functions with a size, as `nm` lists them: address to size and names.
fn listed(program: &Path) -> BTreeMap<u64, (u64, Vec<String>)> {
    let mut functions: BTreeMap<u64, (u64, Vec<String>)> = BTreeMap::new();
    for line in run(Command::new("nm").args(["-S", "--defined-only"]).arg(program)).lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [address, size, kind, name] = fields[..] else { continue };
        if matches!(kind, "t" | "T" | "w" | "W" | "u" | "i") {
            let hex = |digits| u64::from_str_radix(digits, 16).unwrap();
            let entry = functions.entry(hex(address)).or_default();
            entry.0 = entry.0.max(hex(size));
            entry.1.push(demangle(name));
        }
    }
    assert!(functions.len() > 5);
    functions
}

#[test]
fn every_listed_function_is_named_from_first_to_last_byte() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &["-O2"]);
    let source = ModuleSource::elf(&program);
    let mut symbolizer = tables_only();
    for (address, (size, names)) in listed(&program) {
        for svma in [address, address + size / 2, address + size - 1] {
            let found = symbolizer.elf(&source, &[Svma(svma)]);
            let name = real_name(&found[0]).unwrap_or("?");
            assert!(names.iter().any(|listed| listed == name), "{svma:#x}: {name}, nm has {names:?}");
            assert_eq!(found[0].as_ref().unwrap().source, SymbolSource::ElfSymbols);
        }
    }
    let no_size = run(Command::new("nm").arg(&program));
    let no_size = no_size.lines().find(|line| line.ends_with(" no_size")).unwrap();
    let no_size = u64::from_str_radix(&no_size[..16], 16).unwrap();
    assert_eq!(real_name(&symbolizer.elf(&source, &[Svma(no_size + 3)])[0]), Some("no_size"));
    assert!(symbolizer.take_problems().is_empty());
}

#[test]
fn stubs_are_named_after_what_they_call() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        &["-O2", "-no-pie", "-Wl,-z,lazy"][..],
        &["-O2", "-pie", "-fPIE", "-Wl,-z,now"],
        &["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt,-z,lazy"],
    ] {
        let program = compile(folder.path(), "names.cpp", "names", flags);
        let listing = run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&program));
        let mut stubs = 0;
        for line in listing.lines().filter(|line| line.ends_with("@plt>:")) {
            let (address, name) = line.split_once(" <").unwrap();
            let address = u64::from_str_radix(address, 16).unwrap();
            let name = format!("{}@plt", demangle(name.trim_end_matches("@plt>:")));
            for offset in [0, 6, 11] {
                // A stub of 8 bytes in `.plt.got` has no byte 11 of its own.
                let found = tables_only().elf(&ModuleSource::elf(&program), &[Svma(address + offset)]);
                if offset < 8 {
                    assert_eq!(
                        real_name(&found[0]),
                        Some(name.as_str()),
                        "{address:#x}+{offset} with {flags:?}"
                    );
                }
            }
            stubs += 1;
        }
        assert!(stubs > 3, "{flags:?}: {stubs}");
    }
}

/// What addr2line says of each address: innermost first, function (mangled) and file:line.
fn addr2line(program: &Path, addresses: &[u64]) -> Vec<Vec<(String, String, Option<u32>)>> {
    let mut command = Command::new("addr2line");
    command
        .args(["-a", "-f", "-i", "-e"])
        .arg(program)
        .args(addresses.iter().map(|address| format!("{address:#x}")));
    let text = run(&mut command);
    let mut answers: Vec<Vec<(String, String, Option<u32>)>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let (file, number) = lines.next().unwrap().rsplit_once(':').unwrap();
        let number = number.split(' ').next().unwrap().parse().ok();
        answers.last_mut().unwrap().push((demangle(line), file.to_owned(), number));
    }
    assert_eq!(answers.len(), addresses.len());
    answers
}

/// Every fourth byte of the program's own functions (not of the start files, which have no debug information).
fn own_addresses(program: &Path) -> Vec<u64> {
    let own = |name: &String| name == "main" || name == "checkout" || name.starts_with("shop::");
    let functions = listed(program).into_iter().filter(|(_, (_, names))| names.iter().any(own));
    let addresses: Vec<u64> =
        functions.flat_map(|(address, (size, _))| (address..address + size).step_by(4)).collect();
    assert!(addresses.len() > 50);
    addresses
}

/// A file of this machine, whose folders may be looked into for its debug file.
fn of_this_machine(path: &Path) -> ModuleSource {
    ModuleSource { root: Some("/".into()), ..ModuleSource::elf(path) }
}

fn assert_same_as_addr2line(symbolizer: &mut Symbolizer, mapped: &Path, reference: &Path) {
    let addresses = own_addresses(reference);
    let svmas: Vec<Svma> = addresses.iter().copied().map(Svma).collect();
    let found = symbolizer.elf(&of_this_machine(mapped), &svmas);
    let mut inlined = 0;
    for ((address, expected), found) in addresses.iter().zip(addr2line(reference, &addresses)).zip(&found) {
        let found = found.as_ref().unwrap_or_else(|| panic!("{address:#x} is not named"));
        assert_eq!(found.source, SymbolSource::Dwarf);
        let base = |path: &str| Path::new(path).file_name().unwrap().to_string_lossy().into_owned();
        let ours: Vec<_> = found
            .functions
            .iter()
            .map(|function| {
                (function.name.clone(), base(function.file.as_deref().unwrap_or("?")), function.line)
            })
            .collect();
        let theirs: Vec<_> =
            expected.iter().map(|(name, file, line)| (name.clone(), base(file), *line)).collect();
        assert_eq!(ours, theirs, "{address:#x}");
        inlined += usize::from(expected.len() > 1);
    }
    assert!(inlined > 10, "the program has inlined functions");
    let problems = symbolizer.take_problems();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn inlined_functions_and_lines_are_those_of_addr2line() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&["-O2", "-g"][..], &["-O2", "-gdwarf-4"], &["-O2", "-g", "-gz"]] {
        let program = compile(folder.path(), "names.cpp", "names", flags);
        assert_same_as_addr2line(&mut with_debug_folder(folder.path()), &program, &program);
    }
}

#[test]
fn debug_sections_packed_with_zstd_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let plain = compile(folder.path(), "names.cpp", "names", &["-O2", "-g"]);
    let packed = folder.path().join("packed");
    run(Command::new("objcopy").arg("--compress-debug-sections=zstd").arg(&plain).arg(&packed));
    assert_same_as_addr2line(&mut with_debug_folder(folder.path()), &packed, &plain);
}

fn strip(program: &Path, debug: &Path, stripped: &Path, link: bool) {
    run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(debug));
    run(Command::new("objcopy").arg("--strip-all").arg(program).arg(stripped));
    if link {
        run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(stripped));
    }
}

#[test]
fn debug_files_are_found_where_gdb_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let program = compile(root, "names.cpp", "names", &["-O2", "-g", "-Wl,--build-id=sha1"]);
    let without_id = compile(root, "names.cpp", "anonymous", &["-O2", "-g", "-Wl,--build-id=none"]);
    let id: String = elf::build_id(&program, std::fs::File::open(&program).unwrap())
        .unwrap()
        .unwrap()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(run(Command::new("readelf").arg("-n").arg(&program)).contains(&id));
    assert_eq!(elf::build_id(&without_id, std::fs::File::open(&without_id).unwrap()).unwrap(), None);
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let global = root.join("debug");
    let by_id = global.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    let by_folder = global.join(bin.strip_prefix("/").unwrap()).join("names.debug");
    let beside = bin.join("names.debug");
    let hidden = bin.join(".debug/names.debug");
    for (place, original, link) in [
        (&by_id, &program, false),
        (&beside, &program, true),
        (&hidden, &program, true),
        (&by_folder, &program, true),
        (&beside, &without_id, true),
    ] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let stripped = bin.join("stripped");
        strip(original, place, &stripped, link);
        assert_same_as_addr2line(&mut with_debug_folder(&global), &stripped, original);
        // A file of the same name that belongs to another build is not believed.
        let other = compile(root, "stacks.c", "other", &["-O2", "-g", "-pthread"]);
        fs::copy(&other, place).unwrap();
        let own = own_addresses(original)[0];
        let found = with_debug_folder(&global).elf(&of_this_machine(&stripped), &[Svma(own)]);
        let source = found[0].as_ref().map(|found| found.source);
        assert_eq!(source, Some(SymbolSource::FunctionStart), "{}", place.display());
        fs::remove_file(place).unwrap();
    }
}

#[test]
fn debug_files_below_the_targets_root_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let program = compile(folder.path(), "names.cpp", "names", &["-O2", "-g", "-Wl,--build-id=sha1"]);
    fs::create_dir_all(root.join("opt/app")).unwrap();
    fs::create_dir_all(root.join("usr/lib/debug/opt/app")).unwrap();
    let stripped = root.join("opt/app/names");
    strip(&program, &root.join("usr/lib/debug/opt/app/names.debug"), &stripped, false);
    let link = root.join("usr/lib/debug/opt/app/names.debug");
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", link.display())).arg(&stripped));
    let source = ModuleSource {
        path: String::from("/opt/app/names"),
        candidates: vec![PathBuf::from("/nonexistent"), stripped],
        root: Some(root),
        ..ModuleSource::elf("/opt/app/names")
    };
    let own = own_addresses(&program)[0];
    let found = symbolizer(Options::default()).elf(&source, &[Svma(own)]);
    assert_eq!(found[0].as_ref().map(|found| found.source), Some(SymbolSource::Dwarf));
}

#[test]
fn mini_debug_info_names_local_functions() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &["-O2"]);
    let (debug, stripped) = (folder.path().join("mini"), folder.path().join("stripped"));
    strip(&program, &debug, &stripped, false);
    run(Command::new("xz").arg("--keep").arg(&debug));
    run(Command::new("objcopy")
        .arg(format!("--add-section=.gnu_debugdata={}", folder.path().join("mini.xz").display()))
        .arg(&stripped));
    let (address, _) = listed(&program)
        .into_iter()
        .find(|(_, (_, names))| names.iter().any(|name| name == "shop::till"))
        .unwrap();
    let found = tables_only().elf(&ModuleSource::elf(&stripped), &[Svma(address)]);
    assert_eq!(real_name(&found[0]), Some("shop::till"));
}

#[test]
fn a_file_that_was_replaced_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &["-O2", "-Wl,--build-id=sha1"]);
    let main = listed(&program)
        .into_iter()
        .find(|(_, (_, names))| names.iter().any(|name| name == "main"))
        .unwrap()
        .0;
    let source = ModuleSource { build_id: Some(vec![1; 20]), ..ModuleSource::elf(&program) };
    let mut symbolizer = tables_only();
    assert_eq!(symbolizer.elf(&source, &[Svma(main)]), [None]);
    let problems = symbolizer.take_problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().ends_with("has another build id than what is mapped: it was replaced"));
    assert!(symbolizer.elf(&source, &[Svma(main)])[0].is_none());
    assert!(symbolizer.take_problems().is_empty(), "the same problem is told once");
}

#[test]
fn debug_information_above_the_budget_leaves_the_symbol_table() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.cpp", "names", &["-O2", "-g"]);
    let main = listed(&program)
        .into_iter()
        .find(|(_, (_, names))| names.iter().any(|name| name == "main"))
        .unwrap()
        .0;
    let mut symbolizer = symbolizer(Options { debug_bytes: 1000, ..Options::default() });
    let found = symbolizer.elf(&ModuleSource::elf(&program), &[Svma(main)]);
    assert_eq!(found[0].as_ref().map(|found| found.source), Some(SymbolSource::ElfSymbols));
    assert!(symbolizer.take_problems()[0].to_string().contains("the limit is 1000"));
}

#[test]
fn rust_names_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    for mangling in ["legacy", "v0"] {
        let mangling = format!("symbol-mangling-version={mangling}");
        let flags = ["-O", "-g", "-C", &mangling, "-Z", "unstable-options"];
        let flags = if mangling.ends_with("legacy") { &flags[..] } else { &flags[..4] };
        let mut command = Command::new("rustc");
        command.env("RUSTC_BOOTSTRAP", "1").args(flags).arg("-o").arg(folder.path().join("names_rs"));
        run(command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/names.rs")));
        let program = folder.path().join("names_rs");
        let text = run(Command::new("nm").arg(&program));
        let line = text.lines().find(|line| line.contains("weigh_everything")).unwrap();
        let address = u64::from_str_radix(&line[..16], 16).unwrap();
        let found = with_debug_folder(folder.path()).elf(&ModuleSource::elf(&program), &[Svma(address + 4)]);
        let found = found[0].as_ref().unwrap();
        assert_eq!(found.functions.last().unwrap().name, "names::shop::weigh_everything", "{mangling}");
        assert!(
            found.functions.last().unwrap().file.as_deref().is_some_and(|file| file.ends_with("names.rs"))
        );
    }
}

/// With privileges the names are those of the file; without, every address reads as zero, and that is said.
#[test]
fn kernel_functions_are_named_or_said_to_be_hidden() {
    let text = fs::read_to_string("/proc/kallsyms").unwrap();
    let functions: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let code = matches!(fields[1], "T" | "t");
            (code && fields.len() == 3).then(|| (u64::from_str_radix(fields[0], 16).unwrap(), fields[2]))
        })
        .collect();
    let mut symbolizer = tables_only();
    let hidden = functions.iter().all(|(address, _)| *address == 0);
    if hidden {
        assert_eq!(symbolizer.kernel(&[Avma(0xffff_ffff_8100_0000)]), [None]);
        let problems = symbolizer.take_problems();
        assert!(matches!(problems[..], [SymbolProblem::Kernel(_)]) && problems[0].hint().is_some());
        return;
    }
    for sample in functions.iter().step_by(functions.len() / 100) {
        let names: Vec<&str> =
            functions.iter().filter(|(address, _)| *address == sample.0).map(|(_, name)| *name).collect();
        let found = symbolizer.kernel(&[Avma(sample.0)]);
        assert!(names.contains(&real_name(&found[0]).unwrap()), "{sample:?}");
    }
    assert_eq!(symbolizer.kernel(&[Avma(0x1000)]), [None]);
    assert!(symbolizer.take_problems().is_empty());
}

/// A runtime begins to write after it was asked about, goes on writing, and ends.
#[test]
fn a_perf_map_is_found_late_read_on_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf-7.map");
    let mut symbolizer = tables_only();
    let mut ask = |address| {
        let found = symbolizer.perf_map(&path, None, &[Avma(address)]);
        real_name(&found[0]).map(str::to_owned)
    };
    assert_eq!(ask(0x1000), None);
    fs::write(&path, "1000 10 first\n").unwrap();
    assert_eq!(ask(0x1000).as_deref(), Some("first"));
    fs::write(&path, "1000 10 first\n2000 10 second\n").unwrap();
    assert_eq!(ask(0x2000).as_deref(), Some("second"));
    fs::remove_file(&path).unwrap();
    assert_eq!(ask(0x2000).as_deref(), Some("second"));
    fs::write(&path, "2000 10 another\n").unwrap();
    assert_eq!(ask(0x2000).as_deref(), Some("another"));
    assert!(symbolizer.take_problems().is_empty());
}
