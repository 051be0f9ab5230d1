//! Tests with filters as programs install them.

use biopsy_sys::ptrace::seccomp::Instruction;
use proptest::prelude::*;

use super::{Answer, Call, Denied, MAX_INSTRUCTIONS, allows, answer};

const CLONE: u32 = 56;
const WAIT4: u32 = 61;
const SIGRETURN: u32 = 15;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const KILL_THREAD: u32 = 0;
const ERRNO: u32 = 0x0005_0000;

fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

fn load(offset: u32) -> Instruction {
    instruction(0x20, 0, 0, offset)
}

fn equal(k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    instruction(0x15, jump_true, jump_false, k)
}

fn give(value: u32) -> Instruction {
    instruction(0x06, 0, 0, value)
}

/// Checks the architecture, and gives one number another answer than all others: the form that libseccomp writes.
fn one_number(number: u32, value: u32, otherwise: u32) -> Vec<Instruction> {
    vec![
        load(4),
        equal(0xc000_003e, 1, 0),
        give(KILL_PROCESS),
        load(0),
        equal(number, 0, 1),
        give(value),
        give(otherwise),
    ]
}

fn call(number: u32) -> Call {
    Call { number, ..Call::default() }
}

#[test]
fn no_filter_allows_all() {
    assert_eq!(allows(&[], &[call(CLONE), call(WAIT4)]), Ok(()));
}

#[test]
fn each_answer() {
    for (value, expected) in [
        (KILL_PROCESS, Answer::KillProcess),
        (KILL_THREAD, Answer::KillThread),
        (0x0003_0007, Answer::Trap),
        (ERRNO | 38, Answer::Errno(38)),
        (0x7fc0_0000, Answer::UserNotification),
        (0x7ff0_0001, Answer::Trace),
        (0x7ffc_0000, Answer::Log),
        (ALLOW, Answer::Allow),
        // Not known to any kernel: it kills.
        (0x1234_0000, Answer::KillProcess),
    ] {
        let filter = [one_number(CLONE, value, ALLOW)];
        assert_eq!(answer(&filter, &call(CLONE)), expected);
        assert_eq!(answer(&filter, &call(WAIT4)), Answer::Allow);
        assert_eq!(allows(&filter, &[call(CLONE)]).is_ok(), matches!(expected, Answer::Allow | Answer::Log));
    }
}

#[test]
fn every_call_is_asked_for() {
    let filter = [one_number(SIGRETURN, ERRNO | 1, ALLOW)];
    let denied = allows(&filter, &[call(CLONE), call(SIGRETURN), call(WAIT4)]).unwrap_err();
    assert_eq!(denied, Denied { number: SIGRETURN, answer: Answer::Errno(1) });
    assert_eq!(denied.to_string(), "its seccomp filter makes it fail with errno 1, asked for system call 15");
}

#[test]
fn the_severest_of_several_filters_wins() {
    let errno = one_number(CLONE, ERRNO | 1, ALLOW);
    let kill = one_number(CLONE, KILL_THREAD, ALLOW);
    let allow = vec![give(ALLOW)];
    assert_eq!(answer(&[allow.clone(), errno.clone(), kill.clone()], &call(CLONE)), Answer::KillThread);
    assert_eq!(answer(&[kill, allow.clone()], &call(CLONE)), Answer::KillThread);
    assert_eq!(answer(&[allow, errno], &call(CLONE)), Answer::Errno(1));
}

#[test]
fn a_filter_that_looks_at_arguments() {
    // What container runtimes install: clone only without any flag of a new namespace.
    let namespaces = 0x7e02_0000;
    let filter = [vec![
        load(0),
        equal(CLONE, 0, 3),
        load(16),
        instruction(0x45, 0, 1, namespaces),
        give(ERRNO | 1),
        give(ALLOW),
    ]];
    let with = |flags| Call { number: CLONE, arguments: [flags, 0, 0, 0, 0, 0], ..Call::default() };
    assert_eq!(answer(&filter, &with(0)), Answer::Allow);
    assert_eq!(answer(&filter, &with(0x1000_0000)), Answer::Errno(1));
    // The upper half of an argument is a word of its own.
    let upper = [vec![load(20), equal(0, 1, 0), give(KILL_PROCESS), give(ALLOW)]];
    assert_eq!(answer(&upper, &with(1 << 32)), Answer::KillProcess);
    assert_eq!(answer(&upper, &with(u64::from(u32::MAX))), Answer::Allow);
}

