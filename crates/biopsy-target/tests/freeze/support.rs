//! Starting targets, freezing them, and looking whether they are unharmed.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::{Pid, ProcessKey};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{
    FreezeError, FreezeOptions, FrozenProcess, Method, ReleaseReport, Stage, StageHook, freeze, plan,
};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Privilege, Program, TargetProcess, require_all};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One test at a time: a freeze looks at all threads of its target, and the machine has few CPUs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ready() -> bool {
    cfg!(target_arch = "x86_64") && require_all(&[Privilege::Ptrace, Privilege::Root, Privilege::Cc])
}

/// Pauses are long on a busy machine, and not what these tests are about.
pub(crate) fn options() -> FreezeOptions {
    FreezeOptions {
        max_pause: Duration::from_secs(5),
        allow_stop_and_copy: false,
        ..FreezeOptions::default()
    }
}

/// Options with a function that is called at each stage.
pub(crate) fn at_stages(hook: impl Fn(Stage) + Send + Sync + 'static) -> FreezeOptions {
    FreezeOptions { at_stage: Some(StageHook(Arc::new(hook))), ..options() }
}

pub(crate) fn key(pid: u32) -> ProcessKey {
    key_of(&ProcRoot::live(), Pid(pid)).expect("it runs")
}

pub(crate) fn try_freeze(pids: &[u32], options: &FreezeOptions) -> Result<Vec<FrozenProcess>, FreezeError> {
    let keys: Vec<ProcessKey> = pids.iter().filter_map(|&pid| key_of(&ProcRoot::live(), Pid(pid))).collect();
    let plan = plan(&keys, options)?;
    freeze(plan, options)
}

pub(crate) fn frozen(pid: u32, options: &FreezeOptions) -> FrozenProcess {
    let mut all = try_freeze(&[pid], options).unwrap_or_else(|error| panic!("{error:?}"));
    let one = all.pop().expect("one process was asked for");
    assert_eq!(one.method(), Method::CopyOnWrite, "{one:?}");
    one
}

/// Freezes and releases, and demands that nothing is left.
pub(crate) fn freeze_once(pid: u32, options: &FreezeOptions) -> ReleaseReport {
    let report = frozen(pid, options).release();
    assert!(report.reaped, "{report:?}");
    assert_eq!(report.warnings, [], "{report:?}");
    assert_eq!(children(pid), [], "nothing is left of the frozen child");
    report
}

/// The target says that all is as it should be.
#[track_caller]
pub(crate) fn assert_intact(target: &mut TargetProcess) -> String {
    target.ask("", "INTACT", PATIENCE).unwrap_or_else(|| {
        let status = target.wait_for_exit(Duration::from_secs(1));
        panic!("target {} does not say INTACT any more: {status:?}", target.pid())
    })
}

/// The number behind a word of such a line.
pub(crate) fn number(line: &str, word: &str) -> u64 {
    let mut words = line.split_ascii_whitespace().skip_while(|one| *one != word);
    words.nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no `{word}` in `{line}`"))
}

/// Children of a process, with the letter of their state.
pub(crate) fn children(pid: u32) -> Vec<(u32, char)> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()) {
            found.extend(state(child).map(|state| (child, state)));
        }
    }
    found
}

/// The letter of its state.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// Whether it has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until every child has ended: nobody runs the target's code but the target.
#[track_caller]
pub(crate) fn assert_no_child_lives(pid: u32) {
    let ended = |(_, state): &(u32, char)| matches!(state, 'Z' | 'X');
    wait_until(&format!("children of {pid} end"), || children(pid).iter().all(ended));
}

/// Whether copies of this process are orphans.
pub(crate) fn is_orphaned(pid: u32) -> bool {
    plan(&[key(pid)], &options()).is_ok_and(|plan| plan.processes.iter().all(|process| process.orphan))
}

/// Waits until it has no child at all, dead or alive.
#[track_caller]
pub(crate) fn wait_for_no_child(pid: u32) {
    wait_until(&format!("no child of {pid} is left"), || children(pid).is_empty());
}

/// Waits until nobody traces the process.
#[track_caller]
pub(crate) fn assert_untraced(pid: u32) {
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap_or("0");
        assert_eq!(tracer.trim(), "0", "{}", task.path().display());
    }
}

pub(crate) fn start_registers(arguments: &[&str]) -> TargetProcess {
    TargetProcess::start(Program::Registers, arguments)
}

/// This test program once more, as a process of its own that can be killed: runs `kills::the_one_that_is_killed`.
pub(crate) fn accomplice(orders: &str) -> Child {
    Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "kills::the_one_that_is_killed", "--nocapture", "--test-threads=1"])
        .env("BIOPSY_TEST_ORDERS", orders)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started")
}
