//! Which signals end a process.

use biopsy_model::{Pid, Tid};

use crate::process::proc_root::{ProcRoot, SMALL};

/// Signals whose default action is not to end the process (signal(7)): SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU,
/// SIGURG, SIGWINCH.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

/// What a process does with a signal that is about to be delivered to one of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disposition {
    /// It ends the process.
    Fatal,
    /// The process has a function for it.
    Caught,
    /// Nothing happens, or the process stops or goes on (job control).
    Harmless,
}

/// Asks `/proc`. A signal that the kernel forces on a thread (a fault while the signal is blocked or ignored) has had its
/// disposition reset by then, so that the answer is right for it too. A process that is gone: harmless.
pub(super) fn disposition(pid: Pid, tid: Tid, signal: i32) -> Disposition {
    let text =
        ProcRoot::live().process(pid).and_then(|process| process.read(&format!("task/{tid}/status"), SMALL));
    text.map_or(Disposition::Harmless, |text| from_status(&text, signal))
}

fn from_status(text: &[u8], signal: i32) -> Disposition {
    let Some(bit) =
        u32::try_from(signal).ok().and_then(|number| number.checked_sub(1)).filter(|&bit| bit < 64)
    else {
        return Disposition::Harmless;
    };
    let (mut ignored, mut caught, mut is_init) = (0_u64, 0_u64, false);
    for line in text.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = String::from_utf8_lossy(value.get(1..).unwrap_or_default());
        let hex = || u64::from_str_radix(value.trim(), 16).unwrap_or(0);
        match name {
            b"SigIgn" => ignored = hex(),
            b"SigCgt" => caught = hex(),
            b"NStgid" => is_init = value.split_ascii_whitespace().next_back() == Some("1"),
            _ => {}
        }
    }
    if caught & (1 << bit) != 0 {
        Disposition::Caught
    } else if ignored & (1 << bit) != 0 || HARMLESS.contains(&signal) || is_init {
        // The first process of a pid namespace gets no signal that it has no function for.
        Disposition::Harmless
    } else {
        Disposition::Fatal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_status_says() {
        let status = b"NStgid:\t12\t1\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000400\n";
        assert_eq!(from_status(status, 13), Disposition::Harmless, "ignored");
        assert_eq!(from_status(status, 11), Disposition::Caught);
        assert_eq!(from_status(status, 15), Disposition::Harmless, "the first process of a namespace");
        let status = b"NStgid:\t12\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n";
        assert_eq!(from_status(status, 15), Disposition::Fatal);
        assert_eq!(from_status(status, 64), Disposition::Fatal, "real-time signals end a process too");
        for harmless in HARMLESS {
            assert_eq!(from_status(status, harmless), Disposition::Harmless);
        }
        for odd in [0, -1, 65, i32::MAX] {
            assert_eq!(from_status(status, odd), Disposition::Harmless);
        }
        assert_eq!(from_status(b"", 15), Disposition::Fatal);
    }
}
