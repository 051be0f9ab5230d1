//! The map of code: where each piece of compiled code starts (`nibblemapmacros.h` of dotnet/runtime).
//!
//! A word of 32 bits is about 256 bytes of code, a nibble of it, the highest first, about 32. A nibble of 1 to 8 says that code
//! starts there, at 4 * (nibble - 1) bytes. In version 2 a word whose lowest nibble is above 8 is no row of nibbles but says where
//! the code starts that all of its 256 bytes belong to.

use super::super::{Memory, RuntimeError};

/// Words that are walked back: a method of 64 MiB.
const BACK: u64 = 1 << 18;

/// Where the code starts that `ip` is in.
pub(super) fn code_start(
    memory: &Memory<'_>,
    base: u64,
    map: u64,
    pointers: bool,
    ip: u64,
) -> Result<Option<u64>, RuntimeError> {
    let Some(offset) = ip.checked_sub(base) else { return Ok(None) };
    let word_at = |index: u64| memory.u32(map.wrapping_add(index * 4));
    let pointer = |word: u32| {
        let rounded = u64::from(word & !15);
        base.wrapping_add(rounded).wrapping_add(u64::from((word & 15) - 9) << 2)
    };
    let start = |index: u64, position: u32, nibble: u32| {
        base.wrapping_add(index * 256 + u64::from(position) * 32 + u64::from(nibble - 1) * 4)
    };
    let index = offset >> 8;
    let within = ((offset & 31) >> 2) as u32 + 1;
    let position = ((offset >> 5) & 7) as u32;
    let word = word_at(index)?;
    if pointers && word & 15 > 8 {
        return Ok(Some(pointer(word)));
    }
    let mut bits = word >> (28 - 4 * position);
    // Code that starts in the same 32 bytes, before the address.
    if bits & 15 != 0 && bits & 15 <= within {
        return Ok(Some(start(index, position, bits & 15)));
    }
    let mut at = position;
    while at > 0 {
        bits >>= 4;
        at -= 1;
        if bits & 15 != 0 {
            return Ok(valid(bits & 15).map(|nibble| start(index, at, nibble)));
        }
    }
    for back in 1..=BACK.min(index) {
        let index = index - back;
        let word = word_at(index)?;
        if word == 0 {
            if pointers {
                return Ok(None);
            }
            continue;
        }
        if pointers && word & 15 > 8 {
            return Ok(Some(pointer(word)));
        }
        let mut bits = word;
        let mut at = 7;
        while bits & 15 == 0 {
            bits >>= 4;
            at -= 1;
        }
        return Ok(valid(bits & 15).map(|nibble| start(index, at, nibble)));
    }
    Ok(None)
}

fn valid(nibble: u32) -> Option<u32> {
    (1..=8).contains(&nibble).then_some(nibble)
}
