//! Numbers of a heap dump, one after the other: big-endian, with identifiers of four or eight bytes.

use std::io::{self, BufRead, Seek, SeekFrom};

/// Why a heap dump cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HprofError {
    /// The file system refuses.
    #[error("reading failed at byte {offset}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// It ends in the middle of something.
    #[error("it ends at byte {length}, in `{field}` at byte {offset}, which takes {wanted} bytes")]
    Cut {
        /// What is not whole.
        field: &'static str,
        /// Where that begins.
        offset: u64,
        /// How long it would be.
        wanted: u64,
        /// Where the file ends.
        length: u64,
    },
    /// A field has a value that it cannot have.
    #[error("`{field}` at byte {offset} cannot be {found:#x}")]
    Unexpected {
        /// Which.
        field: &'static str,
        /// Where.
        offset: u64,
        /// The value.
        found: u64,
    },
    /// There is more of something than is read.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are read.
        limit: u64,
    },
}

/// Reads from front to back. What is claimed to be longer than the file is refused before anything is taken for it.
pub(super) struct Stream<R> {
    from: R,
    offset: u64,
    length: u64,
    wide: bool,
}

impl<R: BufRead + Seek> Stream<R> {
    pub(super) fn new(mut from: R) -> Result<Self, HprofError> {
        let io = |source| HprofError::Io { offset: 0, source };
        let length = from.seek(SeekFrom::End(0)).map_err(io)?;
        from.seek(SeekFrom::Start(0)).map_err(io)?;
        Ok(Self { from, offset: 0, length, wide: true })
    }

    /// Identifiers have eight bytes, or four.
    pub(super) fn set_wide(&mut self, wide: bool) {
        self.wide = wide;
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.offset >= self.length
    }

    pub(super) fn id_bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    fn check(&self, field: &'static str, wanted: u64) -> Result<(), HprofError> {
        if wanted > self.length.saturating_sub(self.offset) {
            return Err(HprofError::Cut { field, offset: self.offset, wanted, length: self.length });
        }
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], HprofError> {
        let mut bytes = [0; N];
        self.fill(field, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, field: &'static str, bytes: &mut [u8]) -> Result<(), HprofError> {
        self.check(field, bytes.len() as u64)?;
        let io = |source| HprofError::Io { offset: self.offset, source };
        self.from.read_exact(bytes).map_err(io)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// The next `count` bytes, into a buffer that is used again.
    pub(super) fn take(
        &mut self,
        field: &'static str,
        count: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), HprofError> {
        self.check(field, count.into())?;
        into.resize(count as usize, 0);
        self.fill(field, into)
    }

    pub(super) fn skip(&mut self, field: &'static str, count: u64) -> Result<(), HprofError> {
        self.check(field, count)?;
        let io = |source| HprofError::Io { offset: self.offset, source };
        self.from.seek_relative(i64::try_from(count).unwrap_or(i64::MAX)).map_err(io)?;
        self.offset += count;
        Ok(())
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, HprofError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, HprofError> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, HprofError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, HprofError> {
        self.array(field).map(u64::from_be_bytes)
    }

    pub(super) fn id(&mut self, field: &'static str) -> Result<u64, HprofError> {
        if self.wide { self.u64(field) } else { self.u32(field).map(u64::from) }
    }

    pub(super) fn unexpected(&self, field: &'static str, found: impl Into<u64>) -> HprofError {
        HprofError::Unexpected { field, offset: self.offset, found: found.into() }
    }
}
