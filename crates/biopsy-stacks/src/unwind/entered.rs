//! Which function a call entered, by the call itself: one that ended by jumping into another (a tail call) is on no stack.
//!
//! ```text
//! e8 xx xx xx xx   call, so many bytes behind the return address      (x86-64; calls through memory and registers do not say it)
//! ```

use biopsy_model::{Avma, FileOffset};

use super::Modules;
use crate::elf::ElfFile;

const CALL: u8 = 0xe8;
const CALL_BYTES: u64 = 5;
/// Bytes of a function that are looked at.
const BEGINNING: u64 = 8;
/// What a function may begin with: `endbr64`, and before a jump `bnd`.
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const BND: &[u8] = &[0xf2];
/// `jmp` to where a word in memory says: what stands for a function of another file (PLT).
const JUMP_THROUGH_MEMORY: [u8; 2] = [0xff, 0x25];

/// The function that the call before a return address entered, and where it is in its file. `None`: it is no such call, or what it entered is
/// no function's beginning as unwind information has them, or only leads to one of another file.
pub(super) fn entered(modules: &Modules, return_address: u64) -> Option<(Avma, FileOffset)> {
    let call = code(modules, return_address.checked_sub(CALL_BYTES)?, CALL_BYTES)?;
    let (&CALL, distance) = call.split_first()? else { return None };
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    let target = return_address.checked_add_signed(distance.into())?;
    let (file, svma) = place(modules, target)?;
    if file.unwind_table().function_start(svma)? != svma || leads_elsewhere(&file.code_at(svma, BEGINNING)?) {
        return None;
    }
    Some((Avma(target), FileOffset(file.offset_of_code(svma)?)))
}

fn place(modules: &Modules, address: u64) -> Option<(&ElfFile, u64)> {
    let module = modules.find(address)?;
    Some((module.file.as_deref()?, address.wrapping_sub(module.bias)))
}

fn code(modules: &Modules, address: u64, size: u64) -> Option<Vec<u8>> {
    let (file, svma) = place(modules, address)?;
    file.code_at(svma, size)
}

fn leads_elsewhere(beginning: &[u8]) -> bool {
    let rest = beginning.strip_prefix(ENDBR64).unwrap_or(beginning);
    rest.strip_prefix(BND).unwrap_or(rest).starts_with(&JUMP_THROUGH_MEMORY)
}

#[cfg(test)]
mod tests {
    use super::leads_elsewhere;

    #[test]
    fn what_stands_for_a_function_of_another_file_is_none() {
        for (beginning, expected) in [
            (&[0xff, 0x25, 1, 2, 3, 4, 0x0f, 0x1f][..], true),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1, 2], true),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1], true),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5], false),
            (&[0xe9, 1, 2, 3, 4, 0x90, 0x90, 0x90], false),
            (&[], false),
        ] {
            assert_eq!(leads_elsewhere(beginning), expected, "{beginning:x?}");
        }
    }
}
