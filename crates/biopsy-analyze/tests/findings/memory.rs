//! Memory that grows: what makes a notice of it, when the end is near, who is named; and native memory that stays where it was allocated.

use crate::ask::{finding, says, severity, texts, there};
use crate::build::{Build, IDLE, MS, PID, START};
use crate::outline;
use biopsy_analyze::Severity::{self, Critical, Info, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::{Allocation, AllocationWatch, Release};
use biopsy_model::{Avma, MonoNanos, Pid, Tid};

const SERVER: [(&str, &str); 2] = [("pid", "4711"), ("name", "server")];

/// A server whose own memory goes by `course`, in bytes by second.
fn server(seconds: u64, course: &dyn Fn(f64) -> f64) -> Build {
    let mut build = Build::new("server", seconds, 4);
    build.thread(PID, "server").machine(0.1);
    build.metric("processes", &SERVER, &[("memory.anon", course)]);
    build
}

fn steady(second: f64) -> f64 {
    50e6 + 2e6 * second
}

fn of(build: Build) -> (Severity, Analysis) {
    let analysis = analyze(&build.done());
    (there(&analysis, FindingId::MemoryGrowth).severity, analysis)
}

#[test]
fn what_the_growth_is_and_where_it_leads_is_said_in_numbers() {
    let (severity, analysis) = of(server(60, &steady));
    let found = there(&analysis, FindingId::MemoryGrowth);
    assert_eq!(severity, Warning, "there is room for an hour and more");
    assert_eq!(found.title, "Memory grows steadily: 52 MB → 170 MB in 60.0 s (120 MB a minute)");
    assert_eq!(
        texts(found)[0],
        "anonymous memory (heap, stacks) of process 4711 (`server`) rose from 52 MB to 170 MB, 120 MB a minute, in a nearly straight line"
    );
    // 9 GB at 2 MB a second.
    assert!(
        says(found, "at this rate the end of the machine's memory is reached in about 75.0 min"),
        "{:?}",
        found.evidence
    );
    assert!((found.impact - 118.0 / 170.0).abs() < 1e-9, "{}", found.impact);
}

/// Limits that are near, and which of several is the nearest.
#[test]
fn the_nearest_limit_is_the_one_that_counts() {
    // Room of two cgroups, in MB; 2 MB a second, and 9 GB of the machine.
    for (rooms, expected, name) in [
        ([20_000.0, 30_000.0], Warning, "the end of the machine's memory"),
        ([6_000.0, 30_000.0], Critical, "the limit of cgroup `/a`"),
        ([30_000.0, 300.0], Critical, "the limit of cgroup `/b`"),
        ([-50.0, 300.0], Critical, "the limit of cgroup `/a`"),
    ] {
        let mut build = server(60, &steady);
        for (key, room) in ["/a", "/b"].into_iter().zip(rooms) {
            let room = room * 1e6;
            let columns: [(&str, &dyn Fn(f64) -> f64); 2] =
                [("memory.limit", &|_| 80e9), ("memory.current", &|_| 80e9 - room)];
            build.metric("cgroups", &[("cgroup", key)], &columns);
        }
        let (severity, analysis) = of(build);
        let found = there(&analysis, FindingId::MemoryGrowth);
        assert_eq!(severity, expected, "{rooms:?}");
        assert!(
            says(found, &format!("at this rate {name} is reached in about")),
            "{rooms:?}: {:?}",
            found.evidence
        );
    }
}

/// A compiler, a sort: it takes the memory that its work needs, and ends.
#[test]
fn a_job_that_computes_and_answers_nobody_may_take_what_it_needs() {
    const JOB: &str = "it computes all the time and answers nobody";
    let listens = "tcp   127.0.0.1:80 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n";
    for (running, sockets, job) in [
        (0.65, Some(""), true),
        (0.55, Some(""), false),
        (0.95, Some(listens), false),
        // Whether it answers was not recorded.
        (0.95, None, false),
    ] {
        let mut build = server(60, &steady);
        build.cpu(PID, running, &["server!main", "server!compile"]);
        build
            .capture
            .context
            .extend(sockets.map(|sockets| (format!("target/{PID}/sockets.txt"), sockets.to_owned())));
        let (severity, analysis) = of(build);
        assert_eq!(severity, if job { Notice } else { Warning }, "{running} {sockets:?}");
        assert_eq!(says(there(&analysis, FindingId::MemoryGrowth), JOB), job, "{running} {sockets:?}");
    }
}

/// What filled up until shortly before the end has come to its bound.
#[test]
fn what_rests_at_the_end_is_a_notice() {
    for (fills, rests) in [(48.0, true), (58.0, false), (60.0, false)] {
        let (severity, analysis) = of(server(60, &|second: f64| 50e6 + 2e6 * second.min(fills)));
        assert_eq!(severity, if rests { Notice } else { Warning }, "{fills}");
        let words = "it did not rise any more in the last part of the recording";
        assert_eq!(says(there(&analysis, FindingId::MemoryGrowth), words), rests, "{fills}");
    }
}

#[test]
fn who_touches_new_pages_first_is_named_from_two_fifths_on() {
    let faults = ["libc.so.6!memset", "k:asm_exc_page_fault", "k:handle_mm_fault", "k:clear_page_erms"];
    for (share, named) in [(0.38, false), (0.42, true), (1.0, true)] {
        let mut build = server(60, &steady);
        build.cpu(PID, 0.05 * share, &[&["server!main", "server!remember"][..], &faults].concat());
        for number in 0..3 {
            let other = format!("server!other_{number}");
            build.cpu(PID, 0.05 * (1.0 - share) / 3.0, &[&["server!main", &other][..], &faults].concat());
        }
        let (_, analysis) = of(build);
        let found = there(&analysis, FindingId::MemoryGrowth);
        let by = found.title.ends_with("; most of it is first touched below `remember`");
        assert_eq!(by, named, "{share}: {}", found.title);
        assert!(says(found, "of the CPU time in page faults is below `remember`"), "a line in any case");
        assert!(found.next_steps.iter().any(|step| step.contains("where new pages are first touched")));
    }
}

/// A closure has no name to look for: who has it is named, where that is the program.
#[test]
fn a_closure_that_touches_pages_is_told_by_who_has_it() {
    let faults = ["libc.so.6!memset", "k:asm_exc_page_fault", "k:handle_mm_fault", "k:clear_page_erms"];
    for (stack, named) in [
        (&["server!main", "server!remember", "server!(anonymous)"][..], "below `remember`"),
        (&["server!(anonymous)"][..], "below `(anonymous)`"),
    ] {
        let mut build = server(60, &steady);
        build.cpu(PID, 0.05, &[stack, &faults].concat());
        let (_, analysis) = of(build);
        let found = there(&analysis, FindingId::MemoryGrowth);
        assert!(found.title.ends_with(named), "{}", found.title);
    }
}

/// Of several processes the one that grows most.
#[test]
fn the_process_that_grows_most_is_told() {
    let mut build = Build::new("server", 60, 4);
    build.thread(PID, "server").machine(0.1);
    for (pid, each) in [("7", 1e6), ("8", 4e6), ("9", 2e6)] {
        build.metric(
            "processes",
            &[("pid", pid), ("name", "worker")],
            &[("memory.anon", &|second| 50e6 + each * second)],
        );
    }
    let (_, analysis) = of(build);
    assert!(says(there(&analysis, FindingId::MemoryGrowth), "of process 8 (`worker`) rose from"));
}

/// Native memory, of which so many MB are allocated below each of these functions, in so many samples, and of which so much stays.
struct Native<'a> {
    places: &'a [(&'a str, f64, u64, f64)],
    seconds: u64,
    /// Share of the time that was watched.
    watched: f64,
}

