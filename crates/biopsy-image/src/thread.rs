//! Threads and their registers.

use biopsy_model::{Avma, Tid};

/// The registers in their order, once for the type and for both conversions.
macro_rules! general_registers {
    ($($name:ident)+) => {
        /// The general registers of an x86-64 thread, in the order of the kernel's `user_regs_struct`
        /// (`arch/x86/include/asm/user_64.h`), which is what NT_PRSTATUS and PTRACE_GETREGSET hold.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        #[allow(missing_docs, reason = "these are names of registers")]
        pub struct GeneralRegisters {
            $(pub $name: u64,)+
        }

        impl GeneralRegisters {
            /// From the kernel's structure.
            #[must_use]
            pub fn from_words(words: &[u64; 27]) -> Self {
                let [$($name),+] = *words;
                Self { $($name),+ }
            }

            /// As the kernel's structure.
            #[must_use]
            pub fn to_words(&self) -> [u64; 27] {
                let Self { $($name),+ } = *self;
                [$($name),+]
            }
        }
    };
}

general_registers! {
    r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi
    orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs
}

impl GeneralRegisters {
    /// Size of the kernel's structure in bytes.
    pub const SIZE: usize = 27 * 8;

    /// From little-endian bytes; `None` when there are not enough.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::SIZE)?;
        let mut words = [0u64; 27];
        for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*eight);
        }
        Some(Self::from_words(&words))
    }

    /// As little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (eight, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.to_words()) {
            *eight = word.to_le_bytes();
        }
        bytes
    }
}

/// System calls of x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
mod number {
    pub(super) const POLL: u64 = 7;
    pub(super) const NANOSLEEP: u64 = 35;
    pub(super) const FUTEX: u64 = 202;
    pub(super) const RESTART: u64 = 219;
    pub(super) const CLOCK_NANOSLEEP: u64 = 230;
}

impl GeneralRegisters {
    /// Number of the system call that the thread is in; `None`: in none.
    ///
    /// A wait with a time limit that a stop or a signal broke off goes on as `restart_syscall`, with the arguments that it had
    /// (restart_syscall(2), `handle_signal` in `arch/x86/kernel/signal.c`). Only four calls do that, and their arguments tell them
    /// apart; where they do not, the number stays that of `restart_syscall`.
    #[must_use]
    pub fn system_call(&self) -> Option<u64> {
        let called = (self.orig_rax < 4096).then_some(self.orig_rax)?;
        Some(if called == number::RESTART { self.restarted().unwrap_or(called) } else { called })
    }

    fn restarted(&self) -> Option<u64> {
        /// FUTEX_WAIT and FUTEX_WAIT_BITSET of `linux/futex.h`, without the flags, and FUTEX_PRIVATE_FLAG.
        const WAIT: u64 = 0;
        const WAIT_BITSET: u64 = 9;
        const PRIVATE: u64 = 0x80;
        const FUTEX_FLAGS: u64 = 0x180;
        /// Clocks have small numbers, and no memory is below 64 KiB.
        const CLOCKS: u64 = 16;
        const LOWEST_ADDRESS: u64 = 0x1_0000;
        /// Nobody polls more descriptors, and fewer than these are no address.
        const DESCRIPTORS: u64 = LOWEST_ADDRESS;
        let address = |value: u64| (LOWEST_ADDRESS..1 << 63).contains(&value);
        let Self { rdi, rsi, rdx, r10, r9, .. } = *self;
        let any_bit = r9 as u32 == u32::MAX;
        let waits = match rsi & !FUTEX_FLAGS {
            WAIT => rsi & PRIVATE != 0,
            WAIT_BITSET => rsi & PRIVATE != 0 || any_bit,
            _ => false,
        };
        match () {
            () if rdi < CLOCKS && address(rdx) => Some(number::CLOCK_NANOSLEEP),
            () if waits && address(rdi) && rdi.is_multiple_of(4) && address(r10) => Some(number::FUTEX),
            () if address(rdi) && (rsi == 0 || address(rsi)) => Some(number::NANOSLEEP),
            () if (rdi == 0 || address(rdi)) && rsi < DESCRIPTORS && rdx as u32 != 0 => Some(number::POLL),
            () => None,
        }
    }
}

