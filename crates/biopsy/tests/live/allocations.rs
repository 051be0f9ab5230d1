//! `--allocations` of native processes: who allocates, what stays, and that nothing is left behind.

use std::os::unix::fs::FileExt;

use biopsy_testkit::{Privilege, Survival, TargetProcess, compile_c, machine_to_myself, require_all};
use serde_json::Value;

use crate::support::{Captured, capture};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

/// Keeps 20 kB each time in `remember_session`, by the standard's functions in turn; uses and frees more in `handle_request`.
/// Arguments: rounds a second, requests in each round.
const SOURCE: &str = r#"
    #include "target.h"
    struct session { struct session *next; char data[20000]; };
    static struct session *volatile sessions;
    static void *volatile used;
    VISIBLE void remember_session(long number) {
        struct session *one;
        if (number % 4 == 0) one = calloc(1, sizeof *one);
        else if (number % 4 == 1) { one = malloc(16); one = realloc(one, sizeof *one); }
        else if (number % 4 == 2) { if (posix_memalign((void **)&one, 64, sizeof *one)) _exit(2); }
        else one = malloc(sizeof *one);
        memset(one->data, 's', sizeof one->data);
        one->next = sessions;
        sessions = one;
    }
    VISIBLE void handle_request(void) {
        char *text = malloc(3000);
        used = text;
        text = realloc(text, 6000);
        used = text;
        void *table = calloc(100, 40);
        used = table;
        free(table);
        free(text);
    }
    int main(int argc, char **argv) {
        limit_own_life();
        long rounds = number_argument(argc, argv, 1, 100), requests = number_argument(argc, argv, 2, 1);
        watch_stdin();
        say_ready();
        for (long number = 0;; number++) {
            remember_session(number);
            for (long at = 0; at < requests; at++) handle_request();
            sleep_ns(1000000000L / rounds);
        }
    }"#;

fn captured(rounds: &str, requests: &str, time: &str) -> Captured {
    let _machine = machine_to_myself();
    let mut command = std::process::Command::new(compile_c("allocates", SOURCE, &["-O1", "-g"]));
    command.args([rounds, requests]);
    let mut target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid());
    let captured = capture(target.pid(), time, &["--allocations"]);
    survival.assert_unharmed();
    assert_code_is_as_in_its_file(target.pid());
    target.stop();
    captured
}

/// No breakpoint is left in the code of the C library.
fn assert_code_is_as_in_its_file(pid: u32) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("/libc.so")).expect("libc");
    let words: Vec<&str> = line.split_whitespace().collect();
    let hex = |text| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = words[0].split_once('-').unwrap();
    let (start, length) = (hex(start), usize::try_from(hex(end) - hex(start)).unwrap());
    let (mut memory, mut file) = (vec![0; length], vec![0; length]);
    std::fs::File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut memory, start).unwrap();
    let read = std::fs::File::open(words[5]).unwrap().read_at(&mut file, hex(words[2])).unwrap();
    assert!(memory[..read] == file[..read], "the code of {} differs from its file", words[5]);
}

fn site<'a>(report: &'a Value, function: &str) -> &'a Value {
    let sites = report["allocations"]["sites"].as_array().expect("allocations were watched");
    sites.iter().find(|site| site["function"] == function).unwrap_or_else(|| panic!("{function}: {sites:#?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn who_allocates_what_is_not_given_back_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let captured = captured("100", "1", "10s");
    let report = &captured.report;
    let kept = site(report, "remember_session");
    let (allocated, stays) = (number(&kept["allocated_bytes"]), number(&kept["kept_bytes"]));
    // 100 rounds a second of 20 kB, and fewer on a machine that is busy.
    assert!((2e6..30e6).contains(&allocated) && stays > allocated * 0.9, "{kept:#}");
    let used = site(report, "handle_request");
    assert!(
        number(&used["allocated_bytes"]) > 1e6
            && number(&used["kept_bytes"]) < number(&used["allocated_bytes"]) * 0.2,
        "{used:#}"
    );
    assert!(kept["stack"].as_array().unwrap().iter().any(|name| name == "main"), "{kept:#}");
    captured.assert_diagnosis("kept-allocations", &["remember_session"]);
}

#[test]
fn of_a_busy_program_a_part_is_watched_and_the_report_says_so() {
    if !require_all(LIVE) {
        return;
    }
    // 60,000 allocations a second: breakpoints for all of them would take a tenth of a processor and more.
    let captured = captured("500", "40", "10s");
    let report = &captured.report;
    let watched = number(&report["allocations"]["watched_share"]);
    assert!(watched > 0.0 && watched < 0.9, "{watched}");
    // A twenty-fifth of what is sampled stays: too few samples for a finding on some machines, so none is asked for here.
    assert!(number(&site(report, "handle_request")["allocated_bytes"]) > 1e6, "{:#}", report["allocations"]);
}
