//! Real processes, our own children: found, told apart, looked into, and left as they were.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use biopsy_model::Pid;
use biopsy_model::process::RuntimeKind;
use biopsy_target::preflight::preflight_in;
use biopsy_target::{
    Facts, FindError, IdentityError, ProcRoot, Selector, Status, Wanted, check_same, find, is_same, list,
    threads, tree,
};
use biopsy_testkit::{
    Namespaces, ODD_NAMES, Privilege, Program, Survival, TargetProcess, copy_under_odd_name, in_namespaces,
    require, require_all, temp_dir,
};

/// One test at a time: a program that was just written cannot be executed while another test is between fork and exec
/// and has inherited the descriptor it was written through (ETXTBSY).
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn select(text: &str) -> Result<biopsy_target::Target, FindError> {
    find(&Selector::parse(text).expect("a selector"))
}

fn by_pid(pid: u32) -> biopsy_target::Target {
    select(&pid.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

/// A child that is killed and waited for in any case.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn odd_names() {
    let _one = alone();
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("odd-names");
    for name in ODD_NAMES {
        let program = copy_under_odd_name(&Program::Idle.path(), folder.path(), name);
        let mut process = TargetProcess::spawn(Command::new(&program));
        let survival = Survival::before(process.pid());
        let shown = String::from_utf8_lossy(name).into_owned();

        let target = by_pid(process.pid());
        assert_eq!(target.info.exe, String::from_utf8_lossy(program.as_os_str().as_encoded_bytes()));
        assert!(!target.info.exe_deleted, "{shown:?}");
        assert_eq!(target.info.runtime.kind, RuntimeKind::Native);
        assert!(is_same(&target.info.key));
        let found = select(&shown).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.info.key, target.info.key);
        assert!(list().unwrap().iter().any(|info| info.key == target.info.key));
        assert_eq!(threads(Pid(process.pid())).unwrap().len(), 1);

        let wanted = Wanted { trace: true, metrics: true, memory: true, ..Wanted::default() };
        let root = ProcRoot::live();
        let checks = preflight_in(&root, &Facts::read(&root), Pid(process.pid()), &wanted);
        assert!(
            checks.iter().any(|check| check.name == "metrics" && check.status == Status::Ok),
            "{checks:?}"
        );
        survival.assert_unharmed();
        process.stop();
        assert_eq!(check_same(&target.info.key), Err(IdentityError::Ended { pid: target.info.key.pid }));
    }
}

#[test]
fn a_deleted_executable_is_still_read() {
    let _one = alone();
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("deleted");
    let program = copy_under_odd_name(&Program::Idle.path(), folder.path(), b"soon-gone");
    let mut process = TargetProcess::spawn(Command::new(&program));
    std::fs::remove_file(&program).unwrap();
    let target = select("soon-gone").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(target.info.key.pid, Pid(process.pid()));
    assert!(target.info.exe_deleted);
    assert_eq!(target.info.exe, program.to_string_lossy());
    process.stop();
}

