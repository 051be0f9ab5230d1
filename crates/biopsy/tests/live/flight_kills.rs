//! The recorder of the last minutes is killed: nothing of it is left at whom it recorded, and what is kept anew is whole.

use std::path::Path;
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, Signal, Survival, TargetProcess, require_all, send_signal};

use crate::watching::{LIVE, User, Watcher};

/// Pid of the only `biopsy recent` that a watcher has begun: it is written down a moment after it was started.
#[track_caller]
fn keeper(user: &User) -> u32 {
    let begin = Instant::now();
    loop {
        if let Some(pid) = keepers(user).first() {
            return *pid;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "nobody keeps anything");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn keepers(user: &User) -> Vec<u32> {
    let text = std::fs::read(user.folder.path().join("state/biopsy/leases.json")).unwrap_or_default();
    let journal: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let leases = journal["leases"].as_array().cloned().unwrap_or_default();
    let of_targets = leases.iter().filter(|lease| lease["target"].is_object());
    of_targets.filter_map(|lease| u32::try_from(lease["holder"]["pid"].as_u64()?).ok()).collect()
}

#[test]
fn a_recorder_of_the_last_minutes_that_is_killed_leaves_nothing() {
    if !require_all(LIVE) {
        return;
    }
    let user = User::new();
    let argument = user.folder.path().display().to_string();
    let rule =
        format!("{{\"who\": {{\"arguments\": \"{argument}\"}}, \"do\": \"recent 5m\", \"perDay\": 99}}");
    std::fs::write(user.settings(), format!("{{\"watch\": {{\"rules\": {{\"kept\": {rule}}}}}}}")).unwrap();
    let mut target = TargetProcess::start(Program::ManyThreads, &["20", &argument]);
    let survival = Survival::before(target.pid());
    // At different moments of its life: while it attaches, while it records.
    for milliseconds in [5, 40, 120, 400, 900, 2500] {
        let mut watcher = Watcher::start(&user);
        watcher.until("begun", "kept");
        std::thread::sleep(Duration::from_millis(milliseconds));
        assert!(send_signal(keeper(&user), Signal::KILL));
        let failed = watcher.until("failed", "kept");
        assert!(failed["text"].as_str().unwrap().contains("signal: 9"), "{failed}");
        survival.assert_unharmed();
        // They are kept anew, by another one.
        watcher.until("begun", "kept");
        watcher.end();
        let left = std::fs::read_dir(user.folder.path().join("state/biopsy/recent")).unwrap().count();
        assert_eq!(left, 0, "neither socket nor draft, after {milliseconds} ms");
    }
    // And the watcher, with whom the recorder ends.
    let mut watcher = Watcher::start(&user);
    watcher.until("begun", "kept");
    std::thread::sleep(Duration::from_millis(700));
    let recorder = keeper(&user);
    drop(watcher);
    let begin = Instant::now();
    while Path::new("/proc").join(recorder.to_string()).exists() {
        assert!(begin.elapsed() < Duration::from_secs(30), "the recorder outlives its watcher");
        std::thread::sleep(Duration::from_millis(20));
    }
    survival.assert_unharmed();
    target.stop();
}
