//! What memory said when a recording ended, beside what time showed.

use crate::ask::{finding, severity, texts, there};
use crate::build::{Build, IDLE, PID};
use biopsy_analyze::{Analysis, FindingId, Severity, analyze};
use biopsy_model::look::{Look, LookFinding};
use biopsy_model::{Nanos, Pid};

fn said(id: &str, title: &str) -> LookFinding {
    LookFinding {
        id: id.to_owned(),
        severity: "notice".into(),
        impact: 0.2,
        title: title.to_owned(),
        evidence: ["who", "where", "since when"].map(str::to_owned).to_vec(),
        ..LookFinding::default()
    }
}

fn look(pid: u32, findings: Vec<LookFinding>) -> Look {
    let (pid, pause) = (Pid(pid), Nanos(7_000_000));
    Look { pid, name: "server".to_owned(), pause, findings, ..Look::default() }
}

/// A process whose memory grows by so many bytes a second, and what was read from memory at the end.
fn grows(each: f64, looks: Vec<Look>) -> Analysis {
    let mut build = Build::new("server", 60, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[("memory.anon", &|second| 60e6 + second * each)],
    );
    let mut capture = build.done();
    capture.looks = looks;
    analyze(&capture)
}

/// What the finding on growth says in its second line: of what may keep it, where that is known.
fn kept_by(looks: Vec<Look>) -> Option<String> {
    let analysis = grows(5e6, looks);
    let growth = texts(there(&analysis, FindingId::MemoryGrowth));
    assert!(growth[0].starts_with("anonymous memory"), "how much it grows comes first: {growth:?}");
    let kept = growth[1].strip_prefix("what may keep it: ").map(str::to_owned);
    if kept.is_some() {
        assert_eq!(growth[2..4], ["who", "where"], "two lines of it are enough");
        assert!(!growth.contains(&"since when"));
    }
    assert!(kept.is_some() || growth.iter().all(|text| !text.contains("may keep it")), "{growth:?}");
    kept
}

#[test]
fn thousands_that_wait_in_one_place_may_keep_what_grows() {
    for (id, title, tells) in [
        ("stuck-wait", "999 goroutines wait in main.serve for a condition", false),
        ("stuck-wait", "1000 goroutines wait in main.serve for a condition", true),
        ("stuck-wait", "4,131 tasks wait in serve for what it awaits", true),
        ("strands-wait", "1200 goroutines wait for a channel, to send in main.leak", true),
        ("waiting-operations", "5000 operations of `Shop.Pay` await a task", true),
        // One of that number, one in words, and a number that is none.
        ("stuck-wait", "goroutine 4131 waits in main.serve for a condition", false),
        ("stuck-wait", "Thousands wait", false),
        ("stuck-wait", "99999999999999999999999 goroutines wait", false),
        ("stuck-wait", "", false),
        // Threads behind a lock are as many as there are threads; what is not known is not told.
        ("lock-queue", "5000 threads wait for a lock", false),
        ("unheard-of", "5000 goroutines wait", false),
    ] {
        let kept = kept_by(vec![look(PID, vec![said(id, title)])]);
        assert_eq!(kept.as_deref(), tells.then_some(title), "{id}: {title}");
    }
}

#[test]
fn of_several_places_the_largest_may_keep_it() {
    let places = |counts: [u64; 3]| {
        counts.map(|count| said("stuck-wait", &format!("{count} goroutines wait"))).to_vec()
    };
    for (counts, largest) in [([1_000, 40_000, 2_000], "40000"), ([7_000, 7, 999], "7000")] {
        let kept = kept_by(vec![look(PID, places(counts))]).expect("many wait");
        assert!(kept.starts_with(largest), "{kept}");
    }
}

/// Each process keeps its own memory, whoever else was looked at.
#[test]
fn only_those_of_the_process_that_grows_may_keep_its_memory() {
    let many = || vec![said("stuck-wait", "4131 goroutines wait in main.serve for a condition")];
    let more = || vec![said("stuck-wait", "90000 goroutines wait in main.other for a condition")];
    let own = Some("4131 goroutines wait in main.serve for a condition".to_owned());
    assert_eq!(kept_by(vec![look(PID, many()), look(8, vec![])]), own, "beside one where nobody waits");
    assert_eq!(kept_by(vec![look(8, more()), look(PID, many())]), own, "beside one where more wait");
    assert_eq!(kept_by(vec![look(8, more()), look(PID, vec![])]), None, "another process has them");
    assert_eq!(kept_by(vec![look(8, more())]), None, "only another process was looked at");
}

#[test]
fn goroutines_of_a_process_that_does_not_grow_are_their_own_finding_only() {
    let many = vec![said("stuck-wait", "4131 goroutines wait in main.serve for a condition")];
    let analysis = grows(0.0, vec![look(PID, many)]);
    assert_eq!(severity(&analysis, FindingId::MemoryGrowth), None);
    let found = there(&analysis, FindingId::StuckWait);
    assert_eq!(found.severity, Severity::Notice);
    assert_eq!(texts(found)[..3], ["who", "where", "since when"]);
}

#[test]
fn whose_memory_it_was_is_said_where_several_were_read() {
    for (looks, prefix) in [(1, ""), (2, "server (4711): ")] {
        let mut all = vec![look(PID, vec![said("lock-queue", "7 threads wait for a lock")])];
        all.extend((1..looks).map(|pid| look(pid, vec![])));
        let analysis = grows(0.0, all);
        let found = there(&analysis, FindingId::LockQueue);
        assert_eq!(found.title, format!("{prefix}7 threads wait for a lock"));
        let last = texts(found).pop().expect("four lines");
        assert!(last.contains("stood still for 7.0 ms") && last.contains("`stacks/4711.txt`"), "{last}");
    }
}

/// What a recording of time shows better is left to it.
#[test]
fn of_memory_only_what_time_cannot_show_is_kept() {
    for (id, kept) in [
        ("deadlock", true),
        ("silent-peer", true),
        ("full-channel", true),
        ("never-woken", true),
        ("overview", false),
        ("running", false),
        ("equal-threads", false),
        ("memory-split", false),
        ("cpu-bound", false),
        ("Deadlock", false),
        ("", false),
    ] {
        let analysis = grows(0.0, vec![look(PID, vec![said(id, "read from memory")])]);
        let there = analysis.findings.iter().filter(|one| one.title == "read from memory").count();
        assert_eq!(there, usize::from(kept), "{id}");
        assert!(finding(&analysis, FindingId::Idle).is_some(), "a notice holds nobody back: {id}");
    }
}