/// A signal that a thread was stopped by or died of.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ThreadSignal {
    /// Number (signal(7)).
    pub number: i32,
    /// `si_code` (sigaction(2)), where known.
    pub code: Option<i32>,
    /// Address of the fault (`si_addr`), for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP, where known.
    pub address: Option<Avma>,
    /// `siginfo_t` as it is (128 bytes), where known.
    pub info: Option<Vec<u8>>,
}

/// One thread.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Thread {
    /// Its id.
    pub tid: Tid,
    /// Its name, where known (cores of the kernel and of gdb do not have it). Bytes as they are.
    pub name: Option<Vec<u8>>,
    /// General registers; `None` when the dump has none for this thread, or of another architecture.
    pub registers: Option<GeneralRegisters>,
    /// The extended state in the layout of XSAVE as PTRACE_GETREGSET with NT_X86_XSTATE gives it; the first 512 bytes are
    /// the FXSAVE area (NT_FPREGSET). Empty where not known.
    pub extended: Vec<u8>,
    /// Signal, if it was stopped by one or died of one.
    pub signal: Option<ThreadSignal>,
    /// Blocked signals (bit 0 is signal 1), where known.
    pub blocked_signals: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interrupted in this call, with six arguments.
    fn inside(number: u64, arguments: [u64; 6]) -> GeneralRegisters {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        GeneralRegisters { orig_rax: number, rdi, rsi, rdx, r10, r8, r9, ..GeneralRegisters::default() }
    }

    #[test]
    fn a_call_that_was_taken_up_again_is_the_one_it_was() {
        const AT: u64 = 0x7f00_0000_1000;
        let any = u64::from(u32::MAX);
        let table: &[(&str, [u64; 6], u64)] = &[
            ("pthread_cond_timedwait of glibc", [AT, 0x189, 0, AT + 64, 0, any], 202),
            ("sem_timedwait of shared memory", [AT, 0x109, 0, AT + 64, 0, any], 202),
            ("Rust's and Go's private wait", [AT + 4, 0x80, 2, AT + 64, 0, 0], 202),
            ("a futex is four bytes wide: poll of 128", [AT + 2, 0x80, 250, AT + 64, 0, 0], 7),
            ("poll of one, what is left in r10 does not count", [AT, 1, 5_000, AT, 0, 0], 7),
            ("poll without a limit, which is taken up the same way", [AT, 2, any, AT, 0, 0], 7),
            ("poll of none: a sleep", [0, 0, 100, AT, 0, 0], 7),
            ("clock_nanosleep until a time", [1, 1, AT, 0, 0, 0], 230),
            ("nanosleep", [AT, 0, 7, AT, 0, 0], 35),
            ("nanosleep that wants to know what is left", [AT, AT + 16, 0, 0, 0, 0], 35),
            ("none of them", [3, 5, 0, 0, 0, 0], 219),
        ];
        for (what, arguments, expected) in table {
            assert_eq!(inside(219, *arguments).system_call(), Some(*expected), "{what}");
            assert_eq!(inside(1, *arguments).system_call(), Some(1), "{what}: another call is what it says");
        }
        assert_eq!(inside(u64::MAX, [0; 6]).system_call(), None);
    }

    proptest::proptest! {
        /// Whatever the registers hold: what is no call of these is told as the one that takes it up again.
        #[test]
        fn nothing_else_is_guessed(arguments in proptest::array::uniform6(proptest::num::u64::ANY), number in 0..400_u64) {
            let again = inside(219, arguments).system_call();
            proptest::prop_assert!(matches!(again, Some(202 | 7 | 230 | 35 | 219)), "{again:?}");
            let other = inside(number, arguments).system_call();
            proptest::prop_assert!(number == 219 || other == Some(number), "{number}: {other:?}");
        }
    }
}
