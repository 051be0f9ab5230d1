//! `biopsy watch`: what starts is recorded as the settings say, nothing is on afterwards, and settings are said to be wrong where they are.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use biopsy_testkit::{
    Privilege, Program, Signal, Survival, TargetProcess, TempDir, dotnet_command, require, require_all,
    send_signal, temp_dir,
};
use serde_json::Value;

use crate::support::{analyze, biopsy, complaint, said};

pub(crate) const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

/// A user with settings and a state of his own.
pub(crate) struct User {
    pub(crate) folder: TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        let folder = temp_dir("watch");
        // What is below a folder of all is nobody's own; the folder itself is.
        std::fs::create_dir_all(folder.path().join("config/biopsy")).unwrap();
        Self { folder }
    }

    pub(crate) fn with(settings: &str) -> Self {
        let user = Self::new();
        std::fs::write(user.settings(), settings).unwrap();
        user
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.folder.path().join("config/biopsy/diagnostics.json")
    }

    /// Where systemd would listen.
    fn notify(&self) -> PathBuf {
        self.folder.path().join("notify")
    }

    pub(crate) fn biopsy(&self, words: &[&str]) -> Command {
        let mut command = biopsy(words);
        command
            .env("XDG_CONFIG_HOME", self.folder.path().join("config"))
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("NOTIFY_SOCKET", self.notify());
        command
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let output = self.biopsy(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn leases(&self) -> usize {
        let text = std::fs::read(self.folder.path().join("state/biopsy/leases.json")).unwrap();
        let journal: Value = serde_json::from_slice(&text).unwrap();
        journal["leases"].as_array().unwrap().len()
    }
}

/// A watcher that speaks JSON. It ends with this value.
pub(crate) struct Watcher {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    #[track_caller]
    pub(crate) fn start(user: &User) -> Self {
        Self::start_with(user, &[])
    }

    #[track_caller]
    pub(crate) fn start_with(user: &User, more: &[&str]) -> Self {
        let mut command = user.biopsy(&["watch", "--json", "--for", "10m"]);
        command.args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut watcher = Self { child, lines };
        watcher.until("watching", "");
        watcher
    }

    /// The next line of this event that is about this rule.
    #[track_caller]
    pub(crate) fn until(&mut self, event: &str, rule: &str) -> Value {
        let mut before = Vec::new();
        for line in &mut self.lines {
            let line = line.unwrap();
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if value["event"] == event && (rule.is_empty() || value["rule"] == rule) {
                return value;
            }
            before.push(line);
        }
        panic!("it ended without `{event}`: {before:#?}");
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> Vec<Value> {
        assert!(send_signal(self.child.id(), Signal::TERM));
        let rest = (&mut self.lines).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(pid: u64) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[test]
fn a_program_that_starts_is_recorded_and_one_bundle_has_a_report() {
    if !require_all(LIVE) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"tell\": [\"sh\", \"-c\", \"cat >> $XDG_STATE_HOME/told\"], \"rules\": {\"hot\": {\"who\": {\"executable\": \"hot-function\"}, \"do\": \"trace --for 4s\", \"perDay\": 1}}}}",
    );
    assert!(user.says(&["list"]).starts_with("nothing was recorded in "));
    let mut watcher = Watcher::start(&user);
    let mut first = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(first.pid());
    let begun = watcher.until("begun", "hot");
    assert_eq!(begun["pid"], first.pid(), "{begun}");
    assert_eq!(user.leases(), 2, "the watcher, and what it began");
    let made = watcher.until("made", "hot");
    assert!(made["text"].as_str().unwrap().contains("compute_checksum_bit_by_bit"), "{made}");
    let bundle = Path::new(made["path"].as_str().unwrap());
    let report = analyze(bundle);
    assert!(!report["findings"].as_array().unwrap().is_empty(), "{report:#}");
    survival.assert_unharmed();
    let mut second = TargetProcess::start(Program::HotFunction, &[]);
    let held = watcher.until("held", "hot");
    assert_eq!(
        (&held["pid"], held["text"].as_str().unwrap().contains("24 hours")),
        (&second.pid().into(), true),
        "{held}"
    );
    let rest = watcher.end();
    assert_eq!(rest.last().unwrap()["event"], "ended", "{rest:#?}");
    assert_eq!(user.leases(), 0);
    assert_eq!(std::fs::read_dir(bundle.parent().unwrap()).unwrap().count(), 1, "nothing but the result");
    let told = std::fs::read_to_string(user.folder.path().join("state/told")).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (told.len(), &told[0]["event"], &told[0]["path"]),
        (1, &"made".into(), &made["path"]),
        "{told:#?}"
    );
    // Files that are no recordings are listed as far as their names go, and stop nothing.
    std::fs::write(bundle.with_file_name("x\u{1b}-7-20261123-192401.biopsy.zip"), "no zip").unwrap();
    let list: Value = serde_json::from_str(&user.says(&["list", "--json"])).unwrap();
    let results = list["results"].as_array().unwrap();
    let of = |pid: u64| results.iter().find(|result| result["pid"] == pid).unwrap();
    assert_eq!(results.len(), 2, "{list:#}");
    assert_eq!(of(7)["findings"].as_array().unwrap().len(), 0, "{list:#}");
    let first_finding = report["findings"][0]["title"].as_str().unwrap();
    assert_eq!(of(first.pid().into())["findings"][0], first_finding, "{list:#}");
    let shown = user.says(&["list", "--rule", "hot"]);
    assert!(
        shown.contains("2 in ") && shown.contains("hot-function") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(user.says(&["list", "--rule", "other"]).starts_with("nothing was recorded in "));
    first.stop();
    second.stop();
}

#[test]
fn programs_that_live_for_a_millisecond_are_recorded_from_their_first_instruction() {
    if !require_all(LIVE) || !require(Privilege::Root) {
        return;
    }
    const STARTS: usize = 10;
    let user = User::new();
    // Other tests start the same program.
    let own = user.folder.path().join("quick-one");
    std::fs::copy(Program::ShortLived.path(), &own).unwrap();
    let rule = "{\"who\": {\"name\": \"quick-one\"}, \"do\": \"trace --no-children\", \"atOnce\": 99, \"perDay\": 99}";
    let settings = format!("{{\"watch\": {{\"atOnce\": 99, \"rules\": {{\"quick\": {rule}}}}}}}");
    std::fs::write(user.settings(), settings).unwrap();
    let mut watcher = Watcher::start(&user);
    let mut launcher = TargetProcess::start(Program::Launcher, &[]);
    launcher.say(&format!("{STARTS} 0 0 {} 0", own.display()));
    let mut bundles = Vec::new();
    for _ in 0..STARTS {
        let made = watcher.until("made", "quick");
        assert_eq!(made["name"], "quick-one", "{made}");
        bundles.push(made["path"].as_str().unwrap().to_owned());
    }
    let line = launcher.line_starting_with("DONE", std::time::Duration::from_secs(60)).unwrap();
    assert!(line.contains(&format!("{STARTS} of {STARTS}")), "{line}");
    launcher.stop();
    watcher.end();
    analyze(Path::new(&bundles[0]));
    for bundle in bundles {
        let capture =
            biopsy_recording::open(Path::new(&bundle), &biopsy_recording::Limits::default()).unwrap();
        let timeline = capture.timeline.as_ref().unwrap();
        let execs = timeline.process_events.iter().filter(|event| {
            matches!(event, biopsy_model::timeline::TimelineEvent::Exec { name, .. } if name == "quick-one")
        });
        assert_eq!(execs.count(), 1, "{bundle}: it was there before its first instruction");
        let ran: u64 = timeline.states.iter().map(|slice| slice.running.0).sum();
        assert!(ran > 0, "{bundle}");
        assert_eq!(capture.header.target_name, "quick-one");
    }
}

#[test]
fn a_runtime_behind_the_gate_is_heard_from_its_start() {
    if !require_all(&[LIVE, &[Privilege::Root, Privilege::DotNetTargets]].concat()) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"rules\": {\"held\": {\"who\": {\"arguments\": \"1017\"}, \"do\": \"trace\"}}}}",
    );
    let mut watcher = Watcher::start(&user);
    let command = dotnet_command("net10.0", "holder", &["--objects", "1017"]).unwrap();
    let target = TargetProcess::spawn(command);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(send_signal(target.pid(), Signal::KILL));
    let made = watcher.until("made", "held");
    drop(target);
    watcher.end();
    let path = Path::new(made["path"].as_str().unwrap());
    let capture = biopsy_recording::open(path, &biopsy_recording::Limits::default()).unwrap();
    // It was looked for again five seconds later where it had not executed its program at the first look.
    let (first, _) = capture.runtimes.first().and_then(|trace| trace.span).expect("its runtime is heard");
    let late = first.since(capture.header.start.mono).0;
    assert!(late < 3_000_000_000, "{late} ns");
}

#[test]
fn two_watchers_refuse_each_other_and_what_a_killed_one_left_is_ended() {
    if !require_all(LIVE) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"rules\": {\"idle\": {\"who\": {\"executable\": \"idle\"}, \"do\": \"trace\"}}}}",
    );
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let mut watcher = Watcher::start(&user);
    // It ran before: it is seen as well.
    watcher.until("begun", "idle");
    let text = complaint(&mut user.biopsy(&["watch"]));
    assert!(text.contains(&format!("process {}", watcher.child.id())) && text.contains("restore"), "{text}");
    let on = user.says(&["restore", "--dry-run"]);
    assert!(on.contains("`trace` of idle"), "{on}");
    let doctor = user.says(&["doctor"]);
    assert!(doctor.contains("watch"), "{doctor}");
    watcher.child.kill().unwrap();
    watcher.child.wait().unwrap();
    // Its command was asked to end by the kernel; whoever comes next waits for that, or finds it done.
    user.says(&["restore"]);
    assert_eq!(user.leases(), 0);
    assert_eq!(user.says(&["restore"]), "nothing is on any more\n");
    // The kernel tells of the end of each of the watcher's threads: that is no hurry, and there is a report.
    let results = std::fs::read_dir(user.folder.path().join("state/biopsy/watch/idle")).unwrap();
    let names: Vec<String> = results.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.len() == 1 && names[0].ends_with(".biopsy.zip"), "{names:?}");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn restore_ends_a_watcher_and_what_it_began() {
    if !require_all(LIVE) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"rules\": {\"idle\": {\"who\": {\"executable\": \"idle\"}, \"do\": \"capture --stacks\"}}}}",
    );
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let systemd = std::os::unix::net::UnixDatagram::bind(user.notify()).unwrap();
    systemd.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let hears = || {
        let mut heard = [0; 256];
        let length = systemd.recv(&mut heard).unwrap();
        String::from_utf8(heard[..length].to_vec()).unwrap()
    };
    let mut watcher = Watcher::start(&user);
    watcher.until("begun", "idle");
    assert!(hears().starts_with("READY=1\n"));
    assert_eq!(hears(), "WATCHDOG=1");
    // From here on nobody reads it, and it is full soon: that is no reason to stand still.
    let ended = user.says(&["restore"]);
    assert!(ended.contains("`watch`: ended") && ended.ends_with("nothing is on any more\n"), "{ended}");
    assert!(watcher.child.wait().unwrap().success());
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn processes_of_a_kind_are_ended_in_order() {
    if !require_all(&[Privilege::Cc]) {
        return;
    }
    let user = User::with("{\"watch\": {\"kinds\": {\"Sleeper\": {\"arguments\": \"86411.5\"}}}}");
    let mut sleeper = Command::new("sleep").arg("86411.5").spawn().unwrap();
    let text = user.says(&["kill", "Sleeper", "--dry-run"]);
    assert!(text.contains("would be asked"), "{text}");
    assert!(is_there(sleeper.id().into()));
    // Our child stays a zombie until it is waited for.
    let text = user.says(&["kill", "sleeper"]);
    assert!(text.contains("ended in order, at SIGTERM"), "{text}");
    sleeper.wait().unwrap();
    assert!(user.says(&["kill", "Sleeper"]).contains("no process"));
    let text = complaint(&mut user.biopsy(&["kill", "Compilr"]));
    assert!(text.contains("did you mean `Compiler`?"), "{text}");
}

#[test]
fn settings_are_set_shown_and_checked() {
    let user = User::new();
    user.says(&["config", "set", "profiling.processes.Compiler", "true"]);
    user.says(&["config", "set", "watch.rules.slow.who", "TestHost"]);
    user.says(&["config", "set", "watch.rules.slow.do", "capture --for 60s"]);
    let shown = user.says(&["config", "show", "--origin"]);
    for part in
        ["profiling.processes.Compiler", "diagnostics.json:4:19", "capture --for 60s", "profiling-Compiler"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let text = complaint(&mut user.biopsy(&["config", "set", "watch.rules.slow.do", "capture --fro 60s"]));
    assert!(text.contains("--fro"), "{text}");
    assert!(std::fs::read_to_string(user.settings()).unwrap().contains("--for 60s"), "it is as it was");
    let edited =
        user.biopsy(&["config", "edit"]).env("EDITOR", "sed -i s/TestHost/Testhst/").output().unwrap();
    let message = said(&edited);
    assert!(!edited.status.success() && message.contains("did you mean `TestHost`?"), "{message}");
    let edited =
        user.biopsy(&["config", "edit"]).env("EDITOR", "sed -i s/TestHost/Compiler/").output().unwrap();
    assert!(edited.status.success(), "{}", said(&edited));
    assert!(user.says(&["config", "check"]).contains("in order"));
    assert!(user.says(&["watch", "--dry-run"]).contains("slow"));
    std::fs::write(user.settings(), "{\n  \"watch\": {\"for\": 3,}\n}").unwrap();
    let output = user.biopsy(&["config", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("diagnostics.json:2:20: error: watch.for: `3`"), "{}", said(&output));
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(user.settings(), std::fs::Permissions::from_mode(0o666)).unwrap();
    for words in [&["watch"][..], &["config", "show"], &["config", "set", "watch.for", "1h"]] {
        let text = complaint(&mut user.biopsy(words));
        assert!(text.contains("may be written by others") && text.contains("chmod go-w"), "{text}");
    }
}

/// A systemd that only writes down what it is asked.
fn fake_systemd(user: &User, exit_code: i32) -> String {
    let folder = user.folder.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["systemctl", "journalctl"] {
        let log = user.folder.path().join("asked");
        let script = format!(
            "#!/bin/sh\necho {name} \"$@\" >> {}\necho refused >&2\nexit {exit_code}\n",
            log.display()
        );
        let path = folder.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_service_is_installed_asked_and_leaves_nothing() {
    let user =
        User::with("{\"watch\": {\"rules\": {\"hot\": {\"who\": {\"executable\": \"hot-function\"}}}}}");
    let path = fake_systemd(&user, 0);
    let unit = user.folder.path().join("config/systemd/user/biopsy-watch.service");
    let run = |words: &[&str], path: &str| user.biopsy(words).env("PATH", path).output().unwrap();
    let installed = run(&["watch", "--user", "--install", "--for", "12h"], &path);
    assert!(installed.status.success(), "{}", said(&installed));
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains(" watch --for 12h\n") && text.contains("Type=notify\n"), "{text}");
    // Again: a change of options is taken over.
    assert!(run(&["watch", "--user", "--install"], &path).status.success());
    assert!(std::fs::read_to_string(&unit).unwrap().contains(" watch\n"));
    // That systemd refuses leaves all as it was.
    let refused = fake_systemd(&user, 1);
    let before = std::fs::read_to_string(&unit).unwrap();
    let output = run(&["watch", "--user", "--install", "--for", "1h"], &refused);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("`systemctl daemon-reload` failed: refused"), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), before);
    let path = fake_systemd(&user, 0);
    assert!(run(&["watch", "--user", "status"], &path).status.success());
    assert!(run(&["watch", "--user", "logs"], &path).status.success());
    let gone = run(&["watch", "--user", "--uninstall"], &path);
    assert!(gone.status.success() && said(&gone).contains("nothing is on any more"), "{}", said(&gone));
    assert!(!unit.exists());
    assert_eq!(std::fs::read_dir(unit.parent().unwrap()).unwrap().count(), 0);
    let asked = std::fs::read_to_string(user.folder.path().join("asked")).unwrap();
    for line in [
        "systemctl --user enable --quiet biopsy-watch.service",
        "systemctl --user restart biopsy-watch.service",
        "systemctl --user status biopsy-watch.service --no-pager",
        "journalctl --user-unit biopsy-watch.service --lines 200 --no-pager",
        "systemctl --user disable --now --quiet biopsy-watch.service",
    ] {
        assert!(asked.lines().any(|one| one == line), "{line}\n{asked}");
    }
    // What somebody else wrote stays.
    std::fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    for words in [["watch", "--user", "--install"], ["watch", "--user", "--uninstall"]] {
        let output = run(&words, &path);
        assert!(!output.status.success() && said(&output).contains("is not by biopsy"), "{}", said(&output));
    }
    assert!(unit.exists());
    // Without a rule there is nothing to stand by for.
    std::fs::write(user.settings(), "{}").unwrap();
    assert_eq!(run(&["watch", "--user", "--install"], &path).status.code(), Some(2));
}
