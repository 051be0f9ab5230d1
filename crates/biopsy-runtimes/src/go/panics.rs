//! What a goroutine panics with, where that is a text. Before the runtime ends a program it makes texts of errors and of all that can
//! say what it is (`preprintpanics`), so that most are.
//!
//! ```text
//! g        32 the innermost panic
//! _panic   8 type of the value, 16 the value; without the first field: 0 and 8
//! _type    23 its kind, in the lower 5 bits
//! string   0 its bytes, 8 how many
//! ```
//! A type is believed that lies where the linker put the descriptions of types.

use std::ops::Range;

use crate::Memory;

const PANIC: u64 = 32;
const VALUES: [u64; 2] = [8, 0];
const KIND: u64 = 23;
const STRING: u8 = 24;

/// `goroutine`: its address. `types`: where descriptions of types lie. `limit`: bytes of the text.
pub(super) fn text(memory: &Memory<'_>, goroutine: u64, types: &Range<u64>, limit: usize) -> Option<String> {
    let panic = memory.u64(goroutine.checked_add(PANIC)?).filter(|panic| *panic != 0)?;
    VALUES.iter().find_map(|value| {
        let at = panic.checked_add(*value)?;
        let kind = memory.u64(at).filter(|kind| types.contains(kind))?;
        if memory.u8(kind.checked_add(KIND)?)? & 31 != STRING {
            return None;
        }
        let string = memory.u64(at.checked_add(8)?)?;
        let (bytes, length) = (memory.u64(string)?, memory.u64(string.checked_add(8)?)?);
        let length = usize::try_from(length).ok().filter(|length| (1..=limit).contains(length))?;
        String::from_utf8(memory.bytes(bytes, length)).ok().filter(|text| text.len() == length)
    })
}
