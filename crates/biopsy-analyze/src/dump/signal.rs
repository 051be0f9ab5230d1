//! Signals and their codes in words (signal(7), sigaction(2)).

/// Signals that end a process because of what it did, or that leave a core.
pub(super) fn is_fatal(number: i32, code: Option<i32>) -> bool {
    match number {
        // A debugger stops with SIGTRAP too: only a breakpoint instruction, or the kernel, is the program's own.
        5 => matches!(code, Some(1 | 2 | 0x80)),
        3 | 4 | 6 | 7 | 8 | 11 | 24 | 25 | 31 => true,
        _ => false,
    }
}

/// A filter of system calls killed the process in this thread: all its threads have the signal. Before it kills, the kernel puts the number of
/// the call back to where its result would be (`syscall_rollback` in kernel/seccomp.c).
pub(super) fn is_filtered(number: i32, registers: Option<&biopsy_image::GeneralRegisters>) -> bool {
    let rolled_back = |registers: &biopsy_image::GeneralRegisters| {
        registers.rax == registers.orig_rax && registers.orig_rax < u64::from(u32::MAX)
    };
    number == 31 && registers.is_some_and(rolled_back)
}

/// What the signal means.
pub(super) fn meaning(number: i32) -> &'static str {
    match number {
        3 => "quit, asked for from outside",
        4 => "an instruction that the processor does not know",
        5 => "a breakpoint",
        6 => "the process aborted itself",
        7 => "memory that could not be delivered",
        8 => "an arithmetic error",
        11 => "memory that must not be accessed that way",
        24 => "it has used up its limit of CPU time (`RLIMIT_CPU`)",
        25 => "a file would become larger than its limit (`RLIMIT_FSIZE`)",
        31 => "a system call that is not allowed",
        other => ending_meaning(other).unwrap_or("a signal"),
    }
}

/// Signals that end a process without a core, where it has no function for them and does not ignore them. `None`: another one.
///
/// A dump has one of these on a thread because somebody held the process there, which is not always its end: who asks has to know that.
pub(super) fn ending_meaning(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => {
            "its terminal or connection was closed, or it was told to read its settings again, and nothing handles that"
        }
        2 => "interrupted from outside",
        9 => "killed from outside",
        10 | 12 => "a signal for the program's own use arrived, and nothing handles it",
        13 => {
            "it wrote to a pipe or connection whose other end is closed (broken pipe), and nothing handles that"
        }
        14 => "a timer of its own has run out (`alarm`, `setitimer`), and nothing handles that",
        15 => "it was asked to end, from outside",
        16 => "a fault of a coprocessor",
        26 => "a timer of its own CPU time has run out (`setitimer`), and nothing handles that",
        27 => "a timer of a profiler has run out, and nothing handles that",
        29 => "a descriptor became ready (`O_ASYNC`), and nothing handles that",
        30 => "the power is about to fail",
        34..=64 => {
            "a real-time signal arrived (of a timer, a queue, or the program's own use), and nothing handles it"
        }
        _ => return None,
    })
}

/// Whoever sends it means to end the process, or to tell it something: what its threads do is not the reason.
pub(super) fn is_from_outside(number: i32) -> bool {
    matches!(number, 1 | 2 | 9 | 15)
}

/// `si_code` in words; `None`: not one that says more.
pub(super) fn code_words(number: i32, code: i32) -> Option<&'static str> {
    Some(match (number, code) {
        (_, 0) => "sent by `kill`",
        (_, -1) => "sent by `sigqueue`",
        (_, -2) => "sent by a timer",
        (_, -6) => "sent by `tgkill` (`raise`, `abort`, `pthread_kill`)",
        (11, 1) => "the address is not mapped",
        (11, 2) => "the mapping does not allow it",
        (11, 3) => "a bound check failed",
        (11, 4) => "a protection key does not allow it",
        (11, 0x80) => "the kernel did not get an address: not canonical, or a misaligned access",
        (7, 1) => "a misaligned address",
        (7, 2) => {
            "the address is in a mapping, and nothing is behind it: the end of a file, or no memory left"
        }
        (7, 3) => "an error of the device",
        (7, 4 | 5) => "an error of the memory hardware",
        (8, 1) => "integer division by zero",
        (8, 2) => "integer overflow",
        (8, 3) => "floating point division by zero",
        (8, 4) => "floating point overflow",
        (8, 5) => "floating point underflow",
        (8, 6) => "floating point inexact result",
        (8, 7) => "invalid floating point operation",
        (8, 8) => "a subscript out of range",
        (8, 14) => "a floating point operation, nothing says why",
        (4, 1 | 2) => "an illegal instruction",
        (4, 5 | 6) => "a privileged instruction",
        (5, 1) | (5, 0x80) => "a breakpoint instruction",
        (5, 2) => "a single step",
        (31, 1) => "stopped by seccomp",
        _ => return None,
    })
}

