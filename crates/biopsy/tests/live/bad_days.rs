//! Wrong targets, missing rights, full disks: a clear error or a recorded warning, never harm.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, as_user, copy_under_odd_name, machine_to_myself, require,
    require_all, temp_dir,
};

use crate::support::{analyze, biopsy, capture_unharmed, complaint, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

#[test]
fn no_such_process() {
    let text = complaint(&mut biopsy(["capture", "no-such-process-anywhere", "--for", "1s"]));
    assert!(text.contains("no process") && text.contains("no-such-process-anywhere"), "{text}");
    // Larger than the largest pid the kernel gives.
    let text = complaint(&mut biopsy(["capture", "99999999", "--for", "1s"]));
    assert!(text.contains("99999999"), "{text}");
}

#[test]
fn several_matches_are_listed() {
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("several");
    let program = copy_under_odd_name(&Program::Idle.path(), folder.path(), b"twin-program");
    let mut twins = [0, 1].map(|_| TargetProcess::spawn(Command::new(&program)));
    let text = complaint(&mut biopsy(["capture", "twin-program", "--for", "1s"]));
    for twin in &mut twins {
        assert!(text.contains(&twin.pid().to_string()), "{text}");
        twin.stop();
    }
}

#[test]
fn a_kernel_thread_is_refused() {
    // kthreadd is process 2 wherever kernel threads can be seen.
    if std::fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
        return;
    }
    let text = complaint(&mut biopsy(["capture", "2", "--for", "1s"]));
    assert!(text.contains("kernel thread"), "{text}");
}

#[test]
fn a_zombie_is_refused() {
    let mut child = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let text = complaint(&mut biopsy(["capture", &child.id().to_string(), "--for", "1s"]));
    child.wait().unwrap();
    assert!(text.contains("zombie") || text.contains("ended"), "{text}");
}

#[test]
fn biopsy_does_not_record_itself() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" capture $$ --for 1s"]).arg(env!("CARGO_BIN_EXE_biopsy"));
    let text = complaint(&mut shell);
    assert!(text.contains("itself"), "{text}");
}

#[test]
fn another_users_process_is_refused_with_a_hint() {
    if !require_all(&[Privilege::Cc, Privilege::OtherUser]) {
        return;
    }
    let folder = temp_dir("not-yours");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let copy = copy_under_odd_name(env!("CARGO_BIN_EXE_biopsy").as_ref(), folder.path(), b"biopsy");
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let mut command = Command::new(copy);
    command
        .args(["trace", &target.pid().to_string(), "--for", "1s", "--output"])
        .arg(folder.path().join("x.zip"));
    let text = complaint(&mut as_user(65534, &command));
    assert!(text.contains(&target.pid().to_string()), "{text}");
    assert!(text.contains("hint: "), "{text}");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn ones_own_process_is_recorded_as_far_as_the_system_allows() {
    if !require_all(&[Privilege::Cc, Privilege::OtherUser]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("unprivileged");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let biopsy = copy_under_odd_name(env!("CARGO_BIN_EXE_biopsy").as_ref(), folder.path(), b"biopsy");
    let program = copy_under_odd_name(&Program::HotFunction.path(), folder.path(), b"own-program");
    let mut target = TargetProcess::spawn(as_user(65534, &Command::new(program)));
    let survival = Survival::before(target.pid());
    let file = folder.path().join("recording.zip");
    let mut command = Command::new(biopsy);
    command.args(["capture", &target.pid().to_string(), "--for", "2s", "--output"]).arg(&file);
    let output = as_user(65534, &command).output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    survival.assert_unharmed();
    target.stop();
    let report = analyze(&file);
    // Metrics need no rights. Stacks depend on `kernel.perf_event_paranoid`: with 2 or less they must be there.
    assert_eq!(report["completeness"]["has_metrics"], true, "{:#}", report["completeness"]);
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().is_ok_and(|level: i32| level <= 2) {
        assert!(report.to_string().contains("compute_checksum_bit_by_bit"), "{:#}", report["completeness"]);
    }
}

#[test]
fn without_tracefs_there_are_still_samples_and_a_warning() {
    if !require_all(LIVE) || !require_all(&[Privilege::Namespaces]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("no-tracefs");
    let file = folder.path().join("recording.zip");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    // An empty folder over it, in a mount namespace that only this run sees.
    let script =
        "mount -t tmpfs tmpfs /sys/kernel/tracing; umount -l /sys/kernel/debug 2>/dev/null; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_biopsy"), "capture"]);
    command.args([&target.pid().to_string(), "--for", "2s", "--output"]).arg(&file);
    let output = command.output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    survival.assert_unharmed();
    target.stop();
    let report = analyze(&file);
    assert!(report.to_string().contains("compute_checksum_bit_by_bit"), "{:#}", report["completeness"]);
}

