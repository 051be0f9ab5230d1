//! Descriptors that pile up: which, by the lists at start and end, and who opens them.

use crate::ask::{says, texts, there};
use crate::build::{Build, IDLE, PID, Waiting};
use biopsy_analyze::{Analysis, Finding, FindingId, Severity, analyze};

/// Lists of a process at the start and at the end of a recording.
#[derive(Clone, Copy, Default)]
struct Lists<'a> {
    descriptors: Option<[&'a str; 2]>,
    sockets: Option<[&'a str; 2]>,
}

/// A server that has 90 descriptors more after ten seconds than it had, 30 at first.
fn server(lists: Lists<'_>) -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[("fds", &|second| 20.0 + 10.0 * second)],
    );
    for (lists, name) in [(lists.descriptors, "descriptors"), (lists.sockets, "sockets")] {
        for (text, when) in lists.into_iter().flatten().zip(["", "-end"]) {
            build.capture.context.push((format!("target/{PID}/{name}{when}.txt"), text.to_owned()));
        }
    }
    build
}

fn found(analysis: &Analysis) -> &Finding {
    let found = there(analysis, FindingId::DescriptorGrowth);
    assert_eq!(found.severity, Severity::Warning);
    assert!(
        found.title.starts_with("Open files or sockets pile up: from 30 to 120 in 10.0 s"),
        "{}",
        found.title
    );
    found
}

/// So many lines of one kind: `     7  file        /tmp/x`.
fn descriptors(kind: &str, target: &str, count: usize) -> String {
    (0..count).map(|number| format!("{:6}  {kind:<12}{target}\n", number + 3)).collect()
}

#[test]
fn what_there_is_most_more_of_is_named() {
    let of =
        |kind: &str, target: &str, counts: [usize; 2]| counts.map(|count| descriptors(kind, target, count));
    let log = of("file", "/var/log/shop.log", [2, 82]);
    let pipes = of("pipe", "pipe:[77]", [1, 61]);
    let deleted = of("deleted", "/tmp/a b (deleted)", [0, 40]);
    let spaced = of("file", "/tmp/a b.txt  at 512", [3, 43]);
    let events = of("eventfd", "anon_inode:[eventfd]", [0, 50]);
    let few = of("file", "/etc/passwd", [1, 27]);
    let enough = of("file", "/etc/passwd", [1, 28]);
    let fewer = of("file", "/etc/passwd", [90, 3]);
    let same = of("file", "/etc/passwd", [50, 50]);
    for (lists, expected, line) in [
        (
            &log,
            Some("`/var/log/shop.log`"),
            "80 more of `/var/log/shop.log` at the end than at the start: 2 → 82",
        ),
        (
            &pipes,
            Some("descriptors of kind `pipe`"),
            "60 more of descriptors of kind `pipe` at the end than at the start: 1 → 61",
        ),
        (&deleted, Some("descriptors of kind `deleted`"), "0 → 40"),
        (&spaced, Some("`/tmp/a b.txt`"), "40 more of `/tmp/a b.txt` at the end than at the start: 3 → 43"),
        (&events, Some("descriptors of kind `eventfd`"), "0 → 50"),
        // Less than three tenths of what there is more.
        (&few, None, ""),
        (&enough, Some("`/etc/passwd`"), "27 more of"),
        (&fewer, None, ""),
        (&same, None, ""),
    ] {
        let analysis =
            analyze(&server(Lists { descriptors: Some([&lists[0], &lists[1]]), ..Lists::default() }).done());
        let found = found(&analysis);
        let most = found.title.split_once(", most of them ").map(|(_, most)| most);
        assert_eq!(most, expected, "{}", found.title);
        assert!(expected.is_none() || says(found, line), "{line}: {:?}", found.evidence);
    }
    // A name says more than a kind; without a list of the end nothing is known.
    let both = format!("{}{}", log[1], descriptors("pipe", "pipe:[1]", 82));
    let analysis = analyze(&server(Lists { descriptors: Some(["", &both]), ..Lists::default() }).done());
    assert!(found(&analysis).title.contains("most of them `/var/log/shop.log`"));
    let mut build = server(Lists::default());
    build.capture.context.push((format!("target/{PID}/descriptors-end.txt"), both));
    assert!(!found(&analyze(&build.done())).title.contains("most of them"));
}

