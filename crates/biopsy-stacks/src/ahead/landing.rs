//! Landing pads: where a call goes on when what it calls throws or panics. The compiler states them for each call site, and
//! what is done there is what is held there.
//!
//! ```text
//! encoding of the base  [base]  encoding of types  [offset of types]  encoding of call sites  length of the table
//! each call site: start, length, landing pad (all from the function's start; pad 0: none), action (ULEB)
//! ```
//!
//! Specification: Itanium C++ ABI, Exception Handling Tables; encodings in LSB Core, 10.5 (`DW_EH_PE_*`).

use gimli::{EndianSlice, LittleEndian, Reader};

/// Call sites of one function at most.
const SITES: usize = 20_000;

const OMITTED: u8 = 0xff;
/// Bits of an encoding that say how the number is written; the others say what it is relative to.
const FORMAT: u8 = 0x0f;
const RELATIVE: u8 = 0xf0;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The landing pad of the call around `offset`, both from the start of the function; `None`: nothing is to be done there, or
/// the table is damaged.
pub(super) fn pad_of(table: &[u8], offset: u64) -> Option<u64> {
    let mut rest = EndianSlice::new(table, LittleEndian);
    if rest.read_u8().ok()? != OMITTED {
        // Pads that are not relative to the function's start are met nowhere.
        return None;
    }
    if rest.read_u8().ok()? != OMITTED {
        rest.read_uleb128().ok()?;
    }
    let encoding = rest.read_u8().ok()?;
    let length = usize::try_from(rest.read_uleb128().ok()?).ok()?;
    let mut sites = rest.split(length.min(rest.len())).ok()?;
    for _ in 0..SITES {
        let start = number(&mut sites, encoding)?;
        let length = number(&mut sites, encoding)?;
        let pad = number(&mut sites, encoding)?;
        sites.read_uleb128().ok()?;
        if offset < start {
            return None;
        }
        if offset - start < length {
            return (pad != 0).then_some(pad);
        }
    }
    None
}

fn number(bytes: &mut Bytes<'_>, encoding: u8) -> Option<u64> {
    if encoding & RELATIVE != 0 {
        return None;
    }
    match encoding & FORMAT {
        0x01 => bytes.read_uleb128().ok(),
        0x02 => bytes.read_u16().ok().map(u64::from),
        0x03 => bytes.read_u32().ok().map(u64::from),
        0x00 | 0x04 => bytes.read_u64().ok(),
        0x0b => bytes.read_i32().ok().and_then(|value| u64::try_from(value).ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::pad_of;

    /// Sites [0x10, 0x15): pad 0x80, [0x20, 0x30): none, [0x30, 0x31): pad 0x90.
    const TABLE: &[u8] = &[
        0xff, // no base
        0xff, // no types
        0x01, // ULEB
        13,   // bytes
        0x10, 0x05, 0x80, 0x01, 0x00, //
        0x20, 0x10, 0x00, 0x00, //
        0x30, 0x01, 0x90, 0x01, // the action is cut off
    ];

    #[test]
    fn a_call_has_the_pad_of_its_site() {
        assert_eq!(pad_of(TABLE, 0x10), Some(0x80));
        assert_eq!(pad_of(TABLE, 0x14), Some(0x80));
        assert_eq!(pad_of(TABLE, 0x15), None, "between sites nothing may throw");
        assert_eq!(pad_of(TABLE, 0x25), None, "nothing to clean up");
        assert_eq!(pad_of(TABLE, 0x30), None, "damaged");
        assert_eq!(pad_of(TABLE, 0), None);
        for length in 0..TABLE.len() {
            let _ = pad_of(&TABLE[..length], 0x25);
        }
    }
}
