//! Cores that other programs write of a process whose memory is known: gdb, createdump of .NET 8, 9 and 10, the kernel.
//!
//! What is read from the core is held against `/proc/PID/mem` of the process, and against what gdb reads from the core.

mod writers;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use biopsy_image::write::{Compression, CoreKind, CoreOptions, CoreOutput, NoProgress, write_core};
use biopsy_image::{
    Absence, Backing, CrashKind, Encoding, Image, Limits, MemoryExt, Opened, PAGE_SIZE, ReadError, open,
};
use biopsy_model::Avma;
use biopsy_testkit::{
    Privilege, Signal, Survival, TargetProcess, compile_c, require, require_program, temp_dir,
};

const SOURCE: &str = include_str!("known.c");
const PATTERN_BYTES: usize = 8 << 20;

/// Compiled once: a second compilation at the same time would replace the file of a process that runs already.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_c("known", SOURCE, &["-O1"])).clone()
}

fn opened(core: &Path) -> Opened {
    open(core, &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A process of the program whose threads all wait: in pause(2) or read(2), which a stop does not end.
fn start(mut command: Command) -> TargetProcess {
    // The kernel writes the number of the CPU into the rseq area of a thread that runs again after a stop.
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let target = TargetProcess::spawn(command);
    let waits = |entry: std::io::Result<std::fs::DirEntry>| {
        let call = entry.and_then(|entry| std::fs::read_to_string(entry.path().join("syscall")));
        call.is_ok_and(|call| call.starts_with("34 ") || call.starts_with("0 "))
    };
    for _ in 0..2000 {
        let mut threads = std::fs::read_dir(format!("/proc/{}/task", target.pid())).expect("the target runs");
        if threads.all(waits) {
            return target;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the threads of the target do not come to rest")
}

/// The addresses behind `READY PID`.
fn addresses(target: &TargetProcess) -> [u64; 2] {
    let mut words = target.ready_line().split_ascii_whitespace().skip(2);
    [(); 2].map(|()| {
        let word = words
            .next()
            .and_then(|word| word.strip_prefix("0x"))
            .expect("the target says where its memory is");
        u64::from_str_radix(word, 16).expect("an address")
    })
}

fn check_pattern(image: &dyn Image, pattern: u64) {
    let bytes = image.read_up_to(pattern, PATTERN_BYTES).unwrap_or_else(|error| panic!("{error}"));
    let expected: Vec<u8> =
        (0..PATTERN_BYTES as u32 / 4).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    assert!(bytes == expected, "the pattern reads back");
}

fn check_magic(image: &dyn Image) {
    let mut magic: Vec<u64> = image
        .threads()
        .iter()
        .filter_map(|thread| thread.registers.map(|registers| (registers.r15, thread)))
        .filter(|(r15, _)| r15 >> 48 == 0x1111)
        .map(|(r15, thread)| {
            // xmm15 in the FXSAVE area, at 160 + 15 * 16.
            let xmm = thread.extended.get(400..408).expect("vector registers are there");
            assert_eq!(
                u64::from_le_bytes(xmm.try_into().unwrap()),
                r15,
                "r15 and xmm15 are equal in the target"
            );
            r15 & 0xffff
        })
        .collect();
    magic.sort_unstable();
    assert_eq!(magic, [0, 1, 2, 3, 4]);
}

/// Every byte of the image that the process may have is the byte of the process. The target only waits, so nothing
/// changes but what a stop itself writes: nothing.
fn check_against_process(image: &dyn Image, pid: u32) -> u64 {
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may read memory");
    let mut compared = 0;
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for mapping in image.mappings() {
        let mut at = mapping.start;
        while at < mapping.end {
            let most = ours.len().min((mapping.end - at) as usize);
            match image.read(at, &mut ours[..most]) {
                Ok(read) => {
                    // `[vvar]` and what the kernel does not give out cannot be compared.
                    if memory.read_exact_at(&mut theirs[..read], at).is_ok() {
                        let same = ours
                            .iter()
                            .zip(&theirs)
                            .take(read)
                            .take_while(|(ours, theirs)| ours == theirs)
                            .count();
                        assert_eq!(
                            same,
                            read,
                            "{mapping:x?} differs at {:#x}: {:x?}",
                            at + same as u64,
                            theirs[same & !15..].iter().take(64)
                        );
                        compared += read as u64;
                    }
                    at += read as u64;
                }
                Err(ReadError::Missing { why, .. }) => {
                    assert!(
                        matches!(why, Absence::LeftOut | Absence::NotOfKind | Absence::Unreadable),
                        "{why:?} at {at:#x}"
                    );
                    at += PAGE_SIZE;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    compared
}

fn check_threads(image: &dyn Image, pid: u32) {
    let mut expected: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("the target runs")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    expected.sort_unstable();
    let mut found: Vec<u32> = image.threads().iter().map(|thread| thread.tid.0).collect();
    assert_eq!(found[0], pid, "nothing died, so the main thread is first");
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// General registers of all threads as gdb reads them from the core.
fn check_registers_against_gdb(image: &dyn Image, program: &Path, core: &Path) {
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-q", "-ex", "thread apply all info registers"])
        .arg(program)
        .arg(core)
        .output()
        .expect("gdb runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut threads: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    let mut tid = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("LWP ") {
            tid = rest.split(')').next().and_then(|word| word.parse().ok());
        }
        let mut words = line.split_ascii_whitespace();
        if let (Some(tid), Some(name), Some(value)) = (tid, words.next(), words.next())
            && let Some(value) = number(value)
        {
            threads.entry(tid).or_default().insert(name.to_owned(), value);
        }
    }
    for thread in image.threads() {
        let theirs =
            threads.get(&thread.tid.0).unwrap_or_else(|| panic!("gdb has no thread {}: {text}", thread.tid));
        let ours = thread.registers.expect("x86-64");
        // gdb does not print it; what it points to begins with a pointer to itself (`tcbhead_t` of glibc), which small dumps
        // do not have.
        if let Ok(itself) = image.read_u64(ours.fs_base) {
            assert_eq!(itself, ours.fs_base, "fs_base of thread {}", thread.tid);
        }
        for (name, value) in [
            ("rip", ours.rip),
            ("rsp", ours.rsp),
            ("rbp", ours.rbp),
            ("rbx", ours.rbx),
            ("rax", ours.rax),
            ("r8", ours.r8),
            ("r12", ours.r12),
            ("r15", ours.r15),
            ("eflags", ours.eflags),
        ] {
            assert_eq!(theirs.get(name), Some(&value), "{name} of thread {}", thread.tid);
        }
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn check_module(image: &dyn Image, program: &Path) {
    let main = image
        .modules()
        .iter()
        .find(|module| module.path.ends_with(b"/known"))
        .expect("the program is a module");
    assert!(main.is_elf);
    let output = Command::new("readelf").arg("-n").arg(program).output();
    // Without binutils the build id is only known to be there.
    let id: String = main.build_id.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    assert!(!id.is_empty(), "the first page is in the core, so the build id is");
    if let Ok(output) = output {
        assert!(String::from_utf8_lossy(&output.stdout).contains(&id), "readelf says the same as {id}");
    }
    assert!(image.modules().iter().any(|module| module.path == b"[vdso]" && module.is_elf));
}

#[test]
fn a_core_of_gdb_is_the_process() {
    if !require(Privilege::Cc) || !require(Privilege::Ptrace) || !require(Privilege::Gdb) {
        return;
    }
    let program = program();
    let mut target = start(Command::new(&program));
    let survival = Survival::before(target.pid());
    let folder = temp_dir("gcore");
    let core = writers::gcore(target.pid(), folder.path());
    let opened = opened(&core);
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    let image = &*opened.image;
    assert_eq!(image.process().writer.as_deref(), Some("gdb"));
    assert_eq!(opened.crash(), None);
    let [pattern, shared] = addresses(&target);
    check_pattern(image, pattern);
    assert_eq!(image.read_u32(shared + 4).unwrap(), 0x5a5a_5a5b);
    check_threads(image, target.pid());
    check_magic(image);
    let compared = check_against_process(image, target.pid());
    assert!(compared > 20 << 20, "{compared} bytes compared");
    check_registers_against_gdb(image, &program, &core);
    check_module(image, &program);
    check_packings(&core, pattern);
    let ours = folder.path().join("ours");
    check_our_own(image, &ours);
    check_our_own_cut_off(image, &ours);
    survival.assert_unharmed();
    target.stop();
}

/// What our writer makes of it reads back the same.
fn check_our_own(image: &dyn Image, path: &Path) {
    for compression in [Compression::None, Compression::SeekableZstd { level: 1 }] {
        let file = File::create(path).expect("a folder of our own");
        let options = CoreOptions { compression, ..CoreOptions::new(CoreKind::Full) };
        write_core(image, &options, CoreOutput::File(&file), &NoProgress).expect("there is room");
        let ours = opened(path);
        assert!(ours.warnings.is_empty(), "{:?}", ours.warnings);
        let ours = &*ours.image;
        assert_eq!(ours.mappings(), image.mappings());
        assert_eq!(ours.modules(), image.modules());
        for (ours, theirs) in ours.threads().iter().zip(image.threads()) {
            assert_eq!(
                (ours.tid, ours.registers, &ours.extended),
                (theirs.tid, theirs.registers, &theirs.extended)
            );
        }
        let (mut first, mut second) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        for mapping in image.mappings() {
            let mut at = mapping.start;
            while at < mapping.end {
                let most = first.len().min((mapping.end - at) as usize);
                let count = image.read(at, &mut first[..most]).unwrap_or(0);
                let same = ours.read(at, &mut second[..most]).unwrap_or(0);
                // Devices and the like are never written.
                if !matches!(mapping.backing, Backing::Kernel { .. }) {
                    assert!(
                        count == same && first[..count] == second[..same],
                        "{mapping:x?} at {at:#x}: {count} and {same} bytes; {:?}",
                        ours.read(at, &mut [0])
                    );
                }
                at += (count as u64).max(PAGE_SIZE);
            }
        }
    }
}

/// A compressed core of ours, when the disk was full: found by walking over its frames.
fn check_our_own_cut_off(image: &dyn Image, path: &Path) {
    let file = File::options().write(true).open(path).expect("it is ours");
    let whole = file.metadata().expect("it is there").len();
    file.set_len(whole * 6 / 10).expect("files can be cut");
    let cut = opened(path);
    assert_eq!(cut.encoding, Encoding::FramedZstd);
    assert_eq!(cut.warnings[0].code, "dump.cut-off");
    assert_eq!(cut.image.threads().len(), image.threads().len());
    assert!(
        cut.image.read_u64(image.threads()[0].registers.expect("x86-64").rsp).is_ok(),
        "stacks come first"
    );
}

/// The same core, packed by other programs: as systemd-coredump does (zstd of one frame), and gzip.
fn check_packings(core: &Path, pattern: u64) {
    for (tool, arguments, ending) in [
        ("zstd", &["-q", "-1", "-k"][..], "zst"),
        ("zstd", &["-q", "-3", "-k", "-f", "--no-content-size"], "zst"),
        ("gzip", &["-1", "-k"], "gz"),
    ] {
        if !require_program(tool, &["--version"]) {
            continue;
        }
        let status = Command::new(tool).args(arguments).arg(core).status().expect("it runs");
        assert!(status.success());
        let mut packed = core.as_os_str().to_owned();
        packed.push(format!(".{ending}"));
        let packed = self::opened(Path::new(&packed));
        assert!(packed.warnings.is_empty(), "{:?}", packed.warnings);
        check_pattern(&*packed.image, pattern);
        check_magic(&*packed.image);
    }
}

#[test]
fn cores_of_createdump_are_the_process() {
    if !require(Privilege::Cc) || !require(Privilege::Ptrace) || !require(Privilege::DotNetTargets) {
        return;
    }
    let program = program();
    let mut target = start(Command::new(&program));
    let survival = Survival::before(target.pid());
    let folder = temp_dir("createdump");
    let [pattern, _] = addresses(&target);
    let programs = writers::createdumps();
    assert!(programs.len() >= 3, "createdump of .NET 8, 9 and 10: {programs:?}");
    for (index, createdump) in programs.iter().enumerate() {
        for kind in ["--full", "--normal"] {
            let core = folder.path().join(format!("core{index}{kind}"));
            writers::createdump(createdump, kind, target.pid(), &core);
            let opened = opened(&core);
            assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
            let image = &*opened.image;
            assert_eq!(image.process().writer.as_deref(), Some("createdump"));
            check_threads(image, target.pid());
            check_magic(image);
            let compared = check_against_process(image, target.pid());
            if kind == "--full" {
                check_pattern(image, pattern);
                assert!(compared > 20 << 20, "{compared} bytes compared");
            } else {
                assert!(compared > 100 << 10, "{compared} bytes compared");
                // In a small dump the heap is missing, and known to be no mistake.
                let missing = image.read(pattern, &mut [0; 8]);
                assert!(matches!(missing, Err(ReadError::Missing { .. })), "{missing:?}");
                check_our_own(image, &folder.path().join("ours"));
            }
            check_module(image, &program);
            // The writers of the three versions are the same code, and gdb takes seconds.
            if index == 0 && kind == "--full" && require(Privilege::Gdb) {
                check_registers_against_gdb(image, &program, &core);
            }
        }
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_core_of_the_kernel_has_the_thread_that_crashed_first() {
    if !require(Privilege::Cc) || !require(Privilege::KernelCores) {
        return;
    }
    let program = program();
    let folder = temp_dir("kernel");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited && exec \"$0\""]).arg(&program).current_dir(folder.path());
    let mut target = start(command);
    let [pattern, shared] = addresses(&target);
    target.signal(Signal::USR1);
    let status = target.wait_for_exit(std::time::Duration::from_secs(60)).expect("it crashes");
    assert!(!status.success());
    let Some(core) = writers::only_file(folder.path()) else {
        panic!("the kernel wrote no core although it was asked to")
    };
    let opened = opened(&core);
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    let image = &*opened.image;
    let facts = image.process();
    assert_eq!(
        (facts.pid.0, facts.writer.as_deref(), facts.name.as_slice()),
        (target.pid(), Some("linux"), &b"known"[..])
    );
    let crash = opened.crash().expect("it died");
    assert_eq!(crash.kind, CrashKind::Signal { number: 11, code: Some(1) });
    assert_eq!((crash.address, crash.description.as_str()), (Some(Avma(8)), "SIGSEGV"));
    let threads = image.threads();
    assert_eq!(threads.len(), 7);
    assert_ne!(threads[0].tid.0, target.pid(), "not the main thread crashed");
    assert!(threads[1..].iter().all(|thread| thread.signal.is_none()));
    assert_eq!(threads[1].blocked_signals, Some(1 << 9), "SIGUSR1 is blocked");
    check_pattern(image, pattern);
    assert_eq!(image.read_u32(shared + 4).unwrap(), 0x5a5a_5a5b);
    check_magic(image);
    check_module(image, &program);
    // The second half of the mapping was never touched: zeros in the process, and not said to be written.
    assert_eq!(image.read_u64(pattern + PATTERN_BYTES as u64 + 4096).unwrap(), 0);
    let mut runs = Vec::new();
    let whole = pattern..pattern + 2 * PATTERN_BYTES as u64;
    image.written(whole, &mut runs).unwrap();
    let written: u64 = runs.iter().map(|run| run.end - run.start).sum();
    assert!((PATTERN_BYTES as u64..PATTERN_BYTES as u64 + (1 << 20)).contains(&written), "{runs:x?}");
    if require(Privilege::Gdb) {
        check_registers_against_gdb(image, &program, &core);
    }
}

#[test]
fn a_core_that_the_kernel_cut_off_at_its_limit_says_so() {
    if !require(Privilege::Cc) || !require(Privilege::KernelCores) {
        return;
    }
    let folder = temp_dir("limit");
    let mut command = Command::new("sh");
    // 512 or 1024 bytes each, which depends on the shell.
    command.args(["-c", "ulimit -c 5000 && exec \"$0\""]).arg(program()).current_dir(folder.path());
    let mut target = start(command);
    let [pattern, _] = addresses(&target);
    target.signal(Signal::USR1);
    target.wait_for_exit(std::time::Duration::from_secs(60)).expect("it crashes");
    let core = writers::only_file(folder.path()).expect("a core as large as the limit");
    let opened = opened(&core);
    let codes: Vec<&str> = opened.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["dump.truncated"]);
    let image = &*opened.image;
    check_magic(image);
    let mut lost = 0;
    for mapping in image.mappings() {
        let last = image.read(mapping.end - 1, &mut [0]);
        lost += u32::from(matches!(last, Err(ReadError::Missing { why: Absence::Truncated, .. })));
    }
    assert!(lost > 0);
    // Half of the memory is enough to see that what is there is right.
    if let Ok(bytes) = image.read_up_to(pattern, PATTERN_BYTES) {
        for (at, word) in (0u32..).zip(bytes.chunks_exact(4)) {
            assert_eq!(word, at.wrapping_mul(2_654_435_761).to_le_bytes(), "word {at}");
        }
    }
}

/// The runtime starts createdump when it dies, and tells it the thread and the signal.
#[test]
fn a_core_of_a_dying_dotnet_server_has_its_signal_and_its_heap() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let folder = temp_dir("dotnet");
    let core = folder.path().join("core");
    writers::crash_dotnet("net9.0", "native-segfault", &core);
    let opened = opened(&core);
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    let image = &*opened.image;
    assert_eq!(image.process().writer.as_deref(), Some("createdump"));
    let crash = opened.crash().expect("it died");
    assert_eq!((crash.description.as_str(), crash.address), ("SIGSEGV", Some(Avma(0))));
    assert_eq!(crash.thread, Some(image.threads()[0].tid));
    let module = |name: &[u8]| {
        let mut all = image.modules().iter().filter(|module| module.path.ends_with(name));
        all.next().unwrap_or_else(|| panic!("no module {}", name.escape_ascii()))
    };
    let runtime = module(b"/libcoreclr.so");
    assert!(runtime.is_elf && runtime.build_id.is_some());
    assert!(!module(b"/System.Private.CoreLib.dll").is_elf);
    // The stack of the thread that died is there.
    let registers = image.threads()[0].registers.expect("x86-64");
    assert!(image.read_up_to(registers.rsp, 512).is_ok_and(|bytes| bytes.len() == 512));
}
