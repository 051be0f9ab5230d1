//! What a process died of.

use biopsy_model::{Avma, Tid};

/// What a process died of, whatever system it ran on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crash {
    /// The thread it happened in, where known.
    pub thread: Option<Tid>,
    /// What happened.
    pub kind: CrashKind,
    /// The address that could not be accessed or executed, where that is what happened.
    pub address: Option<Avma>,
    /// In words: `SIGSEGV`, `EXCEPTION_ACCESS_VIOLATION_READ`.
    pub description: String,
}

/// How the system calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashKind {
    /// A signal: number and, where known, `si_code`.
    Signal {
        /// Number (signal(7)).
        number: i32,
        /// `si_code` (sigaction(2)).
        code: Option<i32>,
    },
    /// A structured exception of Windows.
    WindowsException {
        /// `ExceptionCode`.
        code: u32,
    },
    /// `EXC_CRASH` of macOS: the process ended by a signal, without an exception of the processor.
    MacCrash {
        /// The signal, by the numbers of that system.
        signal: u32,
    },
    /// An exception of another system: its own numbers.
    Other {
        /// Kind of exception.
        code: u32,
        /// What belongs to it.
        flags: u32,
    },
}

impl CrashKind {
    /// Name of a signal of Linux on x86-64, or `signal N`.
    #[must_use]
    pub fn signal_name(number: i32) -> String {
        const NAMES: [&str; 32] = [
            "",
            "SIGHUP",
            "SIGINT",
            "SIGQUIT",
            "SIGILL",
            "SIGTRAP",
            "SIGABRT",
            "SIGBUS",
            "SIGFPE",
            "SIGKILL",
            "SIGUSR1",
            "SIGSEGV",
            "SIGUSR2",
            "SIGPIPE",
            "SIGALRM",
            "SIGTERM",
            "SIGSTKFLT",
            "SIGCHLD",
            "SIGCONT",
            "SIGSTOP",
            "SIGTSTP",
            "SIGTTIN",
            "SIGTTOU",
            "SIGURG",
            "SIGXCPU",
            "SIGXFSZ",
            "SIGVTALRM",
            "SIGPROF",
            "SIGWINCH",
            "SIGIO",
            "SIGPWR",
            "SIGSYS",
        ];
        match usize::try_from(number).ok().filter(|number| *number > 0).and_then(|number| NAMES.get(number)) {
            Some(name) => (*name).to_owned(),
            None => format!("signal {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_usual_names() {
        assert_eq!(CrashKind::signal_name(1), "SIGHUP");
        assert_eq!(CrashKind::signal_name(11), "SIGSEGV");
        assert_eq!(CrashKind::signal_name(31), "SIGSYS");
        for odd in [0, -1, 32, 64, i32::MIN] {
            assert_eq!(CrashKind::signal_name(odd), format!("signal {odd}"));
        }
    }
}
