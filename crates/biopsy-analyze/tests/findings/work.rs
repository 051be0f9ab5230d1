//! What is said of CPU time: which kind of work it goes to, in which function, how much of the machine that is, and what a process is kept
//! from.

use crate::ask::{finding, says, severity, texts, there};
use crate::build::{Build, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, Reference, analyze};
use biopsy_model::timeline::WaitState;

const ROOT: [&str; 2] = ["server!main", "server!answer"];

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    build
}

/// It runs 80 % of the time: these shares of that below these functions, the rest in its own.
fn spends(parts: &[(&[&str], f64)]) -> Analysis {
    let mut build = server();
    let rest = 1.0 - parts.iter().map(|part| part.1).sum::<f64>();
    build.cpu(PID, 0.8 * rest, &ROOT);
    for (stack, share) in parts {
        build.cpu(PID, 0.8 * share, &[&ROOT[..], stack].concat());
    }
    analyze(&build.done())
}

/// The line on a kind of work, with its share and with who calls it.
fn line<'a>(analysis: &'a Analysis, words: &str) -> Option<&'a str> {
    texts(there(analysis, FindingId::CpuBound)).into_iter().find(|text| text.contains(words))
}

#[test]
fn each_kind_of_work_is_said_in_words_with_who_calls_it() {
    /// Innermost functions, and what they are called.
    type Kind = (&'static [&'static str], &'static str, &'static str);
    let kinds: [Kind; 22] = [
        (&["libz.so.1!inflate_fast"], "compressing and unpacking", "inflate_fast"),
        (&["libzstd.so.1!ZSTD_compressBlock"], "compressing and unpacking", "ZSTD_compressBlock"),
        (&["server!longest_match"], "compressing and unpacking", "longest_match"),
        (&["libnode.so!v8::internal::JsonParser::Parse"], "turning objects into text or bytes and back", ""),
        (&["jit!com.google.gson.Gson.toJson"], "turning objects into text or bytes and back", ""),
        (&["libclrjit.so!jitNativeCode"], "compiling code or patterns while the program runs", ""),
        (&["libjvm.so!C2Compiler::compile_method"], "compiling code or patterns while the program runs", ""),
        (&["libcrypto.so.3!EVP_DigestUpdate"], "cryptography", "EVP_DigestUpdate"),
        (&["jit!java.security.MessageDigest.update"], "cryptography", ""),
        (&["libc.so.6!qsort_r"], "sorting", "qsort_r"),
        (&["jit!java.util.TimSort.mergeLo"], "sorting", ""),
        (&["libc.so.6!__memmove_evex_unaligned_erms"], "copying and moving memory", ""),
        (&["jit!System.Array.Resize"], "copying and moving memory", ""),
        (&["jit!System.String.Concat"], "joining texts, which copies them", ""),
        (&["libc.so.6!strcat"], "joining texts, which copies them", "strcat"),
        (&["libc.so.6!__strstr_sse2_unaligned"], "searching texts or lists from one end to the other", ""),
        (&["jit!java.util.ArrayList.indexOf"], "searching texts or lists from one end to the other", ""),
        (&["libc.so.6!__vfprintf_internal"], "formatting text", ""),
        (&["jit!java.util.HashMap.getNode"], "looking things up in tables", ""),
        (&["[vdso]!__vdso_clock_gettime"], "reading the clock", ""),
        (
            &["libc.so.6!clock_gettime", "k:do_syscall_64", "k:__x64_sys_clock_gettime"],
            "reading the clock",
            "",
        ),
        (&["server!std::this_thread::yield", "libc.so.6!sched_yield"], "a busy wait", ""),
    ];
    for (frames, words, entry) in kinds {
        let analysis = spends(&[(frames, 0.5)]);
        let line =
            line(&analysis, words).unwrap_or_else(|| panic!("{frames:?}:\n{:?}", analysis.findings[0]));
        assert!(line.starts_with("50 % of the CPU time is "), "{frames:?}: {line}");
        assert!(line.ends_with(", most of it below `answer`"), "{frames:?}: {line}");
        assert!(line.contains(&format!("(`{entry}")), "{frames:?}: {line}");
        // It says what is done, and not that it is wrong.
        assert_eq!(there(&analysis, FindingId::CpuBound).severity, Warning);
    }
}