#[test]
fn an_existing_output_is_not_touched() {
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("exists");
    let file = folder.path().join("precious.zip");
    std::fs::write(&file, "precious").unwrap();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let text =
        complaint(biopsy(["capture", &target.pid().to_string(), "--for", "1s", "--output"]).arg(&file));
    assert!(text.contains("precious.zip") && text.contains("exists"), "{text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    target.stop();
}

#[test]
fn a_folder_that_does_not_exist_is_said_before_recording() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let began = std::time::Instant::now();
    let text = complaint(&mut biopsy([
        "capture",
        &target.pid().to_string(),
        "--for",
        "10m",
        "--output",
        "/nonexistent-folder/recording.zip",
    ]));
    assert!(text.contains("/nonexistent-folder"), "{text}");
    assert!(began.elapsed().as_secs() < 300, "it was said after the recording");
    target.stop();
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_target() {
    if !require_all(LIVE) || !require_all(&[Privilege::Namespaces]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("full");
    let mut target = TargetProcess::start(Program::SwitchStorm, &[]);
    let survival = Survival::before(target.pid());
    let script = "mount -t tmpfs -o size=256k tmpfs \"$1\" && cd \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    command.args([env!("CARGO_BIN_EXE_biopsy"), "capture", &target.pid().to_string()]);
    command.args(["--for", "20s", "--output", "recording.zip"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    assert!(
        text.contains("space") || text.contains("disk"),
        "nothing is said about the disk: {}",
        said(&output)
    );
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn log_files_of_every_kind_do_no_harm() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("logs");
    let at = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(at("fifo.log")).status().unwrap().success());
    std::os::unix::fs::symlink("/etc/shadow", at("link.log")).unwrap();
    std::fs::create_dir(at("folder.log")).unwrap();
    std::fs::write(at("one-line.log"), vec![b'x'; 100_000_000]).unwrap();
    std::fs::write(at("binary.log"), (0..=255_u8).cycle().take(100_000).collect::<Vec<_>>()).unwrap();
    std::fs::write(at("plain.log"), "no time in this line\npassword=hunter2-secret\n").unwrap();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let logs = format!("{}/*.log", folder.path().display());
    let captured = capture_unharmed(&target, "1s", &["--logs", &logs]);
    target.stop();
    let size = std::fs::metadata(&captured.file).unwrap().len();
    assert!(size < 50_000_000, "{size} bytes");
    let unzipped = Command::new("unzip").arg("-p").arg(&captured.file).output().unwrap();
    let text = String::from_utf8_lossy(&unzipped.stdout).into_owned();
    assert!(!text.contains("hunter2-secret"), "a secret of a log is in the recording");
    assert!(!text.contains("root:*:") && !text.contains("root:$"), "a link was followed to /etc/shadow");
}

#[test]
fn a_32_bit_program_is_refused() {
    if !require(Privilege::Cc) {
        return;
    }
    // Compiled without any library, since a 32-bit one is rarely installed: waits for the end of stdin, and exits.
    let source = r#"
        static int call(int number, int a, const void *b, int c) {
            int result;
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
            return result;
        }
        void _start(void) {
            char byte;
            call(4, 1, "READY\n", 6);
            while (call(3, 0, &byte, 1) == 1) {}
            call(1, 0, 0, 0);
        }
    "#;
    let folder = temp_dir("32-bit");
    let (file, program) = (folder.path().join("small.c"), folder.path().join("small"));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-m32", "-nostdlib", "-static", "-fno-stack-protector", "-fno-pie", "-no-pie", "-o"]);
    assert!(compiler.arg(&program).arg(&file).status().unwrap().success());
    // A kernel may be built without 32-bit programs; then there is nothing to refuse.
    if Command::new(&program).stdin(Stdio::null()).stdout(Stdio::null()).status().is_err() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(program));
    let text = complaint(&mut biopsy(["capture", &target.pid().to_string(), "--for", "1s"]));
    assert!(text.contains("32-bit"), "{text}");
    target.stop();
}

#[test]
fn every_way_of_tracing_finds_the_function() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    for method in ["bpf", "perf-per-cpu", "perf-per-task", "perf-user-only"] {
        let captured = capture_unharmed(&target, "2s", &["--method", method]);
        assert_eq!(captured.report["completeness"]["method"], method);
        captured.assert_burns_cpu_in("compute_checksum_bit_by_bit", &["compute_checksum_bit_by_bit"]);
    }
    target.stop();
}

#[test]
fn root_without_capabilities_is_told_what_is_missing_and_gets_the_rest() {
    if !require_all(LIVE) || !require(Privilege::OtherUser) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("no-capabilities");
    let file = folder.path().join("recording.zip");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    // As in a container that was started with `--cap-drop ALL`.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--", env!("CARGO_BIN_EXE_biopsy"), "capture"]);
    let output =
        command.args([&target.pid().to_string(), "--for", "1s", "--output"]).arg(&file).output().unwrap();
    survival.assert_unharmed();
    target.stop();
    if succeeded(&output) {
        assert_eq!(analyze(&file)["completeness"]["has_metrics"], true);
    } else {
        let text = said(&output);
        assert!(text.contains("error: ") && text.contains("hint: "), "{text}");
    }
}

#[test]
fn a_program_that_cannot_be_started() {
    let folder = temp_dir("no-program");
    let mut command = biopsy(["trace", "--output"]);
    command.arg(folder.path().join("trace.zip")).args(["--", "/nonexistent/program"]);
    let text = complaint(&mut command);
    assert!(text.contains("/nonexistent/program"), "{text}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "something was left behind");
}
