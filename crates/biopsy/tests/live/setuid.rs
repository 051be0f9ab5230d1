//! A program with more rights than who started it, in a tree that is looked at.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use biopsy_testkit::{
    Privilege, Survival, TargetProcess, TempDir, as_user, compile_c, machine_to_myself, require_all,
    require_that, temp_dir,
};

use crate::support::{analyze, complaint, said, succeeded};

const NEEDED: &[Privilege] = &[Privilege::Root, Privilege::Cc, Privilege::Ptrace, Privilege::OtherUser];
/// Who has fewer rights.
const USER: u32 = 65534;
const LONG: Duration = Duration::from_secs(60);

/// An unprivileged process with a child that has root's rights by its file, and a biopsy that everybody can run.
struct Family {
    folder: TempDir,
    target: TargetProcess,
    child: u32,
    survival: Survival,
}

impl Family {
    /// `None`: this machine has no place for such files.
    fn start() -> Option<Self> {
        let folder = temp_dir("setuid");
        let mode =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        mode(folder.path(), 0o777);
        let program = compile_c("setuid", include_str!("setuid.c"), &["-O1"]);
        let (plain, helper) = (folder.path().join("plain"), folder.path().join("helper"));
        for path in [&plain, &helper] {
            std::fs::copy(&program, path).unwrap();
        }
        std::fs::copy(env!("CARGO_BIN_EXE_biopsy"), folder.path().join("biopsy")).unwrap();
        mode(&helper, 0o4755);
        let mut command = Command::new(plain);
        command.arg(helper);
        let target = TargetProcess::spawn(as_user(USER, &command));
        let line = target.line_starting_with("CHILD", LONG).expect("it says so");
        let words: Vec<u32> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        let &[child, rights] = words.as_slice() else { panic!("{line}") };
        let nosuid = "temporary files are on a file system whose files give no rights (`nosuid`)";
        let survival = Survival::before_when_settled(target.pid());
        require_that(rights == 0, nosuid).then_some(Self { folder, target, child, survival })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// biopsy with these arguments, by somebody who may do everything or by whoever has started the process.
    fn biopsy(&self, root: bool, verb: &str, more: &[&str]) -> Command {
        let mut command = Command::new(self.at("biopsy"));
        command.args([verb, &self.target.pid().to_string()]).args(more);
        command.env("NO_COLOR", "1").env("HOME", self.folder.path()).current_dir(self.folder.path());
        if root { command } else { as_user(USER, &command) }
    }

    #[track_caller]
    fn end(mut self) {
        self.survival.assert_unharmed();
        let rights = std::fs::read_to_string(format!("/proc/{}/status", self.child)).unwrap();
        assert!(rights.contains(&format!("Uid:\t{USER}\t0\t0\t0")), "{rights}");
        assert!(rights.contains("TracerPid:\t0\n"), "{rights}");
        self.target.stop();
    }
}

#[test]
fn root_dumps_a_tree_with_a_setuid_program_in_it() {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    let Some(family) = Family::start() else { return };
    let output = family.biopsy(true, "dump", &["--tree", "--output", "tree"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for pid in [family.target.pid(), family.child] {
        let core = family.at(&format!("tree/dumps/{pid}.core.zst"));
        assert!(core.exists(), "{}", said(&output));
        // What it had in memory is for root alone.
        assert_eq!(std::fs::metadata(core).unwrap().permissions().mode() & 0o077, 0);
    }
    family.end();
}

#[test]
fn who_started_a_setuid_program_gets_no_dump_of_it_and_hears_why() {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    let Some(family) = Family::start() else { return };
    let text = complaint(&mut family.biopsy(false, "dump", &["--tree", "--output", "tree"]));
    assert!(text.contains(&format!("process {} is not dumped: it is protected", family.child)), "{text}");
    assert!(text.contains("hint: ") && !family.at("tree").exists(), "{text}");
    let output = family.biopsy(false, "dump", &["--output", "alone"]).output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    family.end();
}

/// That one process of a tree may not be traced was a reason to trace none.
#[test]
fn a_setuid_program_is_left_out_of_a_recording_by_who_started_it() {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    let Some(family) = Family::start() else { return };
    let capture = ["--for", "500ms", "--output", "recording.zip"];
    let output = family.biopsy(false, "capture", &capture).output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    let report = analyze(&family.at("recording.zip"));
    let warnings = report["warnings"].to_string();
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().is_ok_and(|level: i32| level <= 2) {
        assert_eq!(report["completeness"]["method"], "perf-user-only", "{warnings}");
        assert!(warnings.contains(&format!("process {} is not in the trace", family.child)), "{warnings}");
    }
    assert!(warnings.contains(&format!("of process {}", family.child)), "{warnings}");
    family.end();
}

/// The kernel takes the rights of a setuid program from a process whose tracer could not give them. Nobody can know before that it
/// will execute one, so biopsy says at once what it takes away.
#[test]
fn a_process_that_is_followed_becomes_a_setuid_program_with_its_rights_or_it_was_said() {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    for root in [true, false] {
        let Some(mut family) = Family::start() else { return };
        let mut waiting =
            family.biopsy(root, "dump", &["--on", "crash", "--for", "120s", "--output", "crash"]);
        let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut heard = BufReader::new(waiting.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("waiting for") {
            assert!(heard.read_line(&mut text).unwrap() > 0, "it ended before it waited: {text}");
        }
        let becomes = family.target.ask("become one", "SELF", LONG).expect("it has executed the program");
        assert_eq!(becomes, if root { "SELF 0".to_owned() } else { format!("SELF {USER}") });
        family.target.stop();
        heard.read_to_string(&mut text).unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(3), "{text}");
        assert_eq!(text.contains("executes setuid programs without their rights"), !root, "{text}");
    }
}