/// The program's own functions may be called as they like: their work is its own.
#[test]
fn functions_of_the_program_that_only_sound_so_are_its_own_work() {
    for name in [
        "sorted_orders",
        "search_all",
        "free_list",
        "copy_of",
        "format_line",
        "lookup",
        "clock",
        "yield_price",
        "inflated",
    ] {
        let frame = format!("server!{name}");
        let analysis = spends(&[(&[frame.as_str()], 0.9)]);
        let found = there(&analysis, FindingId::CpuBound);
        assert!(
            found.title.starts_with(&format!("CPU-bound in `{name}` (90 % of its CPU time)")),
            "{}",
            found.title
        );
        assert!(!says(found, ", most of it below"), "{name}: {:?}", found.evidence);
    }
}

#[test]
fn of_the_kinds_of_work_two_are_told_that_are_a_tenth_each() {
    let (copies, sorts, formats): (&[&str], &[&str], &[&str]) =
        (&["libc.so.6!memcpy"], &["libc.so.6!qsort"], &["libc.so.6!snprintf"]);
    for (share, told) in [(0.09, false), (0.11, true)] {
        let analysis = spends(&[(copies, share)]);
        assert_eq!(line(&analysis, "copying and moving").is_some(), told, "{share}");
    }
    let analysis = spends(&[(copies, 0.2), (sorts, 0.3), (formats, 0.25)]);
    let kinds = ["sorting", "formatting text", "copying and moving"];
    assert_eq!(kinds.map(|kind| line(&analysis, kind).is_some()), [true, true, false]);
    let all = texts(there(&analysis, FindingId::CpuBound)).join("\n");
    assert!(all.find("is sorting") < all.find("is formatting text"), "most first:\n{all}");
}

#[test]
fn the_function_with_a_fifth_of_the_time_is_named_and_else_what_most_is_below() {
    // So many functions share the time of `answer`.
    let title = |root: &[&str], functions: usize| {
        let mut build = server();
        for number in 0..functions {
            let name = format!("server!step_{number}");
            build.cpu(PID, 0.8 / functions as f64, &[root, &[&name]].concat());
        }
        there(&analyze(&build.done()), FindingId::CpuBound).title.clone()
    };
    let deep = ["server!main", "server!serve", "server!answer"];
    assert_eq!(title(&deep, 4), "CPU-bound in `step_0` (25 % of its CPU time): `server` uses 0.8 cores");
    assert_eq!(title(&deep, 5), "CPU-bound in `step_0` (20 % of its CPU time): `server` uses 0.8 cores");
    assert_eq!(
        title(&deep, 8),
        "CPU-bound in the calls of `answer` (100 % of its CPU time): `server` uses 0.8 cores"
    );
    // What a thread begins with holds all of its time: to say so helps nobody.
    assert_eq!(title(&ROOT, 8), "CPU-bound: `server` uses 0.8 cores");
    assert_eq!(title(&[], 8), "CPU-bound: `server` uses 0.8 cores");
}

#[test]
fn who_calls_the_hot_function_is_told_from_three_tenths_on() {
    // Of the calls of `hash` so much is from `import`, and the rest from others.
    for (share, named) in [(0.29, false), (0.31, true), (1.0, true)] {
        let mut build = server();
        build.cpu(PID, 0.8 * share, &["server!main", "server!import", "server!hash"]);
        for number in 0..4 {
            let caller = format!("server!other_{number}");
            build.cpu(PID, 0.8 * (1.0 - share) / 4.0, &["server!main", &caller, "server!hash"]);
        }
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuBound);
        assert!(found.title.starts_with("CPU-bound in `hash` (100 % of its CPU time)"), "{}", found.title);
        assert_eq!(says(found, "of that is called from `import`"), named, "{share}: {:?}", found.evidence);
    }
}

/// Threads that run for this share of the time each, on a machine with so many CPUs.
fn busy(threads: u32, each: f64, cpus: u32) -> Analysis {
    let mut build = Build::new("server", 10, cpus);
    build.machine((f64::from(threads) * each / f64::from(cpus.max(1))).min(1.0));
    for tid in 100..100 + threads {
        build.thread(tid, "worker").cpu(tid, each, &["server!main", "server!work"]);
    }
    analyze(&build.done())
}

