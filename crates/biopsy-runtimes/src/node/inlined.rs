//! Which functions the optimizing compiler put into another one, at a place in its code.
//!
//! ```text
//! JSFunction -> Code: deoptimization data, table of positions, first instruction, flags, bytes of instructions
//! table of positions        { steps of code, steps of position } ... of calls only, as in byte code
//! a position                bit 0: outside of a script; 30 bits: place + 1; 16 bits: number + 1 of what was put in, or 0
//! deoptimization data       [functions], [what was put in: { position of the call, 8; which function, 4; unused, 4 } ...]
//! ```
//! Places of other instructions than calls are not kept: of a frame that called another one all is known, of the innermost one nothing.
//! `src/codegen/source-position.h`, `src/objects/code.h`.

use super::objects::{Objects, small};
use super::positions::position_before;

/// Bytes of a table.
const TABLE: usize = 1 << 20;
/// Bytes from the first one of what makes a call to its last one. V8's own calls (to allocate, to look whether it is to stop) have no
/// position, and must not be given that of a call before them.
const CALL: i64 = 32;
/// How deep functions are put into each other at most; V8 stops long before.
const DEEPEST: usize = 64;
/// Bytes of one row of what was put in.
const ROW: usize = 16;

/// A function that was put into another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Inlined {
    /// What it shares with all of the same text.
    pub(super) shared: u64,
    /// Where in its script the call is.
    pub(super) position: Option<u32>,
}

/// A position in two parts: place in the script, and the number of what was put in.
fn parts(position: u64) -> (Option<u32>, Option<usize>) {
    let place = u32::try_from((position >> 1) & 0x3fff_ffff).ok().and_then(|place| place.checked_sub(1));
    let number = usize::try_from((position >> 31) & 0xffff).ok().and_then(|number| number.checked_sub(1));
    (place.filter(|_| position & 1 == 0), number)
}

impl Objects<'_> {
    /// What was put into `function` at the call around `address`, innermost first; empty where that is not known.
    pub(super) fn inlined_at(&self, function: u64, address: u64) -> Vec<Inlined> {
        self.read_inlined(function, address).unwrap_or_default()
    }

    fn read_inlined(&self, function: u64, address: u64) -> Option<Vec<Inlined>> {
        let layout = self.layout.code?;
        let code = self.word(function, layout.of_function)?;
        if self.kind(code) != Some(layout.kind) {
            return None;
        }
        let offset = address.checked_sub(self.word(code, layout.start)?)?;
        let half = |at| self.word(code, at).map(|word| word as u32);
        if offset >= u64::from(half(layout.size)?)
            || half(layout.flags)? & layout.kind_mask <= layout.baseline
        {
            return None;
        }
        let positions = self.table(self.word(code, layout.positions)?)?;
        let offset = u32::try_from(offset).ok()?;
        let (at, position) = position_before(&positions, offset)?;
        if i64::from(offset) - at > CALL {
            return None;
        }
        let data = self.word(code, layout.deoptimization)?;
        let entry = |array: u64, number: u64| {
            let length = u64::try_from(small(self.word(array, self.layout.array_length)?)?).ok()?;
            let at = self.layout.array_data.checked_add(number.checked_mul(8)?)?;
            (number < length).then(|| self.word(array, at)).flatten()
        };
        let rows = self.table(entry(data, layout.inlined)?)?;
        let literals = entry(data, layout.literals)?;
        let mut found = Vec::new();
        let (mut place, mut number) = parts(u64::try_from(position).ok()?);
        while let Some(at) = number {
            let row = rows.get(at.checked_mul(ROW)?..)?.first_chunk::<ROW>()?;
            let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *row;
            let which = u32::from_le_bytes([i, j, k, l]);
            let shared = entry(literals, which.into())?;
            if found.len() >= DEEPEST || self.kind(shared) != Some(self.layout.types.shared) {
                return None;
            }
            found.push(Inlined { shared, position: place });
            (place, number) = parts(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        }
        Some(found)
    }

    /// The bytes of a table.
    fn table(&self, table: u64) -> Option<Vec<u8>> {
        self.kind(table).filter(|kind| self.layout.types.bytes.contains(kind))?;
        let length = usize::try_from(small(self.word(table, self.layout.array_length)?)?).ok()?;
        Some(self.memory.bytes(self.field(table, self.layout.array_data)?, length.min(TABLE)))
    }
}
