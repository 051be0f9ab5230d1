//! Unwind rules small enough to be kept for every address that was met.

use gimli::{
    CfaRule, EndianSlice, FrameDescriptionEntry, LittleEndian, Register, RegisterRule, UnwindTableRow,
};

use super::registers::{CALLEE_SAVED, RIP};

/// Bytes of a section of unwind information.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// How to get from a frame to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// The file says nothing about this address.
    Nothing,
    /// The return address is undefined: this function was called by nobody (`_start`, `clone3`).
    Root,
    /// The usual case.
    Offsets(FrameRule),
    /// The frame pointer leads to the caller's and the return address, the word below it is the caller's stack pointer.
    Linked,
    /// The return address is at the stack pointer if compiled code is there, else there is a frame pointer.
    Stub,
    /// Expressions, or numbers too large for `Offsets`: evaluated from the table each time.
    Evaluate,
}

/// The frame (its CFA, the stack pointer before the call that made it) is at a register plus an offset; the return address is
/// just below it (CFA - 8), and so are the saved registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRule {
    /// DWARF number: 7 is `rsp`, 6 is `rbp`.
    pub cfa_register: u8,
    /// From the register to the CFA, in bytes.
    pub cfa_offset: i32,
    /// For `rbx`, `rbp`, `r12`, `r13`, `r14`, `r15`: where it is saved, in words from the CFA, or [`UNCHANGED`] or [`LOST`].
    pub saved: [i16; CALLEE_SAVED.len()],
}

impl FrameRule {
    /// The rule of a frame whose return address is `offset` bytes above a register, and whose registers are where `saved` says:
    /// by position in `CALLEE_SAVED`, register and offset.
    pub(super) fn below(
        register: u16,
        offset: i64,
        saved: impl Fn(usize) -> Option<(u16, i64)>,
    ) -> Option<Self> {
        let cfa = offset.checked_add(8)?;
        let mut slots = [UNCHANGED; CALLEE_SAVED.len()];
        for (position, slot) in slots.iter_mut().enumerate() {
            let Some((base, place)) = saved(position) else { continue };
            // Pushed before the frame pointer was set, and met after it: not the case in any prologue.
            if base != register {
                return None;
            }
            let distance = place.checked_sub(cfa)?;
            let words = if distance % 8 == 0 { i16::try_from(distance / 8).ok()? } else { LOST };
            *slot = if words == UNCHANGED { LOST } else { words };
        }
        Some(Self {
            cfa_register: u8::try_from(register).ok()?,
            cfa_offset: i32::try_from(cfa).ok()?,
            saved: slots,
        })
    }
}

/// Not saved: the caller's value is still in the register.
pub const UNCHANGED: i16 = i16::MAX;
/// Not recoverable.
pub const LOST: i16 = i16::MIN;

impl Rule {
    pub(crate) fn from_row(row: &UnwindTableRow<usize>, entry: &FrameDescriptionEntry<Slice<'_>>) -> Self {
        let return_address = entry.cie().return_address_register();
        match row.register(return_address) {
            Some(RegisterRule::Undefined) => return Self::Root,
            Some(RegisterRule::Offset(-8)) if return_address.0 == RIP && !entry.is_signal_trampoline() => {}
            _ => return Self::Evaluate,
        }
        Self::offsets(row).map_or(Self::Evaluate, Self::Offsets)
    }

    fn offsets(row: &UnwindTableRow<usize>) -> Option<FrameRule> {
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let mut saved = [UNCHANGED; CALLEE_SAVED.len()];
        for (slot, register) in saved.iter_mut().zip(CALLEE_SAVED) {
            *slot = match row.register(Register(register)) {
                None | Some(RegisterRule::SameValue) => UNCHANGED,
                Some(RegisterRule::Undefined) => LOST,
                Some(RegisterRule::Offset(offset)) if offset % 8 == 0 => {
                    i16::try_from(offset / 8).ok().filter(|words| *words != UNCHANGED && *words != LOST)?
                }
                Some(_) => return None,
            };
        }
        // A rule for the stack pointer other than "the CFA" is for the evaluator.
        if row.register(Register(super::registers::RSP)).is_some() {
            return None;
        }
        Some(FrameRule {
            cfa_register: u8::try_from(register.0).ok()?,
            cfa_offset: i32::try_from(*offset).ok()?,
            saved,
        })
    }
}