#[test]
fn how_much_of_the_machine_it_is_is_said_in_the_right_words() {
    const MORE_CPUS: &str = "More CPUs will not help while one thread does the work";
    // Threads, share of each, CPUs; what it uses, in the explanation; whether one thread is in the way; threads that are told to be busy.
    for (threads, each, cpus, extent, alone, together) in [
        (1, 0.95, 4, "one thread uses a whole core", true, None),
        (1, 0.69, 4, "it uses 0.7 cores", false, None),
        (1, 0.95, 1, "it uses the only CPU of the machine", false, None),
        (2, 0.8, 4, "it uses 1.6 cores", false, Some("2 threads run more than 70 % of the time")),
        (4, 0.95, 4, "it uses all 4 CPUs", false, Some("4 threads run more than 70 % of the time")),
        (16, 0.2, 4, "it uses 3.2 cores", false, None),
    ] {
        let analysis = busy(threads, each, cpus);
        let found = there(&analysis, FindingId::CpuBound);
        let which = format!("{threads} × {each} of {cpus}: {} {:?}", found.explanation, found.evidence);
        assert!(found.explanation.contains(extent), "{which}");
        assert_eq!(found.explanation.contains(MORE_CPUS), alone, "{which}");
        let told = texts(found).into_iter().find(|text| text.contains(" run more than"));
        assert_eq!(told, together, "{which}");
        assert!(
            texts(found)[0]
                .ends_with(&format!("used on average, of {}", if cpus == 1 { "1 CPU" } else { "4 CPUs" })),
            "{which}"
        );
    }
}

#[test]
fn what_the_rest_of_the_machine_uses_is_told() {
    for (machine, expected) in [
        (0.25, "the whole machine uses 1 core of 4, so others use 0.2 cores"),
        (0.80, "the whole machine uses 3.2 cores of 4, so others use 2.4 cores"),
        // Metrics and trace are not of the same moments.
        (0.15, "the whole machine uses 0.6 cores of 4, so others use less than 0.01 cores"),
    ] {
        let mut build = server();
        build.machine(machine).cpu(PID, 0.8, &ROOT);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuBound);
        assert!(texts(found).contains(&expected), "{machine}: {:?}", found.evidence);
    }
}

#[test]
fn without_the_number_of_cpus_one_that_is_in_use_is_one_that_is_busy() {
    for (each, expected) in [(0.38, None), (0.42, Some(Notice)), (0.75, Some(Warning))] {
        let mut build = Build::new("server", 10, 0);
        build.thread(PID, "server").cpu(PID, each, &ROOT);
        let analysis = analyze(&build.done());
        assert_eq!(severity(&analysis, FindingId::CpuBound), expected, "{each}:\n{}", outline(&analysis));
        if let Some(found) = finding(&analysis, FindingId::CpuBound) {
            assert!(texts(found)[0].ends_with("; of how many CPUs was not recorded"), "{:?}", found.evidence);
        }
    }
}

/// Many threads, none of which wants much: together they would use the machine up.
#[test]
fn threads_that_are_kept_from_the_cpus_are_judged_together() {
    let kept = |machine: f64, ready: f64, cpus: u32| {
        let mut build = Build::new("server", 10, cpus);
        build.machine(machine);
        for tid in 100..116 {
            build.thread(tid, "worker").cpu(tid, 0.05, &["server!main", "server!work"]).ready(tid, ready);
        }
        analyze(&build.done())
    };
    // Sixteen use 0.8 CPUs, and want so much more of four.
    for (machine, ready, cpus, expected) in [
        (0.98, 0.04, 4, None),
        // As much as they get and more: 1.7 of 4 CPUs.
        (0.98, 0.06, 4, Some("gets 0.8 cores and wants more")),
        (0.98, 0.15, 4, Some("gets 0.8 cores and wants more")),
        (0.98, 0.15, 16, None),
        // With CPUs left they only wake up.
        (0.50, 0.15, 4, None),
    ] {
        let analysis = kept(machine, ready, cpus);
        let found = finding(&analysis, FindingId::CpuBound);
        let which = format!("{machine} {ready} {cpus}:\n{}", outline(&analysis));
        assert_eq!(found.map(|found| found.severity), expected.map(|_| Notice), "{which}");
        if let Some((found, words)) = found.zip(expected) {
            assert!(found.title.ends_with(words), "{which}");
        }
    }
    let analysis = kept(0.98, 0.15, 4);
    let found = there(&analysis, FindingId::CpuBound);
    assert!(says(found, "its threads want 3.2 cores together, and get 0.8 cores"), "{:?}", found.evidence);
}

