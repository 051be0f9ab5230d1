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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_leaves_what_the_callee_must_give_back() {
        let user = UserRegisters { ip: 1, sp: 2, fp: 3, saved: Some([4, 5, 6, 7, 8]) };
        let mut registers = Registers::new(&user);
        registers.set(0, 9);
        registers.keep_callee_saved();
        for (register, value) in [
            (RBX, Some(4)),
            (RBP, Some(3)),
            (12, Some(5)),
            (13, Some(6)),
            (14, Some(7)),
            (15, Some(8)),
            (0, None),
            (RSP, None),
            (RIP, None),
        ] {
            assert_eq!(registers.get(register), value, "register {register}");
        }
        assert_eq!((registers.ip(), registers.sp()), (1, 2), "the values themselves stay");
    }

    #[test]
    fn registers_that_nobody_told_or_that_do_not_exist_are_not_known() {
        let mut registers = Registers::new(&UserRegisters::new(1, 2, 3));
        assert_eq!((registers.get(RIP), registers.get(RSP), registers.get(RBP)), (Some(1), Some(2), Some(3)));
        for register in [0, RBX, 12, 15, 17, 31, 32, 63, 64, u16::MAX] {
            assert_eq!(registers.get(register), None, "register {register}");
        }
        for register in [17, 31, 32, 64, u16::MAX] {
            registers.set(register, 5);
            registers.forget(register);
            assert_eq!(registers.get(register), None, "register {register}");
        }
        registers.forget(RBP);
        assert_eq!(registers.get(RBP), None);
        registers.set(RBP, 0);
        assert_eq!(registers.get(RBP), Some(0), "zero is a value");
    }
}
