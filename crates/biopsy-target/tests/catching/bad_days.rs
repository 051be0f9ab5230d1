//! What goes wrong, and that nobody stays held.

use std::process::{Command, Stdio};
use std::time::Duration;

use biopsy_target::catch::{CatchError, CatchOn, CatchOptions, Catcher, Follower, Way};
use biopsy_testkit::{GrandChild, Privilege, Program, Signal, Survival, TargetProcess, require_all};

use super::{LONG, key, launcher, next, said, short_lived, until};

const NEEDED: [Privilege; 3] = [Privilege::Root, Privilege::Ptrace, Privilege::Cc];
/// Set in a process that is this test program again, to be killed.
const VICTIM: &str = "BIOPSY_CATCH_VICTIM";

/// Not a test of its own: the catcher that is killed, in a process of its own.
#[test]
fn catcher_that_will_be_killed() {
    let Ok(order) = std::env::var(VICTIM) else { return };
    let mut words = order.split(' ');
    let (pid, way) = (words.next().unwrap().parse().unwrap(), words.next().unwrap());
    if way == "follow" {
        let mut follower = Follower::new(&key(pid), CatchOn::CRASH, LONG).unwrap();
        println_now("CATCHING");
        let held = follower.next(LONG);
        println_now("HOLDING");
        std::thread::sleep(LONG * 3);
        drop(held);
        return;
    }
    let mut options = CatchOptions::new("short-lived", CatchOn::EXIT).below(key(pid));
    options.way = if way == "gate" { Way::Gate } else { Way::Parent };
    (options.max_held, options.max_waiting) = (2, 2);
    let mut catcher = Catcher::new(&options).unwrap();
    println_now("CATCHING");
    let held = [next(&mut catcher), next(&mut catcher)];
    println_now("HOLDING");
    std::thread::sleep(LONG * 3);
    drop(held);
}

fn println_now(text: &str) {
    use std::io::Write;
    // Past the capturing of the test harness.
    let mut out = std::fs::File::options().write(true).open("/proc/self/fd/1").unwrap();
    writeln!(out, "\n{text}").unwrap();
}

/// Starts the catcher in a process of its own, and waits until it catches.
fn catcher_in_another_process(order: &str) -> TargetProcessOfOurs {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "catching::bad_days::catcher_that_will_be_killed", "--nocapture"]);
    command.env(VICTIM, order).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut process = TargetProcessOfOurs { child, out };
    process.wait_for("CATCHING");
    process
}

struct TargetProcessOfOurs {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

impl TargetProcessOfOurs {
    fn wait_for(&mut self, text: &str) {
        use std::io::BufRead;
        let mut line = String::new();
        while !line.trim().eq(text) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "the catcher has ended");
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for TargetProcessOfOurs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn everything_goes_on_when_the_catcher_is_killed() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in ["gate", "parent"] {
        let mut parent = TargetProcess::start(Program::Launcher, &[]);
        // Its first thread changes how it handles signals.
        parent.say(&format!("START {} 0", short_lived()));
        said(&parent, "ENDED");
        let survival = Survival::before(parent.pid()).threads_may_change().files_may_change();
        let mut catcher = catcher_in_another_process(&format!("{} {way}", parent.pid()));
        // Two are held, two wait, one sleeps and is followed, and all that at once.
        parent.say(&format!("START {} sleep 300", short_lived()));
        parent.say(&format!("-4 0 {} {} 6", 6 << 8, short_lived()));
        catcher.wait_for("HOLDING");
        catcher.kill();
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 4 of 4"), "{way}");
        // Nothing is held any more by a gate without a keeper.
        parent.say(&format!("2 0 0 {} 0", short_lived()));
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 2 of 2"), "{way}");
        survival.assert_unharmed();
        parent.stop();
    }
}

#[test]
fn a_signal_is_not_lost_when_the_follower_is_killed_while_it_holds() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::BusyLoop, &["2"]);
    let mut follower = catcher_in_another_process(&format!("{} follow", target.pid()));
    target.signal(Signal::QUIT);
    follower.wait_for("HOLDING");
    assert_eq!(target.ended(Duration::from_millis(50)), None);
    follower.kill();
    assert_eq!(target.ended(LONG), Some(3));
}

#[test]
fn a_process_that_is_killed_while_it_is_held_ends() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::BusyLoop, &["2"]);
    let mut follower = Follower::new(&key(target.pid()), CatchOn::CRASH, LONG).unwrap();
    target.signal(Signal::QUIT);
    let held = follower.next(LONG).unwrap();
    target.signal(Signal::KILL);
    assert_eq!(target.ended(LONG), Some(9));
    drop(held);
}

