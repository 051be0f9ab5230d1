//! The system call that a thread is in, as `/proc/PID/task/TID/syscall` says it.

/// Threads of one process that are looked at, at most.
pub(super) const THREADS: usize = 2_000;

/// The system call that a thread is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
    /// The stack pointer, so that two calls with equal arguments are told apart more often.
    sp: u64,
}

impl Call {
    /// `7 0x1 0x2 0x3 0x4 0x5 0x6 SP PC`; `running`, and `-1 SP PC` of a thread that waits for something else.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = hex()?;
        }
        Some(Self { number, arguments, sp: hex()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_the_kernels_line() {
        let call = Call::parse(b"0 0x3 0x7ff0 0x1 0x0 0x0 0x0 0x7ffd1000 0x7f00\n").expect("well formed");
        assert_eq!((call.number, call.arguments[0], call.sp), (0, 3, 0x7ffd_1000));
        assert_eq!(Call::parse(b"running\n"), None);
        assert_eq!(Call::parse(b"-1 0x7ffd1000 0x7f00\n"), None);
        assert_eq!(Call::parse(b"0 0x3"), None);
        assert_eq!(Call::parse(&[0xff; 40]), None);
    }
}
