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
