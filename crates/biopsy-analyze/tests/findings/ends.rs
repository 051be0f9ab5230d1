//! A target that ends while it is recorded: when, what it did last, what was logged and thrown before.

use crate::ask::{says, severity, texts, there};
use crate::build::dotnet::Said;
use crate::build::{Build, IDLE, MS, PID, START};
use biopsy_analyze::Severity::{Info, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::capture::{Capture, EndedBy};
use biopsy_model::log::LogLevel;
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::{Sample, TimelineEvent};
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};

/// Milliseconds after the start at which it ends.
const END: u64 = 4_000;

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
    build
}

/// It ends.
fn ends(mut build: Build) -> Capture {
    let (time, pid) = (MonoNanos(START + END * MS), Pid(PID));
    build.timeline.process_events.push(TimelineEvent::ProcessExit { time, pid });
    build.done()
}

/// On a CPU with this stack at these milliseconds.
fn run(build: &mut Build, tid: u32, stack: &[&str], at: impl Iterator<Item = u64>) {
    let stack = build.stack(stack);
    for time in at.map(|ms| MonoNanos(START + ms * MS)) {
        let (tid, weight) = (Tid(tid), Nanos(MS));
        let sample = Sample { time, tid, cpu: 0, stack, end: StackEnd::Root, weight };
        build.timeline.samples.push(sample);
    }
}

fn title(capture: &Capture) -> String {
    there(&analyze(capture), FindingId::TargetEnded).title.clone()
}

const PARSES: [&str; 3] = ["server!main", "server!serve", "server!parse_line"];

#[test]
fn the_last_third_of_a_second_tells_what_it_did() {
    // Samples of a thread in its last moments, and before and behind them.
    for (name, at, told) in [
        ("three samples", vec![3_800, 3_900, 4_000], true),
        ("two samples", vec![3_900, 4_000], false),
        ("from 0.3 s on", vec![3_700, 3_701, 3_702], true),
        ("before that", vec![3_600, 3_650, 3_699, 3_999], false),
        ("after its end", vec![4_001, 4_002, 4_003, 4_004], false),
    ] {
        let mut build = server();
        run(&mut build, PID, &PARSES, at.into_iter());
        let expected = if told { "; last it ran `parse_line`" } else { "" };
        assert_eq!(
            title(&ends(build)),
            format!("`server` ended 4.0 s into the recording{expected}"),
            "{name}"
        );
    }
}

/// What a thread did for minutes is not what it died of.
#[test]
fn what_it_did_before_is_not_what_it_did_last() {
    let mut build = server();
    run(&mut build, PID, &["server!main", "server!serve", "server!build_index"], 0..3_600);
    run(&mut build, PID, &PARSES, (3_700..4_000).step_by(10));
    assert_eq!(title(&ends(build)), "`server` ended 4.0 s into the recording; last it ran `parse_line`");
}

#[test]
fn the_innermost_function_of_the_program_on_half_of_the_stacks_is_named() {
    let descends = ["server!descend"; 40];
    let stack = |inner: &[&'static str]| [&["server!main"], &descends[..], inner].concat();
    for (name, stacks, expected) in [
        (
            "a function that recurses, and leaves",
            vec![stack(&["server!leaf"]), stack(&["server!twig"]), stack(&[])],
            "descend",
        ),
        ("half of them", vec![stack(&["server!leaf"]), stack(&[])], "leaf"),
        ("in a library", vec![stack(&["libc.so.6!memcpy"])], "descend"),
        ("in the kernel", vec![stack(&["libc.so.6!write", "k:ksys_write"])], "descend"),
    ] {
        let mut build = server();
        for (offset, stack) in (0..).zip(&stacks) {
            run(&mut build, PID, stack, (3_710 + offset..4_000).step_by(20));
        }
        let title = title(&ends(build));
        assert!(title.ends_with(&format!("; last it ran `{expected}`")), "{name}: {title}");
    }
}

#[test]
fn of_many_threads_that_ran_none_stands_for_the_end() {
    for (threads, told) in [(1, true), (4, true), (5, false)] {
        let mut build = server();
        for tid in 100..100 + threads {
            build.thread(tid, "worker");
            run(&mut build, tid, &PARSES, 3_980..4_000);
        }
        assert_eq!(title(&ends(build)).contains("last it ran"), told, "{threads}");
    }
    // Those of the runtime itself are busy at any time.
    for (name, told) in
        [(".NET Tiered Compilation", false), ("C2 CompilerThread0", false), (".NET TP Worker", true)]
    {
        let mut build = server();
        build.thread(100, name);
        run(&mut build, 100, &PARSES, 3_980..4_000);
        assert_eq!(title(&ends(build)).contains("last it ran"), told, "{name}");
    }
}

#[test]
fn the_last_error_before_the_end_is_told() {
    let log = |build: &mut Build, lines: &[(u64, LogLevel, &str)]| {
        let lines: Vec<_> =
            lines.iter().map(|(ms, level, text)| (*ms as f64 / 10_000.0, *level, *text)).collect();
        build.log(&lines);
    };
    use LogLevel::{Error, Info as Notes, Warning as Warns};
    type Lines = &'static [(u64, LogLevel, &'static str)];
    let table: [(&str, &[Lines], Option<&str>); 8] = [
        ("none", &[], None),
        ("just before", &[&[(3_999, Error, "no memory")]], Some("no memory")),
        ("long ago", &[&[(10, Error, "an old one")]], Some("an old one")),
        ("the later one", &[&[(3_000, Error, "the first"), (3_500, Error, "the last")]], Some("the last")),
        ("no error", &[&[(3_900, Warns, "careful"), (3_950, Notes, "fine")]], None),
        // Whoever starts it again says so behind its end.
        ("after it", &[&[(4_100, Error, "it is gone")]], None),
        ("before and after", &[&[(3_900, Error, "its own"), (4_100, Error, "it is gone")]], Some("its own")),
        (
            "in another log",
            &[&[(3_950, Error, "the last")], &[(2_000, Error, "of another log")]],
            Some("the last"),
        ),
    ];
    for (name, logs, expected) in table {
        let mut build = server();
        logs.iter().for_each(|lines| log(&mut build, lines));
        let analysis = analyze(&ends(build));
        let found = there(&analysis, FindingId::TargetEnded);
        let told: Vec<&str> = texts(found)
            .into_iter()
            .filter_map(|text| text.strip_prefix("the last error before: "))
            .collect();
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{name}");
    }
    // Five seconds, of a recording that goes on for longer.
    for (before, told) in [(4_999, true), (5_001, false)] {
        let mut build = server();
        log(&mut build, &[(9_000 - before, Error, "an old one")]);
        let (time, pid) = (MonoNanos(START + 9_000 * MS), Pid(PID));
        build.timeline.process_events.push(TimelineEvent::ProcessExit { time, pid });
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::TargetEnded);
        assert_eq!(says(found, "an old one"), told, "{before} ms before");
    }
}