#[test]
fn one_thread_that_is_kept_from_the_cpu_says_how_much_it_wants() {
    for (ready, wants, title) in [
        (0.15, None, "`server` uses 0.4 cores"),
        (
            0.25,
            Some("a thread of it wants a CPU 69 % of the time and gets one 44 %"),
            "`server` gets 0.4 cores and wants more",
        ),
        (
            0.50,
            Some("a thread of it wants a CPU 94 % of the time and gets one 44 %"),
            "`server` gets 0.4 cores and wants more",
        ),
    ] {
        let mut build = server();
        build.machine(0.98).cpu(PID, 0.44, &ROOT).ready(PID, ready);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuBound);
        let told = texts(found).into_iter().find(|text| text.contains(" wants a CPU "));
        assert_eq!(told, wants, "{ready}");
        assert!(found.title.ends_with(title), "{ready}: {}", found.title);
    }
}

/// Where the time goes to switching or to flushes, these are the finding.
#[test]
fn cpu_time_that_another_finding_tells_is_a_notice() {
    let schedules: &[&str] = &["server!main", "k:do_syscall_64", "k:schedule", "k:__schedule"];
    let flushes: &[&str] = &["server!main", "libc.so.6!fsync", "k:__x64_sys_fsync", "k:ext4_sync_file"];
    for (stack, share, expected, impact) in [
        (schedules, 0.28, Warning, 0.8),
        (schedules, 0.32, Notice, 0.8),
        (flushes, 0.28, Warning, 0.8),
        (flushes, 0.32, Notice, 0.2),
    ] {
        let mut build = server();
        build.cpu(PID, 0.8 * share, stack).cpu(PID, 0.8 * (1.0 - share), &["server!main", "server!work"]);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuBound);
        assert_eq!(found.severity, expected, "{stack:?} {share}");
        assert!((found.impact - impact).abs() < 0.01, "{stack:?} {share}: {}", found.impact);
    }
}

#[test]
fn evidence_leads_to_the_functions_and_threads_it_names() {
    let analysis = spends(&[(&["server!hash"], 0.6)]);
    let found = there(&analysis, FindingId::CpuBound);
    let name = |reference: &Reference| match reference {
        Reference::Function(function) => analysis.function(*function).map(|row| row.name.clone()),
        Reference::Thread(tid) => Some(tid.to_string()),
        Reference::Metric { table, column, .. } => Some(format!("{table} {column}")),
        _ => None,
    };
    let of = |words: &str| {
        let one = found.evidence.iter().find(|one| one.text.contains(words));
        one.map(|one| name(&one.reference).unwrap_or_default())
    };
    assert_eq!(of("is in `hash` itself").as_deref(), Some("hash"));
    assert_eq!(of("is called from `answer`").as_deref(), Some("answer"));
    assert_eq!(of("runs 80 % of the time").as_deref(), Some("4711"));
    assert_eq!(of("the whole machine").as_deref(), Some("system cpu.busy"));
}

/// A job that computes, beside which a thread waits for its end, keeps nobody waiting; a queue behind it does.
#[test]
fn who_waits_for_what_is_busy_makes_a_warning_of_it() {
    // No sockets, which was recorded: threads that wait for the busy one, and how many are an alarm.
    for (waiters, share, function, expected) in [
        (0, 0.9, "server!await_result", Notice),
        (1, 0.9, "server!await_result", Notice),
        (2, 0.9, "server!await_result", Warning),
        (2, 0.7, "server!await_result", Notice),
        (8, 0.25, "server!await_result", Notice),
        // Workers that wait for something to do, in a runtime's own code.
        (4, 0.9, "libuv.so.1!worker", Notice),
        (4, 0.9, "libjvm.so!GangWorker::loop", Notice),
    ] {
        let mut build = server();
        build.capture.context.push((format!("target/{PID}/sockets.txt"), String::new()));
        build.cpu(PID, 0.8, &["server!main", "server!work"]);
        for tid in 100..100 + waiters {
            let stack = ["libc.so.6!start_thread", function, "libc.so.6!pthread_cond_wait", "k:futex_wait"];
            let waits = Waiting {
                stack: &stack,
                syscall: call::FUTEX,
                state: WaitState::Sleep,
                share,
                each_ms: 20.0,
                waker: Some(PID),
            };
            build.thread(tid, "asker").wait(tid, waits);
        }
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuBound);
        assert_eq!(found.severity, expected, "{waiters} {share} {function}:\n{}", outline(&analysis));
        assert_eq!(found.explanation.contains("Nobody was seen to wait for it"), expected == Notice);
    }
}
