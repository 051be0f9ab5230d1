//! Numbers as HotSpot packs them (`UNSIGNED5`): line numbers, debug information, places of fields.
//!
//! ```text
//! up to version 19:  sum of byte[i] << 6 * i;          a byte from 192 on is not the last
//! from version 20:   sum of (byte[i] - 1) << 6 * i;    the same, and 0 is no byte of a number
//! ```
//! At most five bytes; the fifth is always the last. `src/hotspot/share/utilities/unsigned5.hpp`.

/// From here on a byte is not the last of its number.
const LAST_BELOW: u8 = 192;
const MOST_BYTES: usize = 5;
const BITS: u32 = 6;

/// Which form a version writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Zero is a byte as any other.
    WithZero,
    /// Zero ends things, and is no part of a number.
    WithoutZero,
}

impl Form {
    /// Of a major version.
    pub(super) fn of(version: u32) -> Self {
        if version < 20 { Self::WithZero } else { Self::WithoutZero }
    }
}

/// Reads packed numbers from front to back; `None` once there is no whole one.
#[derive(Clone, Debug)]
pub(super) struct Packed<'b> {
    bytes: &'b [u8],
    form: Form,
}

impl<'b> Packed<'b> {
    pub(super) fn new(bytes: &'b [u8], form: Form) -> Self {
        Self { bytes, form }
    }

    /// The next byte as it is.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// The next number.
    pub(super) fn number(&mut self) -> Option<u32> {
        let less = match self.form {
            Form::WithZero => 0,
            Form::WithoutZero => 1,
        };
        let mut sum = 0u32;
        for position in 0..MOST_BYTES {
            let byte = self.byte()?;
            let part = byte.checked_sub(less)?;
            sum = sum.wrapping_add(u32::from(part) << (BITS * position as u32));
            if byte < LAST_BELOW {
                break;
            }
        }
        Some(sum)
    }

    /// The next number that has a sign, in its lowest bit.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_goes_on_while_its_bytes_are_large() {
        let mut old = Packed::new(&[7, 192, 1, 255, 255, 255, 255, 255], Form::WithZero);
        assert_eq!(old.number(), Some(7));
        assert_eq!(old.number(), Some(192 + 64));
        // The fifth byte is the last, whatever it is; what does not fit wraps.
        assert!(old.number().is_some());
        assert_eq!(old.number(), None);
        let mut new = Packed::new(&[8, 193, 2], Form::WithoutZero);
        assert_eq!(new.number(), Some(7));
        assert_eq!(new.number(), Some(192 + 64));
    }

    #[test]
    fn zero_is_no_byte_of_a_number_in_the_newer_form() {
        assert_eq!(Packed::new(&[0], Form::WithoutZero).number(), None);
        assert_eq!(Packed::new(&[0], Form::WithZero).number(), Some(0));
    }

    #[test]
    fn the_lowest_bit_is_the_sign() {
        let mut packed = Packed::new(&[0, 1, 2, 3], Form::WithZero);
        let all: Vec<_> = std::iter::from_fn(|| packed.signed()).collect();
        assert_eq!(all, [0, -1, 1, -2]);
    }
}