#[test]
fn who_was_started_for_the_recording_may_end() {
    let executed =
        |pid: u32| TimelineEvent::Exec { time: MonoNanos(START), pid: Pid(pid), name: "x".to_owned() };
    for (event, expected) in [(None, Warning), (Some(executed(PID)), Info), (Some(executed(8)), Warning)] {
        let mut build = server();
        run(&mut build, PID, &PARSES, 3_980..4_000);
        build.timeline.process_events.extend(event.clone());
        let analysis = analyze(&ends(build));
        let found = there(&analysis, FindingId::TargetEnded);
        assert_eq!(found.severity, expected, "{event:?}");
        assert_eq!(found.title.contains("last it ran"), expected == Warning, "{}", found.title);
        assert_eq!(found.impact < 0.5, expected == Info);
    }
}

#[test]
fn only_the_target_ends_the_story() {
    let exits = |pid: u32| {
        let mut build = server();
        let (time, pid) = (MonoNanos(START + END * MS), Pid(pid));
        build.timeline.process_events.push(TimelineEvent::ProcessExit { time, pid });
        build.done()
    };
    let id = FindingId::TargetEnded;
    assert_eq!(severity(&analyze(&exits(PID)), id), Some(Warning));
    assert_eq!(severity(&analyze(&exits(PID + 1)), id), None, "a child of it");
    assert_eq!(severity(&analyze(&server().done()), id), None, "it lives");
    // The recorder saw it, at the end of the recording.
    let mut seen = server().done();
    seen.header.ended_by = EndedBy::TargetExited;
    assert_eq!(title(&seen), "`server` ended 10.0 s into the recording");
    let mut nameless = exits(PID);
    nameless.header.target_name.clear();
    assert_eq!(title(&nameless), "The process ended 4.0 s into the recording");
}

fn with_runtime(mut said: Said) -> Analysis {
    let mut capture = ends(server());
    capture.runtimes.push(said.done());
    analyze(&capture)
}

#[test]
fn an_exception_just_before_the_end_may_be_its_reason() {
    let at = |share: f64| {
        let mut said = Said::new(10);
        said.thrown(share, "System.InvalidOperationException", &["Shop.Orders.Pay"]);
        with_runtime(said)
    };
    let words = "last it threw `System.InvalidOperationException` in `Shop.Orders.Pay`";
    for (share, told) in [(0.399, true), (0.341, true), (0.339, false), (0.41, false), (0.1, false)] {
        let analysis = at(share);
        let found = there(&analysis, FindingId::TargetEnded);
        assert_eq!(found.title.contains(words), told, "{share}: {}", found.title);
        assert_eq!(says(found, "the last exception that was seen"), told, "{share}: {:?}", found.evidence);
        assert!(found.next_steps.iter().any(|step| step.contains("--on unhandled-exception")));
    }
    // One that is thrown all the time says nothing of the end: a line, and no cause.
    let mut said = Said::new(10);
    said.exceptions(5, "System.FormatException", &["Shop.Parser.Parse"]);
    let analysis = with_runtime(said);
    let found = there(&analysis, FindingId::TargetEnded);
    assert_eq!(found.title, "`server` ended 4.0 s into the recording");
    assert!(says(found, "`System.FormatException` in `Shop.Parser.Parse`"), "{:?}", found.evidence);
}

#[test]
fn what_was_thrown_again_has_its_first_place_and_what_came_before_it() {
    let mut said = Said::new(10);
    said.thrown(0.395, "System.IO.IOException", &["Shop.Files.Read"]);
    said.thrown(0.397, "Shop.OrderLost", &["Shop.Orders.Load"]);
    said.thrown(0.399, "Shop.OrderLost", &["Shop.Orders.Await"]);
    let analysis = with_runtime(said);
    let found = there(&analysis, FindingId::TargetEnded);
    let words =
        "`Shop.OrderLost` in `Shop.Orders.Load`, after `System.IO.IOException`, 10.0 ms before the end";
    assert!(says(found, words), "{:?}", found.evidence);
    assert!(
        found.title.ends_with("; last it threw `Shop.OrderLost` in `Shop.Orders.Load`"),
        "{}",
        found.title
    );
}

#[test]
fn the_thread_that_prints_the_stack_tells_that_it_overflowed() {
    for (name, told) in [(".NET Stack over", true), (".NET Stack ove", false), ("Stack overflow", false)] {
        let mut build = server();
        build.thread(100, name);
        let title = title(&ends(build));
        assert_eq!(title.ends_with("; it died of a stack overflow"), told, "{name}: {title}");
    }
}
