//! `biopsy dump` on bad days: no rights, other users, containers, too many mappings, memory that is written meanwhile, no memory
//! for biopsy itself, a core pattern of somebody else. A clear error or a recorded warning; the target is unharmed; nothing
//! half-written is called complete.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use biopsy_image::{Limits, MemoryExt, open};
use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, as_user, compile_c, copy_under_odd_name, machine_to_myself,
    require_all, temp_dir,
};
use serde_json::Value;

use crate::support::{biopsy, complaint, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];
const PATIENCE: Duration = Duration::from_secs(60);

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A dump of stacks and heaps into one file: what it said of it as JSON.
#[track_caller]
fn dumped(pid: u32, into: &Path, more: &[&str]) -> Value {
    let mut command = biopsy(["dump", &pid.to_string(), "--json", "--max-pause", "5s", "--output"]);
    let output = command.arg(into).args(more).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

#[track_caller]
fn analyzed(file: &Path) -> String {
    let output = biopsy(["analyze", "--symbols", "/"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Idle, may not fork, has terabytes of reserved and of readable address space that it never touched, and 1 MiB of data.
const RESERVES: &str = r#"
#include "target.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
static char data[1 << 20];
int main(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    limit_own_life();
    memset(data, 0x5a, sizeof data);
    if (mmap(0, 16UL << 40, PROT_NONE, flags, -1, 0) == MAP_FAILED) return 2;
    if (mmap(0, 512UL << 30, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    printf("READY %d %p\n", getpid(), (void *)data), fflush(stdout);
    wait_for_stop();
    return 0;
}
"#;

#[test]
fn terabytes_of_reserved_addresses_are_not_walked_while_it_stands_still() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::spawn(Command::new(compile_c("reserves", RESERVES, &[])));
    let survival = Survival::before(target.pid());
    let address = target.ready_line().split_ascii_whitespace().nth(2).unwrap();
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
    // 25 is ENOTTY: a kernel before 6.7, which tells of each page, whether it is there or not.
    for fault in ["", "PAGEMAP_SCAN:25"] {
        let folder = temp_dir("reserves");
        let mut command = biopsy(["dump", &target.pid().to_string(), "--json", "--max-pause", "500ms", "-o"]);
        let output = command.arg(folder.path().join("x")).env("BIOPSY_FAULT", fault).output().unwrap();
        assert!(succeeded(&output), "{fault}: {}", said(&output));
        survival.assert_unharmed();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let dump = &result["dumps"][0];
        assert_eq!(dump["method"], "stop-and-copy", "{fault}: {dump:#}");
        // Walked to the end it takes minutes.
        let pause = dump["pause_ms"].as_f64().unwrap();
        assert!(pause < 10_000.0, "{fault}: it stood still for {pause} ms");
        // Its data is small, and comes first.
        let core = folder.path().join("x").join(dump["core"].as_str().unwrap());
        let opened = open(&core, &Limits::default()).unwrap();
        let mut data = vec![0; 1 << 20];
        opened.image.read_exact(address, &mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 0x5a), "{fault}");
    }
}

#[test]
fn without_rights_it_says_so_and_leaves_nothing() {
    if !require_all(LIVE) || !require_all(&[Privilege::OtherUser]) {
        return;
    }
    let folder = temp_dir("not-yours");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let copy = copy_under_odd_name(env!("CARGO_BIN_EXE_biopsy").as_ref(), folder.path(), b"biopsy");
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let before = entries(folder.path());
    for output in ["x.core.zst", "recording"] {
        let mut command = Command::new(&copy);
        command.args(["dump", &target.pid().to_string(), "--output", output]).current_dir(folder.path());
        let mut command = as_user(65534, &command);
        let text = complaint(&mut command);
        assert!(text.contains(&target.pid().to_string()) && text.contains("hint: "), "{text}");
        assert_eq!(entries(folder.path()), before, "{output}: {text}");
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn another_users_process_is_dumped_for_root() {
    if !require_all(LIVE) || !require_all(&[Privilege::OtherUser]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("yours");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = copy_under_odd_name(&Program::LockConvoy.path(), folder.path(), b"theirs");
    let mut target = TargetProcess::spawn(as_user(65534, &Command::new(program)));
    let survival = Survival::before(target.pid());
    let file = folder.path().join("theirs.core.zst");
    dumped(target.pid(), &file, &[]);
    survival.assert_unharmed();
    let text = analyzed(&file);
    assert!(text.contains("append_under_lock") && text.contains("theirs"), "{text}");
    // What it had in memory is not for everybody to read.
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
    target.stop();
}

#[test]
fn ones_own_process_is_copied_and_named_without_privileges() {
    if !require_all(LIVE) || !require_all(&[Privilege::OtherUser]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("mine");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = copy_under_odd_name(&Program::LockConvoy.path(), folder.path(), b"mine");
    let copy = copy_under_odd_name(env!("CARGO_BIN_EXE_biopsy").as_ref(), folder.path(), b"biopsy");
    let mut target = TargetProcess::spawn(as_user(65534, &Command::new(program)));
    let survival = Survival::before(target.pid());
    let mut command = Command::new(&copy);
    command.args(["dump", &target.pid().to_string(), "--json", "--max-pause", "500ms", "-o", "x"]);
    let output = as_user(65534, command.current_dir(folder.path())).output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    survival.assert_unharmed();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The links of the kernel to mapped files are for root: the files are found by their names.
    assert_eq!(result["dumps"][0]["method"], "copy-on-write", "{result:#}");
    let mut command = Command::new(&copy);
    command.args(["stacks", &target.pid().to_string(), "--max-pause", "500ms"]);
    let output = as_user(65534, &command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("append_under_lock") && text.contains("libc_start"), "{text}");
    survival.assert_unharmed();
    target.stop();
}

/// A root of its own, with nothing in it but the program and its libraries, as an image of a container has.
fn container_of(program: &Path, root: &Path) -> Command {
    let listed = Command::new("ldd").arg(program).output().expect("glibc has it");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for library in listed.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().expect("it is in a folder")).unwrap();
        std::fs::copy(library, to).unwrap();
    }
    std::fs::copy(program, root.join("app")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--net", "--ipc", "--uts", "--user"]);
    command.args(["--map-root-user", "chroot"]).arg(root).arg("/app");
    command
}

/// All namespaces are others, the user's too; the path of the program leads nowhere outside. Thread ids in memory, which say
/// who holds a lock, are not those outside.
#[test]
fn a_process_in_a_container_is_dumped_and_understood_from_outside() {
    if !require_all(LIVE) || !require_all(&[Privilege::Root, Privilege::Namespaces]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("container");
    let root = folder.path().join("root");
    let mut command = container_of(&Program::Deadlock.path(), &root);
    command.arg("abba");
    let target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid());
    let recording = folder.path().join("recording");
    dumped(target.pid(), &recording, &[]);
    let file = folder.path().join("alone.core.zst");
    dumped(target.pid(), &file, &["--kind", "full"]);
    survival.assert_unharmed();
    // From the container's own files while it is there; the core alone is asked for what needs none of them.
    let report = std::fs::read_to_string(recording.join("report.json")).unwrap();
    for word in ["take_journal", "take_accounts", "Deadlock: "] {
        assert!(report.contains(word), "`{word}`: {report}");
    }
    for text in [report, analyzed(&file)] {
        assert!(text.contains("Deadlock: "), "{text}");
        assert!(!text.contains("not there any more"), "its owner is there, by another number: {text}");
    }
}

/// The kernel's usual most (`vm.max_map_count`), none of which can be joined with the next.
const MANY_MAPPINGS: &str = r#"
#include "target.h"
#include <sys/mman.h>
int main(void) {
    limit_own_life();
    char *base = mmap(NULL, 65000UL * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long made = 0;
    for (long at = 0; at < 65000; at += 2, made += 2) {
        if (mprotect(base + at * 4096, 4096, PROT_READ | PROT_WRITE) != 0) break;
        *(long *)(base + at * 4096) = at;
    }
    printf("READY %d %lx %ld\n", (int)getpid(), (long)base, made);
    fflush(stdout);
    wait_for_stop();
    return 0;
}
"#;

#[test]
fn sixty_five_thousand_mappings() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("mappings");
    let mut target = TargetProcess::spawn(Command::new(compile_c("many-mappings", MANY_MAPPINGS, &["-O1"])));
    let words: Vec<&str> = target.ready_line().split(' ').collect();
    let (base, made) = (u64::from_str_radix(words[2], 16).unwrap(), words[3].parse::<u64>().unwrap());
    assert!(made > 10_000, "the system lets it have {made} only");
    let survival = Survival::before(target.pid());
    let file = folder.path().join("many.core.zst");
    let result = dumped(target.pid(), &file, &[]);
    survival.assert_unharmed();
    let opened = open(&file, &Limits::default()).unwrap();
    assert!(
        opened.image.mappings().len() as u64 >= made,
        "{} of {made}: {result}",
        opened.image.mappings().len()
    );
    for at in (0..made).step_by(998) {
        assert_eq!(opened.image.read_u64(base + at * 4096).unwrap(), at);
    }
    target.stop();
}

/// Every page is written over and over, each round in the order of addresses: at one moment the pages of a round have its number,
/// and all behind them that of the round before. A dump of another moment for each page shows many numbers.
#[test]
fn memory_that_is_written_all_the_time_is_of_one_moment() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("written");
    const BYTES: u64 = 64 << 20;
    let mut target = TargetProcess::start(Program::WriteHeavy, &["64"]);
    let survival = Survival::before(target.pid());
    let file = folder.path().join("written.core.zst");
    dumped(target.pid(), &file, &[]);
    survival.assert_unharmed();
    assert!(target.ask("", "ROUNDS", PATIENCE).is_some(), "it writes on");
    let opened = open(&file, &Limits::default()).unwrap();
    let mapping = opened.image.mappings().iter().find(|mapping| mapping.size() >= BYTES).unwrap();
    // The kernel may have joined it with the memory before or behind it.
    let runs = [mapping.start, mapping.end - BYTES].map(|heap| {
        let mut values: Vec<u8> = Vec::new();
        for page in 0..BYTES / 4096 {
            let mut byte = [0];
            assert_eq!(opened.image.read(heap + page * 4096, &mut byte).unwrap(), 1);
            if values.last() != Some(&byte[0]) {
                values.push(byte[0]);
            }
        }
        values
    });
    let is_one_moment = |values: &Vec<u8>| match values[..] {
        [_] => true,
        [before, behind] => before == behind.wrapping_add(1),
        _ => false,
    };
    assert!(
        runs.iter().any(is_one_moment),
        "{:?}",
        runs.map(|values| values[..values.len().min(20)].to_vec())
    );
    target.stop();
}

/// biopsy with so many megabytes of address space.
fn limited(megabytes: u64) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--as={}", megabytes << 20)).arg(env!("CARGO_BIN_EXE_biopsy"));
    command
}

/// The least with which it starts at all: below, the kernel and the loader cannot map it.
fn least_to_start() -> u64 {
    let starts = |megabytes: &u64| {
        let output = limited(*megabytes).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    (16..1024).step_by(4).find(starts).expect("it starts with a gigabyte")
}

/// With too little address space biopsy fails somewhere: before it stops anything, while the target stands still, while it writes.
/// From the first limit on that is enough to start at all.
#[test]
fn no_memory_for_biopsy_itself() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::WriteHeavy, &["4"]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let (mut failed, mut whole) = (0, 0);
    let least = least_to_start();
    for more in [0, 6, 16, 512] {
        let megabytes = least + more;
        for output in ["x.core.zst", "recording"] {
            let folder = temp_dir("no-memory");
            let mut command = limited(megabytes);
            command.args(["dump", &pid, "--quiet", "--scrub", "--max-pause", "5s", "--output", output]);
            let done = command.current_dir(folder.path()).output().unwrap();
            let text = said(&done);
            survival.assert_unharmed();
            assert!(!text.contains("panicked") && done.status.signal().is_none(), "{megabytes} MiB: {text}");
            let core = folder.path().join("x.core.zst");
            if done.status.success() {
                whole += 1;
                continue;
            }
            failed += 1;
            assert!(text.contains("error: ") || done.status.code() == Some(3), "{megabytes} MiB: {text}");
            assert!(!core.exists(), "{megabytes} MiB: called whole: {text}");
            // A recording that was not concluded has no manifest, and is called partial.
            assert!(
                !folder.path().join("recording/manifest.json").exists() || done.status.code() == Some(3),
                "{text}"
            );
        }
    }
    assert!(failed > 0 && whole > 0, "{failed} failed, {whole} whole");
    assert!(target.ask("", "ROUNDS", PATIENCE).is_some(), "it goes on");
    target.stop();
}

/// A program that crashes with cores of the kernel allowed, in a folder of its own; with the crash trigger if wanted. How it
/// ended, and what the folder has then.
fn crash(follows: bool) -> (ExitStatus, usize) {
    let (folder, recording) = (temp_dir("crash"), temp_dir("dump"));
    let mut command = Command::new("prlimit");
    command.arg("--core=unlimited").arg(Program::Crashes.path()).arg("null").current_dir(folder.path());
    let mut target = TargetProcess::spawn(command);
    let waiting = follows.then(|| {
        let mut command =
            biopsy(["dump", &target.pid().to_string(), "--on", "crash", "--for", "60s", "--output"]);
        command.arg(recording.path().join("r")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut heard = String::new();
        while !heard.contains("waiting for") {
            let read = std::io::BufRead::read_line(&mut said, &mut heard).unwrap();
            assert!(read > 0, "it ended before it waited: {heard}");
        }
        // Read to its end, so that it never waits for us.
        let reader = std::thread::spawn(move || std::io::Read::read_to_string(&mut said, &mut String::new()));
        (child, reader)
    });
    target.say("now");
    let status = target.wait_for_exit(PATIENCE).expect("it crashes");
    if let Some((mut child, reader)) = waiting {
        assert!(child.wait().unwrap().success());
        let _ = reader.join();
        assert!(recording.path().join("r/report.json").is_file());
    }
    (status, entries(folder.path()).len())
}

/// Whatever the system does with cores of the kernel, it does it with us as without us.
#[test]
fn the_kernels_own_core_is_written_as_without_us() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let pattern = || std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let before = pattern();
    let without = crash(false);
    let with = crash(true);
    assert_eq!(with.0.signal(), Some(11));
    assert_eq!((with.0.into_raw(), with.1), (without.0.into_raw(), without.1));
    assert_eq!(pattern(), before);
}
