//! Cores of living processes, byte for byte, and as debuggers see them.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use biopsy_image::write::{
    Compression, CoreKind, CoreOptions, CoreOutput, CoreProgress, CoreSummary, DEFAULT_LEVEL, NoProgress,
    write_core,
};
use biopsy_image::{Absence, Image, Limits, MemoryExt, ReadError};
use biopsy_model::Pid;
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require_all, temp_dir};

const PAGE: u64 = 4096;

fn ready() -> bool {
    cfg!(target_arch = "x86_64") && require_all(&[Privilege::Ptrace, Privilege::Root, Privilege::Cc])
}

/// Pauses are long on a busy machine, and not what these tests are about.
fn frozen(pid: u32) -> FrozenProcess {
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).unwrap_or_else(|error| panic!("{error:?}"));
    let mut all = freeze(plan, &options).unwrap_or_else(|error| panic!("{error:?}"));
    all.pop().expect("one process was asked for")
}

fn write_to(image: &dyn Image, kind: CoreKind, compression: Compression, path: &Path) -> CoreSummary {
    let file = File::create(path).unwrap();
    let options = CoreOptions { compression, ..CoreOptions::new(kind) };
    write_core(image, &options, CoreOutput::File(&file), &NoProgress).unwrap()
}

/// An area of the self-checking program.
struct Area {
    name: String,
    start: u64,
    end: u64,
    step: u64,
}

fn areas(target: &TargetProcess) -> Vec<Area> {
    target
        .ready_line()
        .split_ascii_whitespace()
        .skip(2)
        .map(|word| {
            let mut parts = word.split(':');
            let mut next = || parts.next().expect("four parts");
            let hexadecimal = |text| u64::from_str_radix(text, 16).expect("an address");
            Area {
                name: next().to_owned(),
                start: hexadecimal(next()),
                end: hexadecimal(next()),
                step: next().parse().expect("a number"),
            }
        })
        .collect()
}

/// As `word_at` in the program.
fn word_at(address: u64) -> u64 {
    if address & 0x800 != 0 { address } else { address.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ address >> 29 }
}

/// Compares every byte of every area with what it must be.
fn check_areas(image: &dyn Image, areas: &[Area]) {
    for area in areas {
        let mut bytes = vec![0; PAGE as usize];
        let mut expected = vec![0; PAGE as usize];
        for (number, address) in (area.start..area.end).step_by(PAGE as usize).enumerate() {
            let read = image.read_exact(address, &mut bytes);
            if area.name == "hidden" {
                assert!(
                    matches!(read, Err(ReadError::Missing { why: Absence::Unreadable, .. })),
                    "{address:#x} cannot be read by the process: {read:?}"
                );
                continue;
            }
            read.unwrap_or_else(|error| panic!("{} at {address:#x}: {error}", area.name));
            let is_written = (number as u64).is_multiple_of(area.step);
            for (at, eight) in expected.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *eight = if is_written { word_at(address + at as u64 * 8) } else { 0 }.to_le_bytes();
            }
            assert!(bytes == expected, "{} differs at {address:#x}", area.name);
        }
    }
}

/// Pages of shared memory and of page tables of a process: reading must not make any.
fn shared_pages(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Rss:")).expect("it has one");
    line.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

/// Blocks of the memfd, which everybody who maps it pays for.
fn memfd_blocks(pid: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut files = folder.flatten().filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains("self checking"))
    });
    files.next().expect("its memfd").path().metadata().unwrap().blocks()
}