fn allocates(native: &Native<'_>, grows: bool) -> Analysis {
    let mut build = Build::new("server", native.seconds, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
    let course = |second: f64| 50e6 + if grows { 2e6 * second } else { 0.0 };
    build.metric("processes", &SERVER, &[("memory.anon", &course)]);
    let mut address = 0;
    let mut bytes = 0;
    for (name, mb, samples, stays) in native.places {
        let function = format!("server!{name}");
        let stack = build.stack(&["server!main", &function, "libc.so.6!malloc"]);
        let weight = (mb * 1e6) as u64 / samples;
        for number in 0..*samples {
            address += 16;
            bytes += weight;
            let (time, pid) = (MonoNanos(START + (number + 1) * MS), Pid(PID));
            let end = StackEnd::Root;
            let one = Allocation {
                time,
                pid,
                tid: Tid(PID),
                stack,
                end,
                address: Avma(address),
                size: weight,
                weight,
            };
            build.timeline.allocations.push(one);
            if (number as f64) < *samples as f64 * (1.0 - stays) {
                let time = MonoNanos(START + native.seconds * 900 * MS);
                build.timeline.releases.push(Release { time, pid, address: Avma(address) });
            }
        }
    }
    let whole = native.seconds as f64 * 1e9;
    let to = MonoNanos(START + (whole * native.watched) as u64);
    let end = MonoNanos(START + whole as u64);
    let from = MonoNanos(START);
    // A pause is one between two looks.
    let mut watch = |from, to, bytes| {
        build.timeline.allocation_watches.push(AllocationWatch {
            from,
            to,
            released_to: to,
            calls: 1,
            bytes,
            interval: 1_000,
        });
    };
    if native.watched < 1.0 {
        watch(from, to, bytes);
        watch(end, end, 0);
    } else {
        watch(from, end, bytes);
    }
    analyze(&build.done())
}

#[test]
fn native_memory_that_stays_is_told_from_its_thresholds_on() {
    let id = FindingId::KeptAllocations;
    // MB at one place, samples, share that stays; seconds, and whether the process grows.
    for (mb, samples, stays, seconds, grows, expected) in [
        (20.0, 100, 1.0, 60, true, Some(Warning)),
        (20.0, 100, 1.0, 60, false, Some(Notice)),
        // Samples that stay.
        (20.0, 9, 1.0, 60, true, None),
        (20.0, 10, 1.0, 60, true, Some(Warning)),
        // Bytes that stay, in all and in a minute.
        (0.9, 100, 1.0, 60, true, None),
        (1.1, 100, 1.0, 60, true, Some(Warning)),
        (0.9, 100, 1.0, 30, true, None),
        (2.9, 100, 1.0, 180, true, None),
        (3.1, 100, 1.0, 180, true, Some(Warning)),
        // Of what is allocated there half must stay: what is in use for a moment is there at any.
        (20.0, 100, 0.49, 60, true, None),
        (20.0, 100, 0.51, 60, true, Some(Warning)),
    ] {
        let places = [("store", mb, samples, stays)];
        let analysis = allocates(&Native { places: &places, seconds, watched: 1.0 }, grows);
        let which = format!("{mb} MB, {samples}, {stays}, {seconds} s, {grows}:\n{}", outline(&analysis));
        assert_eq!(severity(&analysis, id), expected, "{which}");
        // Who allocates it says more than that there is more of it.
        if expected == Some(Warning) {
            assert_eq!(severity(&analysis, FindingId::MemoryGrowth), Some(Notice), "{which}");
        }
    }
}

#[test]
fn one_place_must_have_a_quarter_of_what_stays() {
    for (share, told) in [(0.24, false), (0.26, true)] {
        let rest = (1.0 - share) / 4.0;
        let others = ["a", "b", "c", "d"].map(|name| (name, 40.0 * rest, 100, 1.0));
        let places = [&[("store", 40.0 * share, 100, 1.0)][..], &others].concat();
        let analysis = allocates(&Native { places: &places, seconds: 60, watched: 1.0 }, true);
        let found = finding(&analysis, FindingId::KeptAllocations);
        assert_eq!(found.is_some(), told, "{share}:\n{}", outline(&analysis));
        assert!(found.is_none_or(|found| (found.impact - share).abs() < 0.01));
    }
}

#[test]
fn what_stays_is_said_in_numbers() {
    let places = [("store", 20.0, 100, 1.0), ("parse", 400.0, 1_000, 0.0)];
    let analysis = allocates(&Native { places: &places, seconds: 60, watched: 1.0 }, true);
    let found = there(&analysis, FindingId::KeptAllocations);
    assert_eq!(found.title, "20 MB allocated in `store` were not given back within 60.0 s");
    assert_eq!(
        texts(found)[0],
        "20 MB were allocated there and 100 % of them, 20 MB, not given back (100 samples); in all 420 MB were allocated and 20 MB not \
         given back"
    );
    assert_eq!(texts(found)[1], "the stack with most of it: `malloc` ← `store` ← `main`");
    assert!(says(found, "meanwhile the memory of the process grew by 118 MB"), "{:?}", found.evidence);
    assert!(!says(found, "allocations were watched for"), "they were watched all the time");
}

#[test]
fn what_was_watched_for_a_part_of_the_time_is_an_estimate() {
    let places = [("store", 20.0, 100, 1.0)];
    let analysis = allocates(&Native { places: &places, seconds: 60, watched: 0.5 }, true);
    let found = there(&analysis, FindingId::KeptAllocations);
    assert!(
        found.title.starts_with("40 MB allocated in `store`"),
        "half of the time, so twice as much: {}",
        found.title
    );
    assert!(says(found, "allocations were watched for 50 % of the time"), "{:?}", found.evidence);
}

/// A profile of another tool that sums up what is in use, and knows no time.
#[test]
fn memory_in_use_of_a_profile_names_where_most_was_allocated() {
    let id = FindingId::MemoryInUse;
    for (share, title) in [
        (0.24, "No one place allocated most of the memory in use (100 MB); the first is `store` with 24 %"),
        (0.26, "26 % of the memory in use (100 MB) was allocated in `store`"),
        (1.0, "100 % of the memory in use (100 MB) was allocated in `store`"),
    ] {
        let rest = (1.0 - share) / 4.0;
        let others = ["a", "b", "c", "d"].map(|name| (name, 100.0 * rest, 10, 1.0));
        let places = [&[("store", 100.0 * share, 10, 1.0)][..], &others].concat();
        let places: Vec<_> = places.into_iter().filter(|place| place.1 > 0.0).collect();
        let mut build = Build::new("server", 0, 4);
        let mut bytes = 0;
        for (name, mb, samples, _) in &places {
            let stack = build.stack(&["server!main", &format!("server!{name}")]);
            let weight = (mb * 1e6) as u64 / samples;
            for _ in 0..*samples {
                bytes += weight;
                let (time, address) = (MonoNanos(START), Avma(bytes));
                let (pid, tid, end) = (Pid(PID), Tid(0), StackEnd::Root);
                let one = Allocation { time, pid, tid, stack, end, address, size: weight, weight };
                build.timeline.allocations.push(one);
            }
        }
        let (from, to) = (MonoNanos(START), MonoNanos(START));
        let watch = AllocationWatch { from, to, released_to: to, calls: 50, bytes, interval: 1 };
        build.timeline.allocation_watches.push(watch);
        let analysis = analyze(&build.done());
        let found = there(&analysis, id);
        assert_eq!((found.severity, found.title.as_str()), (Info, title));
        assert_eq!(severity(&analysis, FindingId::KeptAllocations), None, "nobody knows since when");
        assert!((found.impact - share).abs() < 0.01, "{}", found.impact);
    }
}
