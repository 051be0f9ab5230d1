//! Reading values: what everything above [`Image::read`] needs.

use crate::{Absence, Image, ReadError};

/// Size of a page in bytes, as far as images are concerned.
pub const PAGE_SIZE: u64 = 4096;

/// Reads of values over any image.
pub trait MemoryExt: Image {
    /// Fills all of `buffer`.
    ///
    /// # Errors
    /// As [`Image::read`]; the address is that of the first byte that is missing, or the last of all addresses where the buffer would go on
    /// behind it. What is before that byte has been filled in.
    fn read_exact(&self, address: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0usize;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = address
                .checked_add(done as u64)
                .ok_or(ReadError::Missing { address: u64::MAX, why: Absence::Unmapped })?;
            let read = self.read(at, rest)?;
            if read == 0 {
                return Err(ReadError::Missing { address: at, why: Absence::Unmapped });
            }
            done = done.saturating_add(read);
        }
        Ok(())
    }

    /// Reads as much as there is, up to `length` bytes. The caller bounds `length`.
    ///
    /// # Errors
    /// As [`Image::read`], when the first byte is missing.
    fn read_up_to(&self, address: u64, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        let done = self.read(address, &mut bytes)?;
        let at = address.saturating_add(done as u64);
        let more = bytes.get_mut(done..).map_or(0, |rest| self.read_available(at, rest));
        bytes.truncate(done.saturating_add(more));
        Ok(bytes)
    }

    /// Fills `buffer` as far as there are bytes, and says how many: none when the first is missing.
    fn read_available(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.read(at, rest) {
                Ok(more) if more > 0 => done += more,
                _ => break,
            }
        }
        done
    }

    /// A 64-bit little-endian number.
    ///
    /// # Errors
    /// As [`Image::read`].
    fn read_u64(&self, address: u64) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        self.read_exact(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A 32-bit little-endian number.
    ///
    /// # Errors
    /// As [`Image::read`].
    fn read_u32(&self, address: u64) -> Result<u32, ReadError> {
        let mut bytes = [0; 4];
        self.read_exact(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Bytes up to the first zero byte (not included), at most `limit`.
    ///
    /// # Errors
    /// As [`Image::read`], when the first byte is missing.
    fn read_c_string(&self, address: u64, limit: usize) -> Result<Vec<u8>, ReadError> {
        let mut text = self.read_up_to(address, limit)?;
        if let Some(end) = text.iter().position(|&byte| byte == 0) {
            text.truncate(end);
        }
        Ok(text)
    }
}

impl<I: Image + ?Sized> MemoryExt for I {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ImageModule, Mapping, ProcessFacts, Thread};

    /// Bytes at some addresses from the first on, of which one read gives a few at most.
    struct Pieces {
        first: u64,
        bytes: Vec<Option<u8>>,
        at_once: usize,
        process: ProcessFacts,
    }

    impl Pieces {
        fn byte(&self, address: u64) -> Option<u8> {
            *self.bytes.get(usize::try_from(address.checked_sub(self.first)?).ok()?)?
        }
    }

    impl Image for Pieces {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
            let mut read = 0;
            for (slot, distance) in buffer.iter_mut().take(self.at_once).zip(0..) {
                let Some(byte) = address.checked_add(distance).and_then(|at| self.byte(at)) else { break };
                *slot = byte;
                read += 1;
            }
            if read == 0 && !buffer.is_empty() {
                return Err(ReadError::Missing { address, why: Absence::Unmapped });
            }
            Ok(read)
        }

        fn mappings(&self) -> &[Mapping] {
            &[]
        }

        fn threads(&self) -> &[Thread] {
            &[]
        }

        fn modules(&self) -> &[ImageModule] {
            &[]
        }

        fn process(&self) -> &ProcessFacts {
            &self.process
        }
    }

    proptest! {
        #[test]
        fn however_little_one_read_gives_values_are_what_their_bytes_say(
            bytes in prop::collection::vec(prop::option::weighted(0.95, 0..4_u8), 0..40),
            at_once in 1..6_usize, address in 0..44_u64, length in 0..20_usize,
        ) {
            let image = Pieces { first: 0, bytes, at_once, process: ProcessFacts::default() };
            let there: Vec<u8> = (address..).take(length).map_while(|at| image.byte(at)).collect();
            let mut buffer = vec![0xff; length];
            let missing = address + there.len() as u64;
            match image.read_exact(address, &mut buffer) {
                Ok(()) => prop_assert_eq!(&buffer, &there),
                Err(ReadError::Missing { address, .. }) => prop_assert_eq!(address, missing),
                Err(other) => panic!("{other}"),
            }
            prop_assert_eq!(image.read_exact(address, &mut buffer).is_ok(), there.len() == length);
            prop_assert_eq!(image.read_available(address, &mut buffer), there.len());
            prop_assert_eq!(image.read_up_to(address, length).ok(), (length == 0 || !there.is_empty()).then_some(there.clone()));
            let text = there.split(|byte| *byte == 0).next().unwrap_or_default();
            prop_assert_eq!(image.read_c_string(address, length).unwrap_or_default(), text);
            let number = |size: u64| (0..size).rev().try_fold(0, |number, at| Some(number << 8 | u64::from(image.byte(address + at)?)));
            prop_assert_eq!(image.read_u64(address).ok(), number(8));
            prop_assert_eq!(image.read_u32(address).ok().map(u64::from), number(4));
        }
    }

    #[test]
    fn the_last_address_has_none_behind_it() {
        let image = Pieces { first: 0, bytes: Vec::new(), at_once: 1, process: ProcessFacts::default() };
        assert!(image.read_exact(u64::MAX, &mut [0; 2]).is_err());
        assert_eq!(image.read_available(u64::MAX, &mut [0; 2]), 0);
        assert!(image.read_exact(u64::MAX, &mut []).is_ok(), "nothing is asked for");
        let first = u64::MAX - 3;
        let image = Pieces { first, bytes: vec![Some(7); 4], at_once: 3, process: ProcessFacts::default() };
        let mut buffer = [0; 6];
        let missing = image.read_exact(first, &mut buffer).expect_err("there are four");
        assert!(matches!(missing, ReadError::Missing { address: u64::MAX, .. }), "{missing:?}");
        assert_eq!(buffer, [7, 7, 7, 7, 0, 0]);
        assert_eq!(image.read_available(first, &mut buffer), 4);
        assert!(image.read_exact(first, &mut buffer[..4]).is_ok());
    }
}
