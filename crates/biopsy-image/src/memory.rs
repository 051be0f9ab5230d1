//! Reading values: what everything above [`Image::read`] needs.

use crate::{Absence, Image, ReadError};

/// Size of a page in bytes, as far as images are concerned.
pub const PAGE_SIZE: u64 = 4096;

/// Reads of values over any image.
pub trait MemoryExt: Image {
    /// Fills all of `buffer`.
    ///
    /// # Errors
    /// As [`Image::read`]; the address is that of the first byte that is missing.
    fn read_exact(&self, address: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0usize;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = address
                .checked_add(done as u64)
                .ok_or(ReadError::Missing { address, why: Absence::Unmapped })?;
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