#[test]
fn nobody_is_held_for_longer_than_was_allowed() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut parent = TargetProcess::start(Program::Launcher, &[]);
    let mut options = CatchOptions::new("short-lived", CatchOn::EXIT).below(key(parent.pid()));
    options.hold_limit = Duration::from_millis(200);
    let mut catcher = Catcher::new(&options).unwrap();
    parent.say(&format!("1 0 0 {} 0", short_lived()));
    let held = next(&mut catcher);
    assert!(said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"));
    assert!(!held.is_held());
    let mut byte = [0];
    let start = biopsy_image::Image::mappings(&*Box::new(&held))[0].start;
    assert!(biopsy_image::Image::read(&held, start, &mut byte).unwrap_err().is_missing());
    catcher.finish();
    parent.stop();
}

#[test]
fn a_parent_that_ends_is_the_end() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in [Way::Gate, Way::Parent] {
        let mut parent = GrandChild::start(Program::Launcher, &[]);
        let mut options = CatchOptions::new("short-lived", CatchOn::EXIT).below(key(parent.pid()));
        options.way = way;
        let mut catcher = Catcher::new(&options).unwrap();
        parent.close();
        assert_eq!(parent.ended(LONG), Some(0));
        assert!(matches!(catcher.next(LONG), Err(CatchError::Ended)), "{way:?}");
    }
}

#[test]
fn an_execution_that_fails_is_forgotten() {
    if !require_all(&NEEDED) {
        return;
    }
    // The file is opened for execution, and then it is none.
    let folder = biopsy_testkit::temp_dir("damaged");
    let program = folder.path().join("short-lived");
    std::fs::write(&program, "\u{7f}ELF and nothing more").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut shell = Command::new("sh");
    // The shell itself executes it: its process is held at the gate and must be let go.
    shell
        .args(["-c", "echo READY $$; read line; exec \"$0\" 2>/dev/null || sleep 3; read rest; exit 4"])
        .arg(&program);
    let mut parent = Command::new("sh");
    parent.args([
        "-c",
        "sh -c \"$0\" \"$1\"; exit $?",
        "echo READY $$; read line; (exec \"$0\" 2>/dev/null) ; read rest; exit 4",
    ]);
    parent.arg(&program);
    let mut target = TargetProcess::spawn(parent);
    let options = CatchOptions::new("short-lived", CatchOn::EXIT).below(key(target.pid()));
    let mut catcher = Catcher::new(&options).unwrap();
    target.say("go");
    assert!(catcher.next(Duration::from_secs(1)).unwrap().is_none());
    assert_eq!(catcher.statistics().caught, 0);
    target.say("rest");
    assert_eq!(target.wait_for_exit(LONG).and_then(|status| status.code()), Some(4));
    catcher.finish();
}

#[test]
fn a_process_under_a_debugger_is_left_to_it() {
    if !require_all(&NEEDED) {
        return;
    }
    let target = GrandChild::start(Program::Idle, &[]);
    let first = Follower::new(&key(target.pid()), CatchOn::CRASH, LONG).unwrap();
    let second = Follower::new(&key(target.pid()), CatchOn::CRASH, LONG);
    let Err(error @ CatchError::Traced { .. }) = second else { panic!("{second:?}") };
    assert!(error.hint().unwrap().starts_with("end the debugger"));
    first.finish();
    // Untraced at once: a debugger can take over.
    Follower::new(&key(target.pid()), CatchOn::CRASH, LONG).unwrap().finish();
}

#[test]
fn without_rights_it_says_why() {
    if !require_all(&[Privilege::Root, Privilege::OtherUser, Privilege::Cc]) {
        return;
    }
    let parent = TargetProcess::start(Program::Launcher, &[]);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "catching::bad_days::catcher_that_will_be_killed", "--nocapture"]);
    command.env(VICTIM, format!("{} parent", parent.pid()));
    // The test program may be where others cannot reach it.
    let folder = biopsy_testkit::temp_dir("other-user");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("catch");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut reachable = Command::new(copy);
    reachable.args(command.get_args());
    reachable.env(VICTIM, format!("{} parent", parent.pid()));
    let output = biopsy_testkit::as_user(65534, &reachable).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("WouldDisarmSetuid"), "{text}");
}

#[test]
fn held_processes_outlive_the_catcher_that_is_dropped() {
    if !require_all(&NEEDED) {
        return;
    }
    let (mut parent, mut catcher) = launcher(Way::Gate, CatchOn::EXIT);
    parent.say(&format!("2 0 0 {} 0", short_lived()));
    let held = next(&mut catcher);
    drop(catcher);
    assert!(held.is_held());
    drop(held);
    assert!(said(&parent, "DONE").starts_with("DONE as-expected 2 of 2"));
    until("it is not traced", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", parent.pid())).unwrap();
        status.contains("TracerPid:\t0\n")
    });
    parent.stop();
}

#[test]
fn what_nobody_asked_for_is_let_go_at_the_end() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in [Way::Gate, Way::Parent] {
        let (mut parent, catcher) = launcher(way, CatchOn::EXIT);
        parent.say(&format!("-8 0 0 {} 0", short_lived()));
        until("four are held and four wait", || catcher.statistics().caught == 4);
        catcher.finish();
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 8 of 8"), "{way:?}");
        parent.stop();
    }
}
