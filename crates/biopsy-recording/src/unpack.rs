//! Unpacking members that are packed with zstd in themselves, within limits.

use std::io::{self, BufReader, Read};

use zstd::Decoder;

use crate::Limits;

/// The unpacked bytes of a member. They end with an error where more come out than [`Limits::unpacked`] allows for what
/// went in so far: 33 kB of zstd can stand for 1 GiB.
pub struct Unpacked<R: Read> {
    decoder: Decoder<'static, BufReader<Counted<R>>>,
    limits: Limits,
    given: u64,
}

impl<R: Read> Unpacked<R> {
    /// Begins to unpack.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(packed: R, limits: &Limits) -> io::Result<Self> {
        let decoder = Decoder::new(Counted { inner: packed, taken: 0 })?;
        Ok(Self { decoder, limits: limits.clone(), given: 0 })
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer)?;
        self.given = self.given.saturating_add(count as u64);
        let taken = self.decoder.get_ref().get_ref().taken;
        let limit = self.limits.unpacked(taken);
        if self.given > limit {
            let given = self.given;
            let problem = format!("{given} bytes come out of {taken} packed ones, the limit is {limit}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(count)
    }
}

impl<R: Read> std::fmt::Debug for Unpacked<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").field("given", &self.given).finish_non_exhaustive()
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    taken: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken = self.taken.saturating_add(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(bytes: &[u8], limits: &Limits) -> io::Result<u64> {
        io::copy(&mut Unpacked::new(bytes, limits)?, &mut io::sink())
    }

    #[test]
    fn a_bomb_ends_with_an_error_before_it_is_unpacked() {
        let bomb = zstd::encode_all(io::repeat(b'\n').take(64 << 20), 1).unwrap();
        let limits = Limits { free_bytes: 1 << 20, ..Limits::default() };
        let error = unpacked(&bomb, &limits).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("packed ones, the limit is"), "{text}");
        let given: u64 = text.split(' ').next().unwrap().parse().unwrap();
        assert!(given < (4 << 20), "{text}");
        assert_eq!(unpacked(&bomb, &Limits::default()).unwrap(), 64 << 20, "so much may come from nothing");
    }

    #[test]
    fn what_packs_like_data_is_not_limited() {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()
        };
        let bytes: Vec<u8> = std::iter::repeat_with(|| noise()[3]).take(1 << 20).collect();
        let packed = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        let limits = Limits { free_bytes: 0, ratio: 2, ..Limits::default() };
        assert_eq!(unpacked(&packed, &limits).unwrap(), 1 << 20);
    }
}
