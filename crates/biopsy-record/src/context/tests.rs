//! The context of made-up and of real processes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use biopsy_model::Pid;
use biopsy_recording::RecordingFolder;
use biopsy_redact::{Options, RedactionLog, Redactor};
use biopsy_target::ProcRoot;

use super::{Config, Moment, Summary, collect};
use crate::masking::Masking;

fn masking() -> Masking {
    let redactor = Redactor::new(Options::default()).expect("random bytes");
    Masking::new(Arc::new(redactor), Arc::new(RedactionLog::new()))
}

struct Taken {
    folder: tempfile::TempDir,
    summary: Summary,
}

impl Taken {
    fn new(config: &Config, moments: &[Moment], pids: &[u32]) -> Taken {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let recording = RecordingFolder::create(folder.path().join("r")).expect("a new folder");
        let pids: Vec<Pid> = pids.iter().copied().map(Pid).collect();
        let masking = masking();
        let mut summary = Summary::default();
        for moment in moments {
            let taken = collect(config, *moment, &pids, &recording, &masking).expect("there is room");
            summary.members.extend(taken.members);
            summary.warnings.extend(taken.warnings);
        }
        Taken { folder, summary }
    }

    #[track_caller]
    fn text(&self, member: &str) -> String {
        let path = self.folder.path().join("r").join(member);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{member}: {error}; {:?}", self.summary))
    }

    /// Everything that was written.
    fn all(&self) -> String {
        self.summary.members.iter().map(|member| self.text(member)).collect()
    }
}

/// A program that waits, with a secret in its environment and in its arguments.
struct Waiting(Child);