#[test]
fn connections_that_the_other_end_has_closed_are_told_so() {
    let lines =
        |state: &str, count: usize| format!("{count} sockets\n\n{count:8}  tcp 10.0.0.2:5432 {state}\n");
    for (state, closed) in [("close-wait", true), ("established", false)] {
        let end = lines(state, 85);
        let analysis =
            analyze(&server(Lists { sockets: Some(["0 sockets\n", &end]), ..Lists::default() }).done());
        let found = found(&analysis);
        let most = format!("most of them sockets `tcp 10.0.0.2:5432 {state}`");
        assert!(found.title.contains(&most), "{}", found.title);
        assert_eq!(found.explanation.contains("the other end has closed long ago"), closed, "{state}");
    }
}

#[test]
fn of_what_was_accepted_half_must_be_closed_by_the_other_end() {
    let accepted = |number: usize, closed: bool| {
        let state = if closed { "close-wait" } else { "established" };
        format!(
            "tcp   127.0.0.1:80 -> 127.0.0.1:{} {state} to send 0 to read 0 descriptor 4\n",
            40_000 + number
        )
    };
    for (closed, told) in [(0, false), (44, false), (45, true), (90, true)] {
        let end: String = (0..90).map(|number| accepted(number, number < closed)).collect();
        let analysis = analyze(&server(Lists { sockets: Some(["", &end]), ..Lists::default() }).done());
        let found = found(&analysis);
        assert!(
            found.title.contains("most of them connections that were accepted at `127.0.0.1:80`"),
            "{}",
            found.title
        );
        let words = format!("{closed} of 90 of these are in state CLOSE_WAIT");
        assert_eq!(says(found, &words), told, "{closed}: {:?}", found.evidence);
        assert_eq!(found.explanation.contains("the other end has closed long ago"), told, "{closed}");
    }
}

const OPENS: [&str; 3] = ["libc.so.6!open64", "k:__x64_sys_openat", "k:do_sys_openat2"];

#[test]
fn who_opens_three_tenths_of_them_is_named() {
    // By CPU time in opening: so much below `load_config`, the rest below others.
    for (share, named) in [(0.29, false), (0.31, true), (1.0, true)] {
        let mut build = server(Lists::default());
        build.cpu(PID, 0.1 * share, &[&["server!main", "server!load_config"][..], &OPENS].concat());
        for number in 0..4 {
            let other = format!("server!other_{number}");
            build.cpu(PID, 0.1 * (1.0 - share) / 4.0, &[&["server!main", &other][..], &OPENS].concat());
        }
        let analysis = analyze(&build.done());
        let found = found(&analysis);
        assert_eq!(found.title.ends_with("; opened in `load_config`"), named, "{share}: {}", found.title);
        assert_eq!(says(found, "of the CPU time in opening them is below `load_config`"), named, "{share}");
    }
}

/// Opening may take too little time to be seen.
#[test]
fn who_works_meanwhile_is_the_next_best() {
    for (share, named) in [(0.35, false), (0.45, true)] {
        let mut build = server(Lists::default());
        build.cpu(PID, 0.2 * share, &["server!main", "server!import", "libc.so.6!memcpy"]);
        for number in 0..4 {
            build.cpu(PID, 0.2 * (1.0 - share) / 4.0, &["server!main", &format!("server!other_{number}")]);
        }
        let analysis = analyze(&build.done());
        let found = found(&analysis);
        assert_eq!(
            found.title.ends_with("; most work meanwhile is in `import`"),
            named,
            "{share}: {}",
            found.title
        );
        assert_eq!(says(found, "likely what opens them, for opening itself was not seen"), named, "{share}");
    }
}

