//! The compiler's own map from native code to IL, as the runtime keeps it beside each compiled method.
//!
//! Formats: `debuginfostore.cpp` of the runtime (8, 9), `docs/design/datacontracts/DebugInfo.md` (10 and later). Numbers are of
//! nibbles: three bits of the value each, highest first, and a bit that says whether another follows.
//!
//! ```text
//! 8, 9   flags u8; bytes of bounds, bytes of variables; bounds: count, then native delta, IL + 3, source of each
//! 10     the same header; bounds: count, bits of delta - 1, bits of IL - 1, then packed: source 2 bits, delta, IL + 3
//! ```

use super::IlMap;

/// What is read of the information of one method: more is not looked at.
pub(crate) const DEBUG_INFO_BYTES: usize = 64 << 10;
/// Pairs of one method.
const PAIRS: u32 = 1 << 16;
/// IL offsets are stored plus three, so that the special ones come first.
const BIAS: u32 = 3;
/// In place of the size of bounds: the numbers of two kinds of bounds follow.
const TWO_BOUNDS: u32 = u32::MAX;

/// How a version writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DebugInfoFormat {
    /// .NET 8 and 9.
    Nibbles,
    /// .NET 10.
    Packed,
}

impl DebugInfoFormat {
    /// Of a runtime's major version; `None`: not known.
    #[must_use]
    pub(crate) fn of_version(major: u32) -> Option<Self> {
        match major {
            5..=9 => Some(Self::Nibbles),
            10 => Some(Self::Packed),
            _ => None,
        }
    }
}

/// The map from the bytes at a compiled method's debug information. `None`: there is none, it is damaged, or it has parts in front
/// whose size is not reported (methods that count their loops).
#[must_use]
pub(crate) fn parse_debug_info(bytes: &[u8], format: DebugInfoFormat) -> Option<IlMap> {
    let (&flags, bytes) = bytes.split_first()?;
    if flags != 0 {
        return None;
    }
    let mut header = Nibbles::new(bytes);
    let mut size = header.number()?;
    if size == TWO_BOUNDS {
        size = header.number()?;
        // Those of the code without instrumentation, which lie behind.
        header.number()?;
    }
    let _variables = header.number()?;
    let bounds = bytes.get(header.byte_offset()..)?;
    let bounds = bounds.get(..size as usize)?;
    let mut nibbles = Nibbles::new(bounds);
    let count = nibbles.number().filter(|count| *count <= PAIRS)?;
    match format {
        DebugInfoFormat::Nibbles => by_nibbles(nibbles, count),
        DebugInfoFormat::Packed => packed(bounds, nibbles, count),
    }
}

fn by_nibbles(mut nibbles: Nibbles<'_>, count: u32) -> Option<IlMap> {
    let mut native = 0_u32;
    let mut pairs = Vec::new();
    for _ in 0..count {
        native = native.checked_add(nibbles.number()?)?;
        let il = nibbles.number()?.wrapping_sub(BIAS);
        let _source = nibbles.number()?;
        pairs.push((native, il));
    }
    Some(IlMap::new(pairs))
}

fn packed(bounds: &[u8], mut nibbles: Nibbles<'_>, count: u32) -> Option<IlMap> {
    const SOURCE_BITS: u32 = 2;
    let delta_bits = nibbles.number()?.checked_add(1).filter(|bits| *bits <= 32)?;
    let il_bits = nibbles.number()?.checked_add(1).filter(|bits| *bits <= 32)?;
    // At most 66 bits, so that two words are enough.
    let entry_bits = SOURCE_BITS + delta_bits + il_bits;
    let data = bounds.get(nibbles.byte_offset()..)?;
    let mut native = 0_u32;
    let mut pairs = Vec::new();
    for entry in 0..u64::from(count) {
        let at = entry * u64::from(entry_bits);
        let start = usize::try_from(at / 8).ok()?;
        let end = usize::try_from((at + u64::from(entry_bits)).div_ceil(8)).ok()?;
        let mut word = [0; 16];
        let piece = data.get(start..end)?;
        word.get_mut(..piece.len())?.copy_from_slice(piece);
        let value = u128::from_le_bytes(word) >> (at % 8) >> SOURCE_BITS;
        let field = |shift: u32, bits: u32| u32::try_from((value >> shift) & ((1 << bits) - 1)).ok();
        native = native.checked_add(field(0, delta_bits)?)?;
        pairs.push((native, field(delta_bits, il_bits)?.wrapping_sub(BIAS)));
    }
    Some(IlMap::new(pairs))
}

/// Reads nibbles, the lower one of a byte first.
#[derive(Clone, Copy)]
struct Nibbles<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl<'a> Nibbles<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, next: 0 }
    }

    fn number(&mut self) -> Option<u32> {
        let mut value = 0_u32;
        // 11 nibbles hold 32 bits.
        for _ in 0..11 {
            let byte = *self.bytes.get(self.next / 2)?;
            let nibble = if self.next.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
            self.next += 1;
            value = value << 3 | u32::from(nibble & 7);
            if nibble & 8 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Of the first byte behind what was read.
    fn byte_offset(&self) -> usize {
        self.next.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes nibbles as the runtime does.
    fn nibbles(numbers: &[u32]) -> Vec<u8> {
        let mut all = Vec::new();
        for &number in numbers {
            let count = (0..11).find(|count| u64::from(number) >> (3 * (count + 1)) == 0).unwrap();
            for position in (0..=count).rev() {
                let more = if position > 0 { 8 } else { 0 };
                all.push(u8::try_from(number >> (3 * position) & 7).unwrap() | more);
            }
        }
        all.chunks(2).map(|pair| pair[0] | pair.get(1).copied().unwrap_or(0) << 4).collect()
    }

    fn with_header(bounds: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(nibbles(&[u32::try_from(bounds.len()).unwrap(), 0]));
        bytes.extend(bounds);
        bytes
    }

    #[test]
    fn nibbles_of_the_documentation() {
        for (number, bytes) in [(8, &[0x09][..]), (63, &[0x7f]), (512, &[0x89, 0x08]), (513, &[0x89, 0x18])] {
            assert_eq!(Nibbles::new(bytes).number(), Some(number));
            assert_eq!(nibbles(&[number]), bytes);
        }
    }

    #[test]
    fn both_formats() {
        // Prologue (-2), IL 0 at native 9, IL 70 at native 520.
        let bounds = nibbles(&[3, 0, 1, 1, 9, 3, 1, 511, 73, 2]);
        let map = parse_debug_info(&with_header(&bounds), DebugInfoFormat::Nibbles).unwrap();
        let asked = |map: &IlMap| [0, 9, 519, 520, 9999].map(|native| map.il_offset(native).unwrap());
        assert_eq!(asked(&map), [0, 0, 0, 70, 70]);
        let mut bounds = nibbles(&[3, 8, 6]);
        let mut bits = 0_u128;
        for (position, (delta, il)) in [(0_u128, 1_u128), (9, 3), (511, 73)].into_iter().enumerate() {
            bits |= (1 | delta << 2 | il << 11) << (position * 18);
        }
        bounds.extend(&bits.to_le_bytes()[..7]);
        let map = parse_debug_info(&with_header(&bounds), DebugInfoFormat::Packed).unwrap();
        assert_eq!(asked(&map), [0, 0, 0, 70, 70]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            for format in [DebugInfoFormat::Nibbles, DebugInfoFormat::Packed] {
                let _ = parse_debug_info(&bytes, format);
            }
        }
    }
}