/// For signals that a fault raises `si_addr` is an address; for signals that are sent it is not.
pub(super) fn has_address(number: i32, code: Option<i32>) -> bool {
    matches!(number, 4 | 5 | 7 | 8 | 11) && code.is_none_or(|code| code > 0 && code != 0x80)
}

/// Who sent it: `si_pid` at byte 16 of `siginfo_t`, for signals that were sent.
pub(super) fn sender(info: Option<&[u8]>, code: Option<i32>) -> Option<u32> {
    if !matches!(code, Some(0 | -1 | -6)) {
        return None;
    }
    let bytes = info?.get(16..20)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes)).filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_leave_a_core_are_fatal() {
        let fatal: Vec<i32> = (0..65).filter(|&number| is_fatal(number, Some(1))).collect();
        assert_eq!(fatal, [3, 4, 5, 6, 7, 8, 11, 24, 25, 31]);
        // A debugger stops with SIGTRAP too.
        for (code, is) in [
            (None, false),
            (Some(0), false),
            (Some(1), true),
            (Some(2), true),
            (Some(3), false),
            (Some(0x80), true),
        ] {
            assert_eq!(is_fatal(5, code), is, "{code:?}");
        }
        assert!(fatal.iter().all(|&number| meaning(number) != "a signal"), "each fatal one has a meaning");
    }

    #[test]
    fn signals_that_end_a_process_have_a_meaning_and_leave_no_core() {
        let ending: Vec<i32> = (0..=64).filter(|&number| ending_meaning(number).is_some()).collect();
        assert!(ending.iter().all(|&number| !is_fatal(number, Some(1))), "{ending:?}");
        // SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH end nothing.
        assert!([17, 18, 19, 20, 21, 22, 23, 28].iter().all(|number| !ending.contains(number)));
        assert!(meaning(13).contains("broken pipe") && meaning(14).contains("timer"));
        let outside: Vec<i32> = (0..=64).filter(|&number| is_from_outside(number)).collect();
        assert_eq!(outside, [1, 2, 9, 15]);
    }

    #[test]
    fn who_made_the_call_that_a_filter_did_not_allow_is_told_from_who_slept() {
        let registers = |rax: u64, orig_rax: u64| biopsy_image::GeneralRegisters {
            rax,
            orig_rax,
            ..biopsy_image::GeneralRegisters::from_words(&[0; 27])
        };
        assert!(is_filtered(31, Some(&registers(83, 83))));
        assert!(!is_filtered(31, Some(&registers(0_u64.wrapping_sub(38), 230))), "it slept");
        assert!(!is_filtered(31, Some(&registers(u64::MAX, u64::MAX))), "in no call");
        assert!(!is_filtered(9, Some(&registers(83, 83))) && !is_filtered(31, None));
    }

    #[test]
    fn an_address_is_there_only_where_a_fault_raised_the_signal() {
        for (number, code, is) in [
            (11, Some(1), true),
            (11, None, true),
            (11, Some(0), false),
            (11, Some(-6), false),
            (11, Some(0x80), false),
            (7, Some(2), true),
            (8, Some(1), true),
            (6, Some(1), false),
            (31, Some(1), false),
        ] {
            assert_eq!(has_address(number, code), is, "{number} {code:?}");
        }
    }

    #[test]
    fn codes_of_one_signal_are_not_those_of_another() {
        assert_eq!(code_words(11, 1), Some("the address is not mapped"));
        assert_eq!(code_words(8, 1), Some("integer division by zero"));
        assert_eq!(code_words(31, 1), Some("stopped by seccomp"));
        assert_eq!(code_words(11, 5), None);
        for number in 1..32 {
            assert_eq!(
                code_words(number, -6),
                Some("sent by `tgkill` (`raise`, `abort`, `pthread_kill`)"),
                "{number}"
            );
        }
    }

    #[test]
    fn who_sent_it_is_read_of_what_was_sent() {
        let mut info = [0u8; 128];
        info[16..20].copy_from_slice(&4711u32.to_le_bytes());
        for (code, expected) in [
            (Some(0), Some(4711)),
            (Some(-1), Some(4711)),
            (Some(-6), Some(4711)),
            (Some(1), None),
            (None, None),
        ] {
            assert_eq!(sender(Some(&info), code), expected, "{code:?}");
        }
        // The kernel, what is cut off and what is not there.
        assert_eq!(sender(Some(&[0; 128]), Some(0)), None);
        assert_eq!(sender(Some(&info[..19]), Some(0)), None);
        assert_eq!(sender(None, Some(0)), None);
    }
}