/// Who makes pipes all day opens no files: of each kind those who make it are named.
#[test]
fn who_makes_others_does_not_open_what_piles_up() {
    let makers: [(&str, &[&str]); 6] = [
        ("server!open_files", &OPENS),
        ("server!make_pipes", &["libc.so.6!pipe2", "k:__x64_sys_pipe2", "k:do_pipe2"]),
        ("server!make_timers", &["libc.so.6!timerfd_create", "k:__x64_sys_timerfd_create"]),
        ("server!make_events", &["libc.so.6!eventfd", "k:__x64_sys_eventfd2", "k:do_eventfd"]),
        ("server!make_memory", &["libc.so.6!memfd_create", "k:__x64_sys_memfd_create"]),
        ("server!connect_to", &["libc.so.6!connect", "k:__x64_sys_connect", "k:__sys_connect"]),
    ];
    let list = |kind: &str| descriptors(kind, "it", 85);
    let sockets = format!("{:8}  tcp 10.0.0.2:5432 established\n", 85);
    let file = descriptors("file", "/tmp/x", 85);
    for (descriptors, sockets, expected) in [
        (file.as_str(), "", "`open_files`"),
        (list("deleted").as_str(), "", "`open_files`"),
        (list("pipe").as_str(), "", "`make_pipes`"),
        (list("timerfd").as_str(), "", "`make_timers`"),
        (list("eventfd").as_str(), "", "`make_events`"),
        (list("memfd").as_str(), "", "`make_memory`"),
        ("", sockets.as_str(), "`connect_to`"),
    ] {
        let mut build = server(Lists { descriptors: Some(["", descriptors]), sockets: Some(["", sockets]) });
        for (function, frames) in makers {
            build.cpu(PID, 0.03, &[&["server!main", function][..], frames].concat());
        }
        let analysis = analyze(&build.done());
        let found = found(&analysis);
        let by = found.title.rsplit_once("; opened in ").map(|(_, by)| by);
        assert_eq!(by, Some(expected), "{}", found.title);
    }
    // A kind that nobody was seen to make.
    let mut build = server(Lists { descriptors: Some(["", &list("epoll")]), ..Lists::default() });
    for (function, frames) in makers {
        build.cpu(PID, 0.03, &[&["server!main", function][..], frames].concat());
    }
    assert!(!found(&analyze(&build.done())).title.contains("opened in"));
}

/// Who accepts is told by where it waits for connections, where accepting takes no time.
#[test]
fn who_waits_for_connections_accepts_them() {
    let end: String = (0..90)
        .map(|number| {
            format!(
                "tcp   127.0.0.1:80 -> 127.0.0.1:{} established to send 0 descriptor 4\n",
                40_000 + number
            )
        })
        .collect();
    let mut build = server(Lists { sockets: Some(["", &end]), ..Lists::default() });
    // Whoever connects is a thread of the same process.
    build.cpu(PID, 0.05, &["server!main", "server!call_up", "libc.so.6!socket", "k:__sys_socket"]);
    build.thread(100, "acceptor").wait(
        100,
        Waiting {
            stack: &["libc.so.6!start_thread", "server!take_in", "libc.so.6!accept4", "k:inet_csk_accept"],
            ..IDLE
        },
    );
    let analysis = analyze(&build.done());
    let found = found(&analysis);
    assert!(found.title.ends_with("; opened in `take_in`"), "{}", found.title);
    assert!(
        says(found, "of the time in which connections are waited for is below `take_in`"),
        "{:?}",
        texts(found)
    );
}

#[test]
fn how_much_there_is_more_is_what_it_weighs() {
    for (first, each, impact, said) in [
        (20.0, 10.0, 90.0 / 120.0, "600 more descriptors a minute in process 4711 (`server`)"),
        (400.0, 20.0, 180.0 / 600.0, "1,200 more descriptors a minute in process 4711 (`server`)"),
        (0.0, 100.0, 0.9, "6,000 more descriptors a minute in process 4711 (`server`)"),
    ] {
        let mut build = Build::new("server", 10, 4);
        build.thread(PID, "server").machine(0.3);
        let keys = [("pid", "4711"), ("name", "server")];
        build.metric("processes", &keys, &[("fds", &|second| first + each * second)]);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::DescriptorGrowth);
        assert!((found.impact - impact).abs() < 1e-9, "{first} {each}: {}", found.impact);
        assert_eq!(texts(found)[0], said);
    }
}

#[test]
fn who_closes_what_it_opens_is_not_named() {
    // A function of the library that returns no descriptor opens most; what is left is by who keeps them.
    let of = |library: &str| {
        let mut build = server(Lists::default());
        build.cpu(PID, 0.09, &[&["server!main.deliver", library][..], &OPENS].concat());
        build.cpu(PID, 0.01, &[&["server!main.watch", "server!os.OpenFile"][..], &OPENS].concat());
        found(&analyze(&build.done())).title.clone()
    };
    let title = of("server!os.WriteFile");
    assert!(title.ends_with("; opened in `main.watch`"), "{title}");
    let title = of("server!os.Create");
    assert!(title.ends_with("; opened in `main.deliver`"), "{title}");
}