#[test]
fn every_byte_of_a_living_process_is_in_its_core() {
    if !ready() {
        return;
    }
    let folder = temp_dir("core");
    let mut target = TargetProcess::start(Program::SelfChecking, &["8"]);
    let areas = areas(&target);
    assert!(areas.len() >= 10, "{}", target.ready_line());
    let survival = Survival::before(target.pid());
    let (rss, blocks) = (shared_pages(target.pid()), memfd_blocks(target.pid()));
    let mut cores = Vec::new();
    let process = frozen(target.pid());
    for kind in [CoreKind::Full, CoreKind::Heap] {
        for compression in [Compression::None, Compression::SeekableZstd { level: DEFAULT_LEVEL }] {
            let path = folder.path().join(format!("core-{kind:?}-{}", cores.len()));
            let summary = write_to(&process, kind, compression, &path);
            assert!(summary.missing.is_empty(), "{summary:?}");
            assert!(summary.written_bytes < summary.logical_bytes, "{summary:?}");
            cores.push(path);
        }
    }
    let threads = process.threads().to_vec();
    assert!(process.release().reaped);
    for path in cores {
        let opened = biopsy_image::open(&path, &Limits::default()).unwrap();
        assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
        assert_eq!(opened.image.threads().len(), threads.len());
        for (read, frozen) in opened.image.threads().iter().zip(&threads) {
            // State at the end that is not in use is left out.
            assert!(frozen.extended.starts_with(&read.extended) && read.extended.len() >= 512);
            assert_eq!((read.tid, &read.name, read.registers), (frozen.tid, &frozen.name, frozen.registers));
        }
        check_areas(&*opened.image, &areas);
        for name in ["dontfork", "wipeonfork"] {
            let area = areas.iter().find(|area| area.name == name).expect("an area");
            let mapping = biopsy_image::mapping::find(opened.image.mappings(), area.start).expect("mapped");
            assert!(mapping.not_frozen, "{name}");
        }
    }
    assert_eq!(memfd_blocks(target.pid()), blocks, "reading its holes has filled them");
    // The 64 MiB of which one page in 4 MiB is touched would show.
    assert!(shared_pages(target.pid()) < rss + 16 * 1024, "reading has made pages");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn the_freeze_can_end_while_the_core_is_written() {
    if !ready() {
        return;
    }
    /// Ends the freeze as soon as the writer allows.
    struct Release(std::sync::Mutex<Vec<u32>>, u32);
    impl CoreProgress for Release {
        fn anonymous_memory_done(&self) {
            biopsy_testkit::send_signal(self.1, biopsy_testkit::Signal::KILL);
            self.0.lock().unwrap().push(self.1);
        }
    }
    let folder = temp_dir("core");
    let mut target = TargetProcess::start(Program::SelfChecking, &["4"]);
    let areas = areas(&target);
    let survival = Survival::before(target.pid());
    let process = frozen(target.pid());
    if let Some(child) = process.child() {
        let path = folder.path().join("core");
        let release = Release(std::sync::Mutex::default(), child.0);
        let file = File::create(&path).unwrap();
        let options = CoreOptions { threads: std::num::NonZero::new(1), ..CoreOptions::new(CoreKind::Heap) };
        let summary = write_core(&process, &options, CoreOutput::File(&file), &release).unwrap();
        assert_eq!(*release.0.lock().unwrap(), [child.0], "said once");
        // Shared memory is not the child's alone, but it was read through it.
        let opened = biopsy_image::open(&path, &Limits::default()).unwrap();
        let shared = ["shared", "memfd"];
        let private: Vec<Area> =
            areas.into_iter().filter(|area| !shared.contains(&area.name.as_str())).collect();
        check_areas(&*opened.image, &private);
        assert!(summary.freeze_needed <= summary.total);
    }
    drop(process);
    survival.assert_unharmed();
    target.stop();
}

/// Runs a tool and gives what it said on stdout; `None`, with the reason printed: it is not here.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    let command = Command::new(name).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    match command {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            let mut text = format!("skipped: cannot run {name}: {error}\n");
            text.truncate(200);
            #[expect(clippy::disallowed_methods, reason = "a test says what it cannot do")]
            std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
            None
        }
    }
}

#[test]
fn debuggers_list_all_threads_with_registers_and_stacks() {
    if !ready() {
        return;
    }
    let folder = temp_dir("core");
    let mut target = TargetProcess::start(Program::ManyThreads, &["20"]);
    let survival = Survival::before(target.pid());
    let process = frozen(target.pid());
    let threads = process.threads().len();
    assert!(threads >= 20);
    let sp = process.threads()[0].registers.expect("of the main thread").rsp;
    for kind in [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks] {
        write_to(&process, kind, Compression::None, &folder.path().join(format!("{kind:?}")));
    }
    assert!(process.release().reaped);
    let program = Program::ManyThreads.path();
    for kind in [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks] {
        let core = folder.path().join(format!("{kind:?}"));
        let (core, program) = (core.to_str().unwrap(), program.to_str().unwrap());
        let script = ["info threads", "p/x $sp", "thread apply all bt 8"];
        let mut arguments = vec!["-nx", "-batch", "-iex", "set debuginfod enabled off", program, core];
        for line in &script {
            arguments.extend(["-ex", line]);
        }
        if let Some(said) = tool("gdb", &arguments) {
            assert_eq!(said.matches("New LWP").count(), threads, "{kind:?}: {said}");
            assert!(said.contains(&format!("{sp:#x}")), "{kind:?}: {said}");
            // Two frames of the C library are behind it; they have names only where its debug symbols are installed.
            let behind = |rest: &str| rest.split("\n\n").next().map_or(0, |rest| rest.matches("\n#").count());
            let whole = said.split(" in sleeper ").skip(1).filter(|rest| behind(rest) >= 2).count();
            assert!(whole >= threads - 2, "{kind:?}: stacks are cut\n{said}");
        }
        if let Some(said) = tool("eu-readelf", &["-n", core]) {
            assert_eq!(said.matches("PRSTATUS").count(), threads, "{kind:?}: {said}");
            assert!(said.contains("many-threads"), "{kind:?}: {said}");
        }
        if let Some(said) = tool("lldb", &["--batch", "--core", core, program, "-o", "thread list"]) {
            assert!(said.matches("thread #").count() >= threads, "{kind:?}: {said}");
        }
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_pipe_gives_the_same_core() {
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::SelfChecking, &["2"]);
    let areas = areas(&target);
    let survival = Survival::before(target.pid());
    let process = frozen(target.pid());
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let bytes = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        });
        let options = CoreOptions::new(CoreKind::Heap);
        write_core(&process, &options, CoreOutput::Stream(&mut writer), &NoProgress).unwrap();
        drop(writer);
        reading.join().expect("no panic").unwrap()
    });
    let opened = biopsy_image::open_bytes("core", bytes, &Limits::default()).unwrap();
    check_areas(&*opened.image, &areas);
    // And one that closes.
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    let options = CoreOptions::new(CoreKind::Heap);
    let error = write_core(&process, &options, CoreOutput::Stream(&mut writer), &NoProgress).unwrap_err();
    assert!(matches!(error, biopsy_image::write::CoreError::Output { .. }), "{error}");
    drop(process);
    survival.assert_unharmed();
    target.stop();
}
