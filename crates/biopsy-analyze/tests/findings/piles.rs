//! Threads and processes that pile up: who starts them, what they wait for, and pools that only fill.

use crate::ask::{says, severity, texts, there};
use crate::build::{Build, IDLE, PID, START, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{Critical, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::timeline::{TimelineEvent, WaitState};
use biopsy_model::{MonoNanos, Pid};

/// So many threads of this name that are started one after the other, by whom.
fn starts(name: &str, count: u32, by: Option<u32>, more: &dyn Fn(&mut Build)) -> Analysis {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.1);
    for number in 0..count {
        let born = (f64::from(number) + 0.5) / f64::from(count);
        build.life(1_000 + number, name, Some(born), by);
    }
    more(&mut build);
    analyze(&build.done())
}

fn title(analysis: &Analysis) -> &str {
    &there(analysis, FindingId::RunawayThreads).title
}

#[test]
fn who_starts_threads_is_named_as_well_as_it_is_known() {
    let spawns = |build: &mut Build| {
        build.cpu(
            PID,
            0.05,
            &["server!main", "server!on_request", "libc.so.6!pthread_create", "k:__x64_sys_clone3"],
        );
    };
    let analysis = starts("handler", 40, Some(PID), &spawns);
    assert!(
        title(&analysis).ends_with("from 1 to 41 in 10.0 s, started by `on_request`"),
        "{}",
        title(&analysis)
    );
    // Where starting was not seen, what its thread does most.
    let works = |share: f64| {
        move |build: &mut Build| {
            build.cpu(PID, 0.2 * share, &["server!main", "server!dispatch", "libc.so.6!memcpy"]);
            for number in 0..3 {
                let other = format!("server!other_{number}");
                build.cpu(PID, 0.2 * (1.0 - share) / 3.0, &["server!main", &other, "libc.so.6!memcpy"]);
            }
        }
    };
    let by_thread = ", started by thread 4711 (`server`)";
    let analysis = starts("handler", 40, Some(PID), &works(0.45));
    assert!(
        title(&analysis).ends_with(&format!("{by_thread}, most likely in `dispatch`")),
        "{}",
        title(&analysis)
    );
    let analysis = starts("handler", 40, Some(PID), &works(0.35));
    assert!(title(&analysis).ends_with(by_thread), "{}", title(&analysis));
    // Or where it waits.
    let waits = |build: &mut Build| {
        build.wait(PID, IDLE);
    };
    let analysis = starts("handler", 40, Some(PID), &waits);
    assert!(
        title(&analysis).ends_with(&format!("{by_thread}, most likely in `event_loop`")),
        "{}",
        title(&analysis)
    );
    let found = there(&analysis, FindingId::RunawayThreads);
    assert!(says(found, "thread 4711 (`server`) started 40 of them"), "{:?}", texts(found));
    // Nobody knows.
    let analysis = starts("handler", 40, None, &|_| {});
    assert!(title(&analysis).ends_with("from 1 to 41 in 10.0 s"), "{}", title(&analysis));
}

#[test]
fn what_new_threads_wait_for_is_told() {
    let waits = |build: &mut Build| {
        for tid in 1_000..1_040 {
            let stack = &[
                "libc.so.6!start_thread",
                "server!call_out",
                "libc.so.6!recv",
                "k:tcp_recvmsg",
                "k:sk_wait_data",
            ];
            let state = WaitState::Sleep;
            build.wait(
                tid,
                Waiting { stack, syscall: call::RECVFROM, state, share: 0.3, each_ms: 100.0, waker: Some(0) },
            );
        }
    };
    let analysis = starts("handler", 40, None, &waits);
    assert!(title(&analysis).ends_with("; they wait in `call_out`"), "{}", title(&analysis));
    let found = there(&analysis, FindingId::RunawayThreads);
    assert!(says(found, "40 of the new threads are called `handler`"), "{:?}", texts(found));
    assert!(says(found, "they wait in `call_out` for a peer (socket)"), "{:?}", texts(found));
    assert!(
        texts(found)[0].starts_with("threads: 1 at the start, 41 at the end, 240 more a minute"),
        "{:?}",
        texts(found)
    );
}

/// A pool that fills is bounded by its runtime; so are threads that are there because somebody listens.
#[test]
fn pools_and_the_runtimes_own_threads_are_no_pile() {
    let id = FindingId::RunawayThreads;
    for (name, count, expected) in [
        ("handler", 40, Some(Warning)),
        (".NET TP Worker", 40, None),
        (".NET ThreadPool", 40, None),
        (".NET EventPipe", 40, None),
        ("C2 CompilerThread", 40, None),
        // As many as no load of a healthy server needs.
        (".NET TP Worker", 98, None),
        (".NET TP Worker", 120, Some(Critical)),
        (".NET EventPipe", 120, None),
    ] {
        let analysis = starts(name, count, Some(PID), &|_| {});
        assert_eq!(severity(&analysis, id), expected, "{name} {count}:\n{}", outline(&analysis));
    }
}

#[test]
fn a_limit_is_near_where_there_are_a_hundred_and_three_times_as_many() {
    for (before, born, expected) in
        [(0, 98, Some(Warning)), (0, 99, Some(Critical)), (49, 99, Some(Warning)), (48, 100, Some(Critical))]
    {
        let more = |build: &mut Build| {
            for tid in 100..100 + before {
                build.thread(tid, "old");
            }
        };
        let analysis = starts("handler", born, Some(PID), &more);
        // With the main thread there are so many at first.
        let which = format!("{} + {born}:\n{}", before + 1, outline(&analysis));
        assert_eq!(severity(&analysis, FindingId::RunawayThreads), expected, "{which}");
    }
}

/// Threads that sleep in short steps, and do something between their sleeps or not.
#[test]
fn who_works_between_its_sleeps_keeps_a_pace() {
    let sleeps = &["server!main", "server!poll_for_work", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
    let writes =
        &["server!main", "server!save", "libc.so.6!fsync", "k:jbd2_log_wait_commit", "k:io_schedule"];
    let asks = &["server!main", "server!fetch", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
    let (sleep, disk) = (WaitState::Sleep, WaitState::Disk);
    for (name, running, other, expected) in [
        ("looks and sleeps", 0.02, None, Some(Notice)),
        ("computes a little", 0.24, None, Some(Notice)),
        ("computes", 0.26, None, None),
        ("hardly writes", 0.02, Some((&writes[..], call::FSYNC, disk, 0.09)), Some(Notice)),
        ("writes", 0.02, Some((&writes[..], call::FSYNC, disk, 0.11)), None),
        ("asks others", 0.02, Some((&asks[..], call::RECVFROM, sleep, 0.2)), None),
    ] {
        let mut build = Build::new("server", 10, 4);
        build.thread(PID, "server").machine(0.1).cpu(PID, running, &["server!main", "server!poll_for_work"]);
        let waits = Waiting {
            stack: sleeps,
            syscall: call::NANOSLEEP,
            state: sleep,
            share: 0.6,
            each_ms: 10.0,
            waker: Some(0),
        };
        build.wait(PID, waits);
        if let Some((stack, syscall, state, share)) = other {
            build.wait(PID, Waiting { stack, syscall, state, share, each_ms: 5.0, waker: Some(0) });
        }
        let analysis = analyze(&build.done());
        assert_eq!(severity(&analysis, FindingId::SleepLoop), expected, "{name}:\n{}", outline(&analysis));
    }
}

#[test]
fn threads_that_sleep_at_one_place_are_counted() {
    for (threads, told) in [(1, None), (3, Some("3 threads sleep at the same place"))] {
        let mut build = Build::new("server", 10, 4);
        build.machine(0.1);
        for tid in 100..100 + threads {
            let stack =
                &["server!main", "server!poll_for_work", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
            let state = WaitState::Sleep;
            let waits =
                Waiting { stack, syscall: call::NANOSLEEP, state, share: 0.9, each_ms: 10.0, waker: Some(0) };
            build.thread(tid, "poller").wait(tid, waits);
        }
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::SleepLoop);
        assert_eq!(found.title, "Sleeping in a loop in `poll_for_work`: 90 % of the time, 90 times a second");
        let line = texts(found).into_iter().find(|text| text.contains("same place"));
        assert_eq!(line, told);
    }
}

/// Children that are born and end, evenly over ten seconds: how many, how long they live, and whether they execute a program.
fn children(count: u32, life_ms: u64, name: Option<&str>) -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    for number in 0..count {
        let time = MonoNanos(START + u64::from(number) * (9_500_000_000 / u64::from(count)));
        let pid = Pid(10_000 + number);
        let events = &mut build.timeline.process_events;
        events.push(TimelineEvent::ProcessStart { time, pid, parent: Pid(PID) });
        events.extend(name.map(|name| TimelineEvent::Exec { time, pid, name: name.to_owned() }));
        let time = MonoNanos(time.0 + life_ms * 1_000_000);
        events.push(TimelineEvent::ProcessExit { time, pid });
    }
    build
}

#[test]
fn short_lived_processes_are_a_warning_where_somebody_waits_for_them() {
    let waits = |share: f64| Waiting {
        stack: &["server!main", "server!run_hook", "libc.so.6!waitpid", "k:do_wait"],
        syscall: 61,
        state: WaitState::Sleep,
        share,
        each_ms: 8.0,
        waker: Some(0),
    };
    // A second, life in milliseconds, and the share of the time that is waited for them.
    for (rate, life_ms, waited, expected) in [
        (7, 5, 0.8, None),
        (9, 5, 0.8, Some(Notice)),
        (19, 5, 0.8, Some(Notice)),
        (21, 5, 0.8, Some(Warning)),
        (21, 5, 0.32, Some(Warning)),
        (21, 5, 0.28, Some(Notice)),
        (30, 249, 0.8, Some(Warning)),
        (30, 251, 0.8, None),
    ] {
        let mut build = children(rate * 10, life_ms, Some("sh"));
        build.wait(PID, waits(waited));
        let analysis = analyze(&build.done());
        let which = format!("{rate} {life_ms} {waited}:\n{}", outline(&analysis));
        assert_eq!(severity(&analysis, FindingId::ShortLivedProcesses), expected, "{which}");
    }
}

#[test]
fn what_is_started_is_told_by_its_name_or_as_a_copy() {
    for (name, words) in [(Some("convert"), "(`convert`)"), (None, "(`a copy of itself`)")] {
        let analysis = analyze(&children(300, 5, name).done());
        let found = there(&analysis, FindingId::ShortLivedProcesses);
        assert_eq!(
            found.title,
            format!(
                "Short-lived processes: `server` starts 30 a second {words}, each ends after some 5.0 ms"
            )
        );
        assert!(
            texts(found)[0].starts_with(&format!("300 processes {words} were started and ended in 10.0 s")),
            "{:?}",
            texts(found)
        );
    }
    // Those that live on are no short ones, and those that were there before are not counted.
    let mut build = children(300, 5, Some("sh"));
    build.timeline.process_events.retain(|event| !matches!(event, TimelineEvent::ProcessStart { .. }));
    assert_eq!(severity(&analyze(&build.done()), FindingId::ShortLivedProcesses), None);
}
