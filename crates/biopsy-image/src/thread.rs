//! Threads and their registers.

use biopsy_model::Tid;

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

/// A signal that a thread was stopped by or died of.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ThreadSignal {
    /// Number (signal(7)).
    pub number: i32,
    /// `si_code` (sigaction(2)), where known.
    pub code: Option<i32>,
    /// Address of the fault (`si_addr`), for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP, where known.
    pub address: Option<u64>,
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
