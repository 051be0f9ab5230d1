//! CPUs: used by the program itself, by others, or withheld.

use crate::build::{Build, IDLE, IN_LOCK, PID, Waiting};
use crate::{first, no_alarm, outline};
use biopsy_analyze::analyze;

#[test]
fn hot_function() {
    let mut build = Build::new("hot-function", 10, 4);
    let root = ["libc.so.6!__libc_start_main", "hot!main", "hot!deploy_forever"];
    let stack = |more: &[&'static str]| [&root[..], more].concat();
    build.thread(PID, "hot-function").machine(0.26);
    build.cpu(PID, 0.72, &stack(&["hot!verify_package", "hot!compute_checksum_bit_by_bit"]));
    build.cpu(PID, 0.24, &stack(&["hot!verify_manifest", "hot!compute_checksum_bit_by_bit"]));
    build.cpu(PID, 0.03, &stack(&["hot!verify_package"]));
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn hot_library_function_is_named_with_its_caller() {
    let mut build = Build::new("copier", 10, 4);
    build.thread(PID, "copier").machine(0.26);
    build.cpu(
        PID,
        0.9,
        &[
            "libc.so.6!__libc_start_main",
            "copier!main",
            "copier!render_page",
            "libc.so.6!__memmove_avx_unaligned",
        ],
    );
    let analysis = analyze(&build.done());
    assert!(
        analysis.findings[0].title.contains("`render_page` → `__memmove_avx_unaligned`"),
        "{}",
        outline(&analysis)
    );
}

/// On a machine that others use up, what the program would do with a CPU is still seen.
#[test]
fn cpu_bound_and_starved() {
    let mut build = Build::new("victim", 10, 2);
    build.thread(PID, "victim").ready(PID, 0.7).machine(1.0);
    build.cpu(PID, 0.3, &["server!main", "server!work", "server!hash"]);
    let analysis = analyze(&build.done());
    insta::assert_snapshot!(outline(&analysis));
}

/// A thread that gets the CPU for most of the time it wants it is bound by its own code; that others are busy too comes second.
#[test]
fn cpu_bound_beside_busy_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.4).machine(1.0);
    build.cpu(PID, 0.6, &["server!main", "server!work", "server!hash"]);
    let analysis = analyze(&build.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids[..2], ["cpu-bound", "cpu-saturated-by-others"], "{}", outline(&analysis));
    assert!(
        analysis.findings[1].explanation.contains("does not explain"),
        "{}",
        analysis.findings[1].explanation
    );
}

/// Files that pile up are no matter of busy neighbours, however little CPU is left.
#[test]
fn a_leak_beside_busy_others() {
    let mut build = Build::new("victim", 30, 4);
    build.thread(PID, "victim").ready(PID, 0.9).machine(1.0);
    build.cpu(PID, 0.05, &["server!main", "server!open_package"]);
    build.metric(
        "processes",
        &[("pid", &PID.to_string())],
        &[("fds", &|second| 50.0 + 20.0 * second), ("cpu.user", &|_| 0.05)],
    );
    let analysis = analyze(&build.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids[..2], ["descriptor-growth", "cpu-saturated-by-others"], "{}", outline(&analysis));
}

/// A queue for a lock may be what busy neighbours make of a short wait: the larger of the two shares is first, as among all others.
#[test]
fn what_may_be_their_doing_stays_behind_busy_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.9).machine(1.0);
    build.cpu(PID, 0.1, &["server!main", "server!work"]);
    for tid in 1..=4 {
        build.thread(PID + tid, "worker").ready(PID + tid, 0.7);
        build.wait(PID + tid, Waiting { share: 0.3, ..IN_LOCK });
    }
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id.as_str(), "cpu-saturated-by-others", "{}", outline(&analysis));
}

/// Threads that hardly want a CPU are not held back by busy ones.
#[test]
fn busy_neighbours_harm_no_sleeper() {
    for ready in [0.0, 0.02] {
        let mut build = Build::new("sleeper", 10, 2);
        build.thread(PID, "sleeper").ready(PID, ready).machine(1.0).wait(PID, IDLE);
        no_alarm(&analyze(&build.done()));
    }
}

#[test]
fn throttled() {
    let mut build = Build::new("busy-loop", 10, 4);
    build.machine(0.1);
    for tid in [PID, PID + 1] {
        build.thread(tid, "busy-loop").ready(tid, 0.75);
        build.cpu(tid, 0.25, &["libc.so.6!start_thread", "server!count_forever", "server!count_some"]);
    }
    build.metric(
        "cgroups",
        &[("path", "/system.slice/busy.service")],
        &[("throttled.ratio", &|_| 0.98), ("cpu.quota", &|_| 0.5), ("cpu.usage", &|_| 0.5)],
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn saturated_by_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.5).machine(0.99);
    build.cpu(PID, 0.3, &["server!main", "server!work"]);
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

const CLIENTS: &str =
    "1 sockets\n\ntcp   127.0.0.1:8080 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n";

/// A server whose clients ask as fast as it answers: one function has `hot` of its CPU time, sending and receiving `talking`, and forty
/// functions the rest.
fn full_load(hot: f64, talking: f64) -> biopsy_analyze::Analysis {
    let mut build = Build::new("server", 10, 2);
    build.capture.context.push((format!("target/{PID}/sockets.txt"), CLIENTS.to_owned()));
    build.thread(PID, "server").machine(1.0);
    let names: Vec<String> = (0..40).map(|number| format!("server!step_{number}")).collect();
    for name in &names {
        build.cpu(PID, (0.9 - hot - talking) / 40.0, &["server!main", "server!answer", name]);
    }
    for call in ["k:tcp_sendmsg", "k:tcp_ack", "k:ip_output", "k:loopback_xmit", "k:copy_from_iter"] {
        let stack = ["server!main", "server!answer", "libc.so.6!write", "k:sock_write_iter", call];
        build.cpu(PID, talking / 5.0, &stack);
    }
    build.cpu(PID, hot, &["server!main", "server!answer", "server!count_duplicates"]);
    analyze(&build.done())
}

#[test]
fn a_server_at_full_load_is_busy_and_not_sick() {
    let analysis = full_load(0.0, 0.2);
    no_alarm(&analysis);
    let first = &analysis.findings[0];
    assert_eq!(first.id.as_str(), "cpu-bound", "{}", outline(&analysis));
    assert!(first.title.starts_with("Busy answering"), "{}", first.title);
    assert!(first.evidence[1].text.contains("spread over"), "{:?}", first.evidence);
}

/// One function that takes half of it, or hardly anything that is sent: the same server is one to look into.
#[test]
fn a_server_with_a_hot_function_is_sick_at_full_load_too() {
    for (hot, talking) in [(0.5, 0.2), (0.0, 0.03)] {
        let analysis = full_load(hot, talking);
        let first = &analysis.findings[0];
        assert_eq!(
            (first.id.as_str(), first.severity),
            ("cpu-bound", biopsy_analyze::Severity::Warning),
            "{}",
            outline(&analysis)
        );
        assert!(first.title.starts_with("CPU-bound"), "{}", first.title);
    }
}