#[test]
fn a_filter_that_looks_where_the_call_comes_from() {
    let filter = [vec![load(8), equal(0x1234, 0, 1), give(ALLOW), give(KILL_PROCESS)]];
    let from = |instruction_pointer| Call { number: CLONE, instruction_pointer, ..Call::default() };
    assert_eq!(answer(&filter, &from(0x7f00_0000_1234)), Answer::Allow);
    assert_eq!(answer(&filter, &from(0x7f00_0000_1236)), Answer::KillProcess);
}

#[test]
fn all_of_the_arithmetic() {
    // Each: load 12 into A and 5 into X, calculate, and answer ERRNO with the result.
    for (code, k, expected) in [
        (0x04, 3, 15),
        (0x0c, 0, 17),
        (0x14, 3, 9),
        (0x1c, 0, 7),
        (0x24, 3, 36),
        (0x2c, 0, 60),
        (0x34, 5, 2),
        (0x3c, 0, 2),
        (0x44, 3, 15),
        (0x4c, 0, 13),
        (0x54, 9, 8),
        (0x5c, 0, 4),
        (0x64, 2, 48),
        (0x6c, 0, 384),
        (0x74, 1, 6),
        (0x7c, 0, 0),
        (0xa4, 3, 15),
        (0xac, 0, 9),
        (0x87, 0, 5),
    ] {
        let filter = [vec![
            instruction(0x00, 0, 0, 12),
            instruction(0x01, 0, 0, 5),
            instruction(code, 0, 0, k),
            instruction(0x44, 0, 0, ERRNO),
            instruction(0x16, 0, 0, 0),
        ]];
        assert_eq!(answer(&filter, &call(0)), Answer::Errno(expected), "{code:#x}");
    }
}

#[test]
fn scratch_memory_length_and_negation() {
    let filter = [vec![
        instruction(0x80, 0, 0, 0),
        instruction(0x02, 0, 0, 15),
        instruction(0x81, 0, 0, 0),
        instruction(0x03, 0, 0, 0),
        instruction(0x60, 0, 0, 15),
        instruction(0x61, 0, 0, 0),
        instruction(0x0c, 0, 0, 0),
        instruction(0x84, 0, 0, 0),
        instruction(0x84, 0, 0, 0),
        instruction(0x07, 0, 0, 0),
        instruction(0x00, 0, 0, ERRNO),
        instruction(0x0c, 0, 0, 0),
        instruction(0x16, 0, 0, 0),
    ]];
    assert_eq!(answer(&filter, &call(0)), Answer::Errno(128));
}

#[test]
fn division_by_zero_ends_the_thread() {
    let filter = [vec![instruction(0x3c, 0, 0, 0), give(ALLOW)]];
    assert_eq!(answer(&filter, &call(0)), Answer::KillThread);
}

#[test]
fn what_the_kernel_would_not_accept_is_never_allowed() {
    for filter in [
        vec![],
        vec![load(0)],
        vec![load(2), give(ALLOW)],
        vec![load(64), give(ALLOW)],
        vec![instruction(0x05, 0, 0, u32::MAX), give(ALLOW)],
        vec![instruction(0x60, 0, 0, 16), give(ALLOW)],
        vec![instruction(0x94, 0, 0, 3), give(ALLOW)],
        vec![instruction(0x28, 0, 0, 0), give(ALLOW)],
        vec![instruction(0xffff, 0, 0, 0), give(ALLOW)],
        vec![give(ALLOW); MAX_INSTRUCTIONS + 1],
    ] {
        assert!(!answer(std::slice::from_ref(&filter), &call(0)).is_allowed(), "{:?}", filter.first());
    }
}

#[test]
fn the_longest_filter_is_run_to_its_end() {
    let mut filter = vec![load(0); MAX_INSTRUCTIONS - 1];
    filter.push(give(ALLOW));
    assert_eq!(answer(&[filter], &call(0)), Answer::Allow);
}

proptest! {
    #[test]
    fn any_program_ends(program in proptest::collection::vec(
        (prop_oneof![any::<u16>(), 0u16..0xb0], any::<u8>(), any::<u8>(), prop_oneof![any::<u32>(), 0u32..80])
            .prop_map(|(code, yes, no, k)| Instruction { code, jump_true: yes, jump_false: no, k }),
        0..300,
    )) {
        let _ = answer(&[program], &call(CLONE));
    }
}