#[test]
fn zombies_threads_kernel_threads_and_ourselves_are_refused() {
    let _one = alone();
    let zombie = Killed(Command::new("true").spawn().unwrap());
    // It ends by itself at some moment.
    let error = loop {
        match select(&zombie.0.id().to_string()) {
            Err(error) => break error,
            Ok(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(matches!(error, FindError::Zombie { living_threads: 0, .. }), "{error:?}");

    let (sender, receiver) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        sender.send(link.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        let _ = wait.recv();
    });
    let tid = receiver.recv().unwrap();
    let myself = std::process::id();
    let error = select(&tid).unwrap_err();
    assert!(matches!(error, FindError::IsThread { pid, .. } if pid == Pid(myself)), "{error:?}");
    drop(done);
    thread.join().unwrap();

    assert!(matches!(select(&myself.to_string()), Err(FindError::Myself { .. })));
    // In a pid namespace of its own there are no kernel threads to be seen.
    if std::fs::read("/proc/2/comm").is_ok_and(|name| name == b"kthreadd\n") {
        assert!(matches!(select("2"), Err(FindError::KernelThread { .. })));
    }
    assert!(matches!(select("4194304"), Err(FindError::NoSuchPid { .. })));
}

/// `pause()` for ever, as a 32-bit program: `mov eax, 29; int 0x80; jmp -9`.
const CODE_32: &[u8] = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7";

fn program_32() -> Vec<u8> {
    let total = u32::try_from(52 + 32 + CODE_32.len()).unwrap();
    let base: u32 = 0x0804_8000;
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    // version, entry, program headers at 52, no sections, flags
    for word in [1, base + 84, 52, 0, 0] {
        elf.extend_from_slice(&u32::to_le_bytes(word));
    }
    for half in [52_u16, 32, 1, 40, 0, 0] {
        elf.extend_from_slice(&half.to_le_bytes());
    }
    // PT_LOAD of the whole file, readable and executable
    for word in [1, 0, base, base, total, total, 5, 0x1000] {
        elf.extend_from_slice(&u32::to_le_bytes(word));
    }
    elf.extend_from_slice(CODE_32);
    elf
}

#[test]
fn a_32_bit_program_is_refused() {
    let _one = alone();
    let folder = temp_dir("32-bit");
    let program = folder.path().join("old");
    std::fs::write(&program, program_32()).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let Ok(child) = Command::new(&program).spawn() else {
        // The kernel runs no 32-bit programs: there is nothing to refuse.
        return;
    };
    let child = Killed(child);
    let error = select(&child.0.id().to_string()).unwrap_err();
    assert!(matches!(error, FindError::Not64Bit { .. }), "{error:?}");
}

/// The shell gives background jobs an empty stdin; all three are to end with the same one.
const TWO_CHILDREN: &str = r#"exec 3<&0
"$0" -c 'read x; :' <&3 &
"$0" -c 'read x; :' <&3 &
echo READY; read x; wait"#;

#[test]
fn a_tree_is_found_by_its_root() {
    let _one = alone();
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("tree");
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let program = copy_under_odd_name(&shell, folder.path(), b"master-of-two");
    let mut command = Command::new(&program);
    command.arg("-c").arg(TWO_CHILDREN).arg(&program);
    let mut process = TargetProcess::spawn(command);
    // The children get their arguments at exec, a moment after they began.
    let target = loop {
        let target = select("master-of-two").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(target.info.key.pid, Pid(process.pid()));
        if target.others.len() == 2 {
            break target;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let tree = tree(target.info.key.pid).unwrap();
    assert_eq!(tree[0].key, target.info.key);
    assert_eq!(tree.len(), 3);
    assert!(tree[1..].iter().all(|info| info.parent == target.info.key.pid));
    process.stop();
}

#[test]
fn other_pid_and_mount_namespaces() {
    let _one = alone();
    if !require_all(&[Privilege::Cc, Privilege::Root, Privilege::Namespaces]) {
        return;
    }
    let process = TargetProcess::spawn(in_namespaces(Namespaces::PidAndMount, &Program::Idle.command()));
    let survival = Survival::before(process.pid());
    let target = by_pid(process.pid());
    assert_eq!(target.info.ns_pid, Some(1));
    assert_eq!(target.info.runtime.kind, RuntimeKind::Native);
    assert!(is_same(&target.info.key));
    survival.assert_unharmed();
}

fn wait_for_runtime(command: &mut Command, kind: RuntimeKind) -> Option<biopsy_model::process::ProcessInfo> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let mut child = Killed(child);
    // The command line comes with exec, and the library that tells is mapped a moment after it.
    for _ in 0..3000 {
        let target = by_pid(child.0.id());
        if target.info.runtime.kind == kind && target.info.runtime.entry.is_some() {
            return Some(target.info);
        }
        assert!(matches!(child.0.try_wait(), Ok(None)), "ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?} is not told", by_pid(child.0.id()).info)
}

#[test]
fn interpreters() {
    let _one = alone();
    let folder = temp_dir("interpreters");
    let script = folder.path().join("odd script.py");
    std::fs::write(&script, "import sys; sys.stdin.read()").unwrap();
    if let Some(info) = wait_for_runtime(Command::new("/usr/bin/python3").arg(&script), RuntimeKind::Python) {
        assert!(info.runtime.version.as_deref().is_some_and(|version| version.starts_with("3.")), "{info:?}");
        assert_eq!(info.runtime.entry.as_deref(), Some("odd script.py"));
    }
    let script = folder.path().join("wait.js");
    std::fs::write(&script, "process.stdin.resume()").unwrap();
    if let Some(info) = wait_for_runtime(Command::new("node").arg(&script), RuntimeKind::Node) {
        assert_eq!(info.runtime.entry.as_deref(), Some("wait.js"));
    }
    let script = folder.path().join("wait.pl");
    std::fs::write(&script, "<STDIN>").unwrap();
    if let Some(info) = wait_for_runtime(Command::new("perl").arg(&script), RuntimeKind::OtherInterpreter) {
        assert_eq!(info.runtime.entry.as_deref(), Some("wait.pl"));
    }
}

#[test]
fn dotnet() {
    let _one = alone();
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let targets = std::env::var_os("BIOPSY_DOTNET_TARGETS").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/targets").into(),
        std::path::PathBuf::from,
    );
    let mut command = Command::new(targets.join("run"));
    command.args(["net8.0", "server", "--port", "0"]);
    let process = TargetProcess::spawn(command);
    let survival = Survival::before(process.pid()).threads_may_change().files_may_change();
    let target = by_pid(process.pid());
    assert_eq!(target.info.runtime.kind, RuntimeKind::DotNet);
    assert!(
        target.info.runtime.version.as_deref().is_some_and(|version| version.starts_with("8.0.")),
        "{target:?}"
    );
    assert_eq!(target.info.runtime.entry.as_deref(), Some("server.dll"));
    // By its assembly, among any others of that name.
    match select("server.dll") {
        Ok(found) => assert_eq!(found.info.key, target.info.key),
        Err(FindError::Ambiguous { candidates, .. }) => {
            assert!(candidates.iter().any(|candidate| candidate.pid == target.info.key.pid));
        }
        Err(error) => panic!("{error}"),
    }
    survival.assert_unharmed();
}

#[test]
fn the_kernel_tells_of_a_program_that_starts() {
    if !biopsy_testkit::require_all(&[biopsy_testkit::Privilege::Root]) {
        return;
    }
    // Of the first namespaces alone: in a container nothing is told, and one looks again and again.
    let Ok(starts) = biopsy_target::Starts::listen() else { return };
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let mut told = Vec::new();
    while !told.contains(&biopsy_model::Pid(child.id())) {
        let started = starts.next(std::time::Duration::from_secs(30), None).unwrap();
        assert!(started != biopsy_target::Started::default(), "nothing was told");
        told.extend(started.pids);
    }
}
