//! `/proc/PID/stat`: one line of numbers with a name in the middle that may hold anything.

/// `PF_KTHREAD` of the kernel's `include/linux/sched.h`: the process is a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The fields of `/proc/PID/stat` that are used (proc_pid_stat(5)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    /// Name, as the kernel has it: at most 15 bytes (more for kernel workers), any bytes but NUL.
    pub(crate) comm: Vec<u8>,
    /// `R`, `S`, `D`, `Z` ...
    pub(crate) state: u8,
    /// Parent.
    pub(crate) parent: u32,
    /// Kernel thread.
    pub(crate) is_kernel_thread: bool,
    /// CPU time in user mode, ticks.
    pub(crate) user_ticks: u64,
    /// CPU time in the kernel, ticks.
    pub(crate) system_ticks: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Start, ticks since boot.
    pub(crate) start_ticks: u64,
    /// Resident memory, pages.
    pub(crate) resident_pages: u64,
}

impl Stat {
    /// Parses the line. The name is what lies between the first `(` and the **last** `)`: it may hold both.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let comm = line.get(open + 1..close)?.to_vec();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // Field 3 of the manual page is the first one here.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |manual: usize| fields.get(manual - 3)?.parse::<u64>().ok();
        let [state] = *fields.first()?.as_bytes() else { return None };
        Some(Self {
            comm,
            state,
            parent: u32::try_from(number(4)?).ok()?,
            is_kernel_thread: number(9)? & PF_KTHREAD != 0,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            threads: number(20)?,
            start_ticks: number(22)?,
            resident_pages: number(24)?,
        })
    }

    /// The process has ended and waits for its parent to notice (or is ending right now).
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line like the kernel writes.
    pub(crate) fn line(pid: u32, comm: &[u8], state: char, parent: u32, threads: u64, start: u64) -> Vec<u8> {
        let mut line = format!("{pid} (").into_bytes();
        line.extend_from_slice(comm);
        line.extend_from_slice(
            format!(
                ") {state} {parent} 1 1 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 {threads} 0 {start} 9000000 250 \
                 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
            )
            .as_bytes(),
        );
        line
    }

    #[test]
    fn fields() {
        let stat = Stat::parse(&line(42, b"tail) R 1 (x", 'S', 7, 3, 555)).unwrap();
        assert_eq!(stat.comm, b"tail) R 1 (x");
        assert_eq!((stat.state, stat.parent, stat.threads, stat.start_ticks), (b'S', 7, 3, 555));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.resident_pages), (70, 30, 250));
        assert!(!stat.is_kernel_thread);
    }

    #[test]
    fn kernel_threads_and_zombies() {
        let kthread = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0\n";
        assert!(Stat::parse(kthread).unwrap().is_kernel_thread);
        assert!(Stat::parse(&line(1, b"x", 'Z', 0, 1, 1)).unwrap().is_zombie());
    }

    proptest! {
        #[test]
        fn any_name_comes_back(comm in proptest::collection::vec(1_u8.., 0..64), start in any::<u64>()) {
            let stat = Stat::parse(&line(1, &comm, 'R', 0, 1, start)).unwrap();
            prop_assert_eq!(stat.comm, comm);
            prop_assert_eq!(stat.start_ticks, start);
        }

        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Stat::parse(&bytes);
        }
    }
}
