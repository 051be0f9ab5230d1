//! A sample of `cargo xtask faults`: system calls of biopsy fail, and nothing is harmed, lost in silence, or left.

use std::path::Path;

use biopsy_testkit::faults::{FAILING_CALLS, Fault, Patient, Trial, Verb, errno_name};
use biopsy_testkit::{Privilege, Program, TargetProcess, machine_to_myself, require_all};

const NEEDED: &[Privilege] = &[Privilege::Root, Privilege::Cc, Privilege::Ptrace, Privilege::Bpf];

/// Every call of the verb fails once: at its first, second or third occurrence.
fn sample(name: &'static str, arguments: &'static [&'static str], program: Program) {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    let biopsy = Path::new(env!("CARGO_BIN_EXE_biopsy"));
    let patient = Patient::of(TargetProcess::start(program, &[]));
    let trial = Trial::begin(biopsy, Verb { name, variant: "", arguments, patient: "" }, &patient);
    let mut found = Vec::new();
    let mut runs = 0;
    for (at, call) in (1..).zip(FAILING_CALLS) {
        let Some(count) = trial.counts().get(&call.number) else { continue };
        let occurrence = 1 + (at + count) % 3_u64.min(*count);
        let errno = call.errnos[usize::try_from(occurrence).unwrap_or(0) % call.errnos.len()];
        let fault = Fault { number: call.number, occurrence, errno };
        let Some((problems, _)) = trial.with(fault, &patient) else { continue };
        runs += 1;
        found.extend(
            problems.iter().map(|one| format!("{} {occurrence} {}: {one:?}", call.name, errno_name(errno))),
        );
    }
    assert!(runs > 10, "{runs} runs: hardly any call is seen");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_call_of_dump_that_fails_does_no_harm() {
    sample("dump", &["dump", "{pid}", "--output", "{out}.core"], Program::Deadlock);
}

#[test]
fn a_call_of_stacks_that_fails_does_no_harm() {
    sample("stacks", &["stacks", "{pid}", "--json"], Program::Deadlock);
}

#[test]
fn a_call_of_capture_that_fails_does_no_harm() {
    let arguments = &["capture", "{pid}", "--for", "300ms", "--quiet", "--output", "{out}.zip"];
    sample("capture", arguments, Program::Deadlock);
}

/// Lists of processes, threads and descriptors that break off looked like whole ones, and reports of dumps did not show what the
/// recording around them said.
#[test]
fn a_list_that_breaks_off_is_told_in_the_report_of_a_dump() {
    if !require_all(NEEDED) {
        return;
    }
    let _machine = machine_to_myself();
    let biopsy = Path::new(env!("CARGO_BIN_EXE_biopsy"));
    let patient = Patient::of(TargetProcess::start(Program::Deadlock, &[]));
    let arguments = &["dump", "{pid}", "--tree", "--output", "{out}.zip"];
    let verb = Verb { name: "dump", variant: "--tree", arguments, patient: "" };
    let trial = Trial::begin(biopsy, verb, &patient);
    let number = libc::SYS_getdents64;
    let mut found = Vec::new();
    let count = trial.counts().get(&number).copied().unwrap_or(0);
    // The first ones find the target, the last ones look at what was written.
    for occurrence in (1..=count).filter(|one| *one <= 8 || *one + 16 > count) {
        let fault = Fault { number, occurrence, errno: libc::EIO };
        let Some((problems, _)) = trial.with(fault, &patient) else { continue };
        found.extend(problems.iter().map(|one| format!("{occurrence}: {one:?}")));
    }
    assert_eq!(found, Vec::<String>::new());
}
