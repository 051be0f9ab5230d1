//! The copied part of a thread's stack.

/// Bytes of a stack, as the kernel copied them at a sample.
#[derive(Clone, Copy, Debug)]
pub struct StackMemory<'a> {
    /// Address of `bytes[0]`: the stack pointer at the sample.
    pub base: u64,
    /// The bytes from there upwards, towards the caller.
    pub bytes: &'a [u8],
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
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    memory: StackMemory<'a>,
    /// End of the highest word read.
    pub(crate) highest: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(memory: StackMemory<'a>) -> Self {
        Self { memory, highest: memory.base }
    }

    pub(crate) fn word(&mut self, address: u64) -> Result<u64, Unreadable> {
        let offset = address.checked_sub(self.memory.base).ok_or(Unreadable::Elsewhere)?;
        let word =
            usize::try_from(offset).ok().and_then(|offset| self.memory.bytes.get(offset..)?.first_chunk());
        match word {
            Some(bytes) => {
                self.highest = self.highest.max(address.saturating_add(8));
                Ok(u64::from_le_bytes(*bytes))
            }
            None if offset < SAME_STACK => Err(Unreadable::Beyond),
            None => Err(Unreadable::Elsewhere),
        }
    }

    /// A value of 1 to 8 bytes, zero-extended.
    pub(crate) fn value(&mut self, address: u64, size: u8) -> Result<u64, Unreadable> {
        if size >= 8 {
            return self.word(address);
        }
        let offset = address.checked_sub(self.memory.base).ok_or(Unreadable::Elsewhere)?;
        let start = usize::try_from(offset).map_err(|_| Unreadable::Elsewhere)?;
        let bytes = start.checked_add(usize::from(size)).and_then(|end| self.memory.bytes.get(start..end));
        let bytes =
            bytes.ok_or(if offset < SAME_STACK { Unreadable::Beyond } else { Unreadable::Elsewhere })?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}
