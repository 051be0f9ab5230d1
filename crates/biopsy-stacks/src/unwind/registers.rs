//! Registers of a user thread, by their DWARF numbers (System V ABI for x86-64, figure 3.36).

/// DWARF number of `rbx`.
pub(crate) const RBX: u16 = 3;
/// DWARF number of `rbp`.
pub(crate) const RBP: u16 = 6;
/// DWARF number of `rsp`.
pub(crate) const RSP: u16 = 7;
/// DWARF number of the return address column, which stands for `rip`.
pub(crate) const RIP: u16 = 16;
/// What a function must give back as it found it, apart from `rsp`.
pub(crate) const CALLEE_SAVED: [u16; 6] = [RBX, RBP, 12, 13, 14, 15];

/// The registers of a sampled thread. Values are as the kernel reports them, so plain numbers: only some of them
/// are addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserRegisters {
    /// Instruction pointer (`rip`).
    pub ip: u64,
    /// Stack pointer (`rsp`).
    pub sp: u64,
    /// `rbp`: the frame pointer, or whatever the code uses it for.
    pub fp: u64,
    /// `rbx`, `r12`, `r13`, `r14`, `r15`, where they were sampled. Few functions compute their frame from them
    /// (lazy binding in the dynamic loader, hand-written assembly), so they may be left out.
    pub saved: Option<[u64; 5]>,
}

impl UserRegisters {
    /// The three registers without which nothing can be unwound.
    pub fn new(ip: u64, sp: u64, fp: u64) -> Self {
        Self { ip, sp, fp, saved: None }
    }
}

/// Registers of the frame that is being unwound; callers know fewer and fewer of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    values: [u64; 17],
    known: u32,
}

impl Registers {
    pub(crate) fn new(user: &UserRegisters) -> Self {
        let mut registers = Self { values: [0; 17], known: 0 };
        registers.set(RIP, user.ip);
        registers.set(RSP, user.sp);
        registers.set(RBP, user.fp);
        if let Some(saved) = user.saved {
            for (register, value) in [RBX, 12, 13, 14, 15].into_iter().zip(saved) {
                registers.set(register, value);
            }
        }
        registers
    }

    pub(crate) fn get(&self, register: u16) -> Option<u64> {
        let value = *self.values.get(usize::from(register))?;
        (self.known & (1 << register) != 0).then_some(value)
    }

    pub(crate) fn set(&mut self, register: u16, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(register)) {
            *slot = value;
            self.known |= 1 << register;
        }
    }

    pub(crate) fn forget(&mut self, register: u16) {
        if usize::from(register) < self.values.len() {
            self.known &= !(1 << register);
        }
    }

    /// What a call leaves: only callee-saved registers keep their values.
    pub(crate) fn keep_callee_saved(&mut self) {
        self.known &= CALLEE_SAVED.iter().fold(0, |mask, register| mask | 1 << register);
    }

    /// Always known.
    pub(crate) fn ip(&self) -> u64 {
        self.values[usize::from(RIP)]
    }

    /// Always known.
    pub(crate) fn sp(&self) -> u64 {
        self.values[usize::from(RSP)]
    }
}