impl Waiting {
    fn start() -> Waiting {
        let child = Command::new("sleep")
            .args(["1000"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("DB_PASSWORD", "hunter2-very-secret")
            .env("SOME_SETTING", "a private value")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep is there");
        Waiting(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It waits for a thousand seconds: only we end it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_process_at_start_and_end() {
    let waiting = Waiting::start();
    let pid = waiting.0.id();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let _stream = TcpStream::connect(address).expect("listening");
    let own = std::process::id();
    let taken = Taken::new(&Config::default(), &[Moment::Start, Moment::End], &[pid, own]);

    let environment = taken.text(&format!("target/{pid}/environment.txt"));
    assert!(environment.contains("PATH=/usr/bin:/bin\n"), "{environment}");
    assert!(environment.contains("DB_PASSWORD=[redacted:"), "{environment}");
    assert!(environment.contains("SOME_SETTING=[redacted:"), "{environment}");
    assert!(!taken.all().contains("hunter2") && !taken.all().contains("a private value"));
    assert!(taken.text(&format!("target/{pid}/command-line.txt")).starts_with("[0] sleep\n[1] 1000\nexe: "));
    assert!(taken.text(&format!("target/{pid}/limits.txt")).contains("Max open files"));
    assert!(taken.text(&format!("target/{pid}/maps.txt")).contains("r-xp"));
    assert!(taken.text(&format!("target/{pid}/maps-summary.txt")).contains("sleep"));
    assert!(taken.text(&format!("target/{pid}/descriptors.txt")).contains("/dev/null"));
    assert!(taken.text(&format!("target/{pid}/facts.txt")).contains("namespace pid: pid:["));
    assert!(taken.text(&format!("target/{pid}/threads-end.txt")).contains("S  sleep"));
    assert!(taken.text(&format!("target/{pid}/status-end.txt")).contains("Threads:\t1\n"));
    let sockets = taken.text(&format!("target/{own}/sockets.txt"));
    assert!(sockets.contains(&format!("tcp   {address} -> 0.0.0.0:0 listening")), "{sockets}");
    assert!(sockets.contains(&format!("tcp {address} established")), "{sockets}");
    assert!(taken.text("target/host.txt").contains("/proc/version: Linux"));
    assert_eq!(taken.summary.warnings, []);
}

/// A folder like the root folder, with one process.
fn fake() -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = Config { root: ProcRoot::at(folder.path()), ..Config::default() };
    fs::create_dir_all(folder.path().join("proc/7/fd")).expect("folders");
    (folder, config)
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join("proc/7").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    fs::write(&path, bytes).expect("write");
    path
}

#[test]
fn hostile_texts_stay_in_their_lines() {
    let (folder, config) = fake();
    write(
        &folder,
        "environ",
        b"GOOD=1\0no variable\0EVIL\nLINE=x\0TERM=a\x1b[2Jb\nDB_PASSWORD=x\0=\0\0\xff\xfe=x\0",
    );
    write(&folder, "cmdline", b"prog\0--password\0hunter2-very-secret\0a\nb\0");
    write(&folder, "task/7/stat", b"7 (na\nme) S 1 1 1 0 -1 4 1 0 1 0 1 1 0 0 20 0 1 0 1 1 1\n");
    write(&folder, "task/8/stat", b"rubbish");
    write(&folder, "maps", b"rubbish\n\xff\xff\n");
    for (number, target) in [("3", "/a\nb"), ("4", "socket:[99]"), ("x", "/c")] {
        symlink(target, folder.path().join("proc/7/fd").join(number)).expect("link");
    }
    write(&folder, "net/tcp", "heading\n   0: 0100007F:0CEA 00000000:0000 0A 0:5 0:0 0 0 0 99 1\nrubbish\n");
    let taken = Taken::new(&config, &[Moment::Start], &[7]);
    let environment = taken.text("target/7/environment.txt");
    assert_eq!(environment.lines().filter(|line| line.contains('=')).count(), 2, "{environment}");
    assert!(
        environment.ends_with("[5 entries that are no variables, or too many, left out]\n"),
        "{environment}"
    );
    assert!(!environment.contains('\x1b'));
    let command = taken.text("target/7/command-line.txt");
    assert!(command.contains("[3] a\\nb\n") && !command.contains("hunter2"), "{command}");
    assert!(taken.text("target/7/threads.txt").contains("S  na\\nme"));
    assert!(taken.text("target/7/descriptors.txt").contains("/a\\nb"));
    let sockets = taken.text("target/7/sockets.txt");
    assert!(
        sockets.contains("127.0.0.1:3306 -> 0.0.0.0:0 listening to send 0 to read 5 descriptor 4"),
        "{sockets}"
    );
}

#[test]
fn a_large_text_is_cut() {
    let (folder, mut config) = fake();
    config.member_bytes = 100;
    write(&folder, "status", "x".repeat(5_000));
    let taken = Taken::new(&config, &[Moment::Start], &[7]);
    assert_eq!(
        taken.text("target/7/status.txt"),
        format!("{}\n[... the rest is left out]\n", "x".repeat(100))
    );
}

#[test]
fn processes_that_are_gone_or_too_many_are_told() {
    let (_folder, mut config) = fake();
    let taken = Taken::new(&config, &[Moment::Start], &[7, 8]);
    assert_eq!(taken.summary.warnings.len(), 1);
    assert!(taken.summary.warnings[0].message.starts_with("context of process 8 is not taken: "));
    let taken = Taken::new(&config, &[Moment::End], &[7, 8]);
    assert_eq!(taken.summary.warnings, [], "that a process ended is said by the trace");
    config.max_processes = 1;
    let taken = Taken::new(&config, &[Moment::Start], &[7, 8]);
    assert_eq!(taken.summary.warnings[0].message, "context of 1 processes of 2 is not taken");
}

#[test]
fn taken_again_replaces() {
    let (folder, config) = fake();
    write(&folder, "limits", "first\n");
    let recording = RecordingFolder::create(folder.path().join("r")).expect("a new folder");
    let masking = masking();
    for text in ["first\n", "second\n"] {
        write(&folder, "limits", text);
        collect(&config, Moment::Start, &[Pid(7)], &recording, &masking).expect("there is room");
        let read = fs::read_to_string(folder.path().join("r/target/7/limits.txt")).expect("written");
        assert_eq!(read, text);
    }
}
