//! The machine that is asked: what its policy allows, where a recording is until it is sealed, a dump that is sealed as it is written, and that
//! recording opens no socket to anywhere.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use biopsy_deliver::request::{Reader, Request};
use biopsy_deliver::state::State;
use biopsy_deliver::{Kind, Link, Recipe, Secret, Signed, Signer};
use biopsy_seal::{Identity, SealedFile};
use biopsy_sys::memory_folder::MemoryFolder;
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require, require_program, require_that};

/// A lab that says what it asks for, and takes nothing.
struct Asks {
    link: Link,
    calls: Arc<AtomicUsize>,
}

impl Asks {
    fn for_this(recipe: Recipe) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let signer = Signer::generate();
        let key = Identity::generate().recipient().to_string();
        let request = Request {
            id: biopsy_deliver::encode([7; 16]),
            lab: "Example".to_owned(),
            case: "4711".to_owned(),
            recipe,
            readers: vec![Reader { name: "Example".to_owned(), key }],
            expires: 4_000_000_000,
            max_bytes: 1 << 30,
            kept_days: 30,
        };
        let link = Link {
            lab: format!("http://{}", listener.local_addr().unwrap()),
            id: request.id.clone(),
            secret: Secret::generate(),
            signer: signer.key().fingerprint(),
            readers: request.readers_fingerprint(),
        };
        let text = Signed::new(&request, &signer).unwrap().to_text();
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&calls);
        // It ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                seen.fetch_add(1, Ordering::SeqCst);
                let mut stream = BufReader::new(stream.unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    head.push_str(&line);
                    line.clear();
                }
                let (status, body) = match head.starts_with("GET /api/requests/") {
                    true => ("200 OK", text.as_str()),
                    false => ("404 Not Found", ""),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { link, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn biopsy(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).current_dir(folder).output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file_recipe() -> Recipe {
    Recipe { kind: Kind::File, seconds: None, target: None }
}

#[test]
fn a_policy_caps_what_may_be_asked_and_is_part_of_what_is_agreed_to() {
    let folder = tempfile::tempdir().unwrap();
    let (asks, here) = (Asks::for_this(file_recipe()), folder.path());
    let link = asks.link.to_text();
    std::fs::write(here.join("app.log"), "nothing in it").unwrap();
    let with = |policy: &str| {
        std::fs::write(here.join("policy.json"), policy).unwrap();
        biopsy(here, &["send", "app.log", "--to", &link, "--yes", "--policy", "policy.json"])
    };
    // A lab that is not allowed is not spoken with.
    let refused = with(r#"{"labs":["https://lab.example"]}"#);
    assert_eq!((refused.status.code(), asks.calls()), (Some(5), 0), "{}", words(&refused));
    assert!(words(&refused).contains("is not one of those that are allowed"), "{}", words(&refused));
    // One that is not understood allows nothing.
    let odd = with(r#"{"mostSecond":5}"#);
    assert_eq!((odd.status.code(), asks.calls()), (Some(5), 0), "{}", words(&odd));
    let refused = with(r#"{"kinds":["slow","report"],"mostDaysKept":3}"#);
    assert_eq!((refused.status.code(), asks.calls()), (Some(5), 1), "{}", words(&refused));
    let said = words(&refused);
    assert!(said.contains("requests for `file` are not allowed") && said.contains("30 days"), "{said}");
    assert!(!here.join("app.log.age").exists(), "nothing was sealed");

    let sent = with(r#"{"kinds":["file"]}"#);
    assert_eq!(sent.status.code(), Some(10), "the lab takes nothing: {}", words(&sent));
    assert!(words(&sent).contains("allowed by    `policy.json` (sha256 "), "{}", words(&sent));
    let state = State::load(&here.join("app.log.age")).unwrap().unwrap();
    assert!(state.consent.iter().any(|line| line.contains("policy.json")), "{:?}", state.consent);
    // What was begun is stopped by a policy that came since.
    let before = asks.calls();
    let refused = with(r#"{"signers":[]}"#);
    assert_eq!((refused.status.code(), asks.calls()), (Some(5), before), "{}", words(&refused));
}

#[test]
fn a_policy_that_others_may_write_allows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (asks, policy) = (Asks::for_this(file_recipe()), folder.path().join("policy.json"));
    std::fs::write(folder.path().join("app.log"), "nothing in it").unwrap();
    std::fs::write(&policy, "{}").unwrap();
    std::fs::set_permissions(&policy, std::fs::Permissions::from_mode(0o666)).unwrap();
    let link = asks.link.to_text();
    let send = ["send", "app.log", "--to", &link, "--yes", "--policy", "policy.json"];
    let refused = biopsy(folder.path(), &send);
    assert_eq!((refused.status.code(), asks.calls()), (Some(5), 0), "{}", words(&refused));
    assert!(words(&refused).contains("may be written by others"), "{}", words(&refused));
    let none = biopsy(folder.path(), &["send", "app.log", "--to", &link, "--yes", "--policy", "none"]);
    assert_eq!((none.status.code(), asks.calls()), (Some(2), 0), "{}", words(&none));
}

#[test]
fn nothing_is_sealed_or_sent_that_nobody_agreed_to() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Asks::for_this(file_recipe());
    std::fs::write(folder.path().join("app.log"), "nothing in it").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy"));
    command.args(["send", "app.log", "--patience", "1", "--to", &asks.link.to_text()]);
    let refused = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    let said = words(&refused);
    assert!(
        said.contains("nobody is there to be asked"),
        "not refused, as nobody is there to be asked: {said}"
    );
    assert_eq!((refused.status.code(), asks.calls()), (Some(2), 1), "{said}");
    // What would have been agreed to was shown.
    for shown in [
        "who asks      Example",
        "for           case 4711",
        "you send      `app.log`",
        "readable by   Example",
    ] {
        assert!(said.contains(shown), "{shown}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was sealed");
}

#[test]
fn a_link_without_https_is_used_by_nobody_who_has_not_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Asks::for_this(file_recipe());
    std::fs::write(folder.path().join("app.log"), "nothing in it").unwrap();
    let link = Link { lab: "http://lab.invalid".to_owned(), ..asks.link.clone() }.to_text();
    let send = ["send", "app.log", "--yes", "--patience", "1", "--to", &link];
    let refused = biopsy(folder.path(), &send);
    let said = words(&refused);
    assert!(said.contains("speaks no https"), "not refused, though it speaks no https: {said}");
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(!said.contains(&*asks.link.secret.to_text()), "{said}");
    let all_the_same = biopsy(folder.path(), &[&send[..], &["--plain-http"]].concat());
    assert_eq!(all_the_same.status.code(), Some(10), "there is no such lab: {}", words(&all_the_same));
}

/// Runs `biopsy send --request`; gives all names that were in its folder at any moment, and what it said.
fn names_while_it_is_sent(more: &[&str]) -> (BTreeSet<String>, String, Option<i32>) {
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let recipe = Recipe { kind: Kind::Slow, seconds: Some(2), target: Some(target.pid().to_string()) };
    let asks = Asks::for_this(recipe);
    let folder = tempfile::tempdir().unwrap();
    let link = asks.link.to_text();
    let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy"));
    command.args(["send", "--yes", "--request", &link]).args(more).current_dir(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut said, &mut text).map(|_| text)
    });
    let mut names = BTreeSet::new();
    let status = loop {
        let now = std::fs::read_dir(folder.path()).unwrap().flatten();
        names.extend(now.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    survival.assert_unharmed();
    target.stop();
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|one| one.file_name()).collect();
    let is_sealed = |name: &std::ffi::OsString| name.to_string_lossy().contains(".zip.age");
    assert!(!left.is_empty() && left.iter().all(is_sealed), "what was in clear is left: {left:?}");
    (names, reader.join().unwrap().unwrap(), status.code())
}

#[test]
fn a_recording_for_a_request_is_on_no_disk_before_it_is_sealed() {
    let has_memory = MemoryFolder::new(1 << 20).is_ok();
    if !require(Privilege::Perf) || !require_that(has_memory, "needs CAP_SYS_ADMIN and fsmount(2)") {
        return;
    }
    let (names, said, code) = names_while_it_is_sent(&[]);
    assert_eq!(code, Some(10), "the lab takes nothing: {said}");
    assert!(said.contains("until sealed  in memory alone"), "{said}");
    assert!(!said.contains("/proc/self/fd"), "{said}");
    let is_sealed = |name: &String| name.contains(".zip.age");
    assert!(names.iter().any(is_sealed), "{names:?}");
    assert!(names.iter().all(is_sealed), "nothing in clear, at any moment: {names:?}");

    // It would be seen.
    let (names, said, _) = names_while_it_is_sent(&["--on-disk"]);
    assert!(said.contains("until sealed  in clear at"), "{said}");
    assert!(names.iter().any(|name| name.ends_with(".recording")), "{names:?}");
    assert!(names.iter().any(is_sealed), "{names:?}");
}

#[test]
fn a_dump_is_sealed_as_it_is_written() {
    if !require(Privilege::Ptrace) {
        return;
    }
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let (folder, key) = (tempfile::tempdir().unwrap(), Identity::generate());
    let (pid, to) = (target.pid().to_string(), key.recipient().to_string());
    let dump = |more: &[&str]| biopsy(folder.path(), &[&["dump", &pid, "--quiet"], more].concat());
    for refused in [&["-o", "a.core", "--to-key", &to][..], &["-o", "a.core.age"], &["--to-key", &to]] {
        let refused = dump(refused);
        assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let made = dump(&["--raw", "-o", "a.core.age", "--to-key", &to]);
    assert!(made.status.success(), "{}", words(&made));
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|one| one.file_name()).collect();
    assert_eq!(names, ["a.core.age"]);
    let sealed = folder.path().join("a.core.age");
    assert_eq!(std::fs::metadata(&sealed).unwrap().permissions().mode() & 0o777, 0o600);
    let mut start = [0; 4];
    std::io::Read::read_exact(&mut SealedFile::open(&sealed, &key).unwrap(), &mut start).unwrap();
    assert_eq!(&start, b"\x7fELF");
    std::fs::write(folder.path().join("key"), key.secret_text().as_bytes()).unwrap();
    let read = biopsy(folder.path(), &["analyze", "a.core.age", "--identity", "key"]);
    assert!(read.status.success(), "{}", words(&read));
    let again = dump(&["--raw", "-o", "a.core.age", "--to-key", &to]);
    assert_eq!(again.status.code(), Some(7), "nothing is overwritten: {}", words(&again));
    survival.assert_unharmed();
    target.stop();
}

/// Families of the sockets that a command opens, by strace.
fn families(folder: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let log = folder.join("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=socket,socketpair,io_uring_setup", "-o"]).arg(&log);
    command.arg(env!("CARGO_BIN_EXE_biopsy")).args(arguments).current_dir(folder);
    let done = command.output().unwrap();
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(!calls.contains("io_uring_setup"), "a ring opens sockets without a call: {calls}");
    assert!(done.status.code().is_some(), "{}", words(&done));
    let words = calls.lines().filter_map(|line| line.split_once("socket(")?.1.split([',', ')']).next());
    words.map(str::to_owned).collect()
}

#[test]
fn recording_opens_no_socket_that_leaves_the_machine() {
    let has = require_program("strace", &["--version"]);
    if !has || !require(Privilege::Perf) || !require(Privilege::Ptrace) {
        return;
    }
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let (folder, pid) = (tempfile::tempdir().unwrap(), target.pid().to_string());
    // The kernel's own tables of sockets, and ports of runtimes on this machine.
    let near = BTreeSet::from(["AF_NETLINK".to_owned(), "AF_UNIX".to_owned()]);
    for verb in [
        &["capture", &pid, "--for", "1s", "--never-stop", "-o", "c.zip"][..],
        &["trace", &pid, "--for", "1s", "-o", "t.zip"],
        &["dump", &pid, "-o", "d.core.zst"],
        &["ps"],
        &["doctor"],
    ] {
        let seen = families(folder.path(), verb);
        assert!(seen.is_subset(&near), "{verb:?}: {seen:?}");
    }
    assert!(folder.path().join("c.zip").is_file() && folder.path().join("d.core.zst").is_file());
    target.stop();
    // It would be seen.
    let asks = Asks::for_this(file_recipe());
    std::fs::write(folder.path().join("app.log"), "nothing in it").unwrap();
    let seen = families(folder.path(), &["send", "app.log", "--yes", "--to", &asks.link.to_text()]);
    assert!(seen.contains("AF_INET"), "{seen:?}");
}
