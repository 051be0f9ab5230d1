//! The copied part of a thread's stack.

/// Bytes of a stack, as the kernel copied them at a sample.
#[derive(Clone, Copy, Debug)]
pub struct StackMemory<'a> {
    /// Address of `bytes[0]`: the stack pointer at the sample.
    pub base: u64,
    /// The bytes from there upwards, towards the caller.
    pub bytes: &'a [u8],
}

/// Memory of a process beyond a copied piece of stack: an image of it.
pub trait ProcessMemory {
    /// Fills `buffer` with what is at `address`; `false` when not all of it is there.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// Why a word could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// Above the copy, and near enough to lie on the same stack: a longer copy would have had it.
    Beyond,
    /// Not on this stack.
    Elsewhere,
}

/// A thread's stack is 8 MiB by default and rarely larger: further away than this is not the same stack.
const SAME_STACK: u64 = 64 << 20;

/// Reads words and remembers how far up it had to read.
pub(crate) struct Reader<'a> {
    memory: StackMemory<'a>,
    /// Asked for what the copy does not have.
    whole: Option<&'a dyn ProcessMemory>,
    /// End of the highest word read.
    pub(crate) highest: u64,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reader").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(memory: StackMemory<'a>) -> Self {
        Self { memory, whole: None, highest: memory.base }
    }

    /// A copy of the lower end of the stack, so that most words need no question, and all memory behind it.
    pub(crate) fn over(memory: StackMemory<'a>, whole: &'a dyn ProcessMemory) -> Self {
        Self { memory, whole: Some(whole), highest: memory.base }
    }

    pub(crate) fn word(&mut self, address: u64) -> Result<u64, Unreadable> {
        let offset = address.wrapping_sub(self.memory.base);
        let word =
            usize::try_from(offset).ok().and_then(|offset| self.memory.bytes.get(offset..)?.first_chunk());
        match word {
            Some(bytes) => {
                self.highest = self.highest.max(address.saturating_add(8));
                Ok(u64::from_le_bytes(*bytes))
            }
            None => {
                let mut bytes = [0; 8];
                self.elsewhere(address, &mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
        }
    }

    /// What the copy does not have.
    fn elsewhere(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        if self.whole.is_some_and(|whole| whole.read(address, bytes)) {
            return Ok(());
        }
        // An address below the copy is not on the used part of this stack.
        match address.checked_sub(self.memory.base) {
            Some(offset) if offset < SAME_STACK => Err(Unreadable::Beyond),
            _ => Err(Unreadable::Elsewhere),
        }
    }

    /// Code of the process, where its memory can be read.
    pub(crate) fn code(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.whole.is_some_and(|whole| whole.read(address, bytes))
    }

    /// There is more than a copy of the stack.
    pub(crate) fn has_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// A value of 1 to 8 bytes, zero-extended.
    pub(crate) fn value(&mut self, address: u64, size: u8) -> Result<u64, Unreadable> {
        if size >= 8 {
            return self.word(address);
        }
        let start = usize::try_from(address.wrapping_sub(self.memory.base)).unwrap_or(usize::MAX);
        let copied = start.checked_add(usize::from(size)).and_then(|end| self.memory.bytes.get(start..end));
        let value = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        if let Some(bytes) = copied {
            return Ok(value(bytes));
        }
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..usize::from(size)];
        self.elsewhere(address, bytes)?;
        Ok(value(bytes))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of a process's memory, each with the address of its first byte.
    #[derive(Default)]
    pub(crate) struct Pieces(pub(crate) Vec<(u64, Vec<u8>)>);

    impl ProcessMemory for Pieces {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            let found = self.0.iter().find_map(|(start, bytes)| {
                let at = usize::try_from(address.checked_sub(*start)?).ok()?;
                bytes.get(at..at.checked_add(buffer.len())?)
            });
            found.inspect(|bytes| buffer.copy_from_slice(bytes)).is_some()
        }
    }

    /// Byte by byte: little-endian, or nothing where one of them is not there.
    fn by_bytes(base: u64, bytes: &[u8], address: u64, size: u8) -> Option<u64> {
        (0..u64::from(size)).try_fold(0, |value, byte| {
            let at = address.checked_add(byte)?.checked_sub(base)?;
            Some(value | u64::from(*bytes.get(usize::try_from(at).ok()?)?) << (8 * byte))
        })
    }

    proptest! {
        #[test]
        fn a_value_is_its_bytes_or_it_is_said_where_it_would_be(
            base in prop_oneof![0..64_u64, 0x7fff_0000_0000..0x7fff_0000_0010_u64],
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            distance in prop_oneof![-16..60_i64, Just(i64::from(u32::MAX)), Just(-(1 << 40))],
            size in 1..=8_u8,
        ) {
            let address = base.wrapping_add_signed(distance);
            let mut reader = Reader::new(StackMemory { base, bytes: &bytes });
            let near = address >= base && address - base < SAME_STACK;
            let missing = if near { Unreadable::Beyond } else { Unreadable::Elsewhere };
            prop_assert_eq!(reader.value(address, size), by_bytes(base, &bytes, address, size).ok_or(missing));
            let word = by_bytes(base, &bytes, address, 8);
            prop_assert_eq!(reader.word(address), word.ok_or(missing));
            prop_assert_eq!(reader.highest >= address.saturating_add(8) && reader.highest > base, word.is_some());
        }

        #[test]
        fn behind_a_copy_all_memory_is_asked(
            copied in 0..24_usize, at in 0..32_u64, size in 1..=8_u8, all in prop::collection::vec(any::<u8>(), 32),
        ) {
            let base = 0x1000;
            let whole = Pieces(vec![(base, all.clone())]);
            let mut reader = Reader::over(StackMemory { base, bytes: &all[..copied] }, &whole);
            let expected = by_bytes(base, &all, base + at, size);
            prop_assert_eq!(reader.value(base + at, size).ok(), expected);
        }
    }

    #[test]
    fn what_only_all_memory_has_does_not_make_the_copy_longer() {
        let whole = Pieces(vec![(0x1000, vec![7; 64])]);
        let mut reader = Reader::over(StackMemory { base: 0x1000, bytes: &[7; 16] }, &whole);
        assert_eq!(reader.word(0x1000), Ok(0x0707_0707_0707_0707));
        assert_eq!(reader.highest, 0x1008);
        assert!(reader.word(0x1020).is_ok());
        assert_eq!(reader.highest, 0x1008);
        let mut code = [0; 4];
        assert!(reader.has_whole() && reader.code(0x1004, &mut code) && code == [7; 4]);
        assert!(!Reader::new(StackMemory { base: 0x1000, bytes: &[7; 16] }).code(0x1004, &mut code));
    }
}
