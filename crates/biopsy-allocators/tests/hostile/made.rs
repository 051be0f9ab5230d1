//! The memory of a process that uses glibc's malloc, block by block, in any of the known layouts.

use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError,
    Thread,
};

/// From a chunk to what the program sees.
const BACK: u64 = 16;
const BINS: u64 = 127;
/// Addresses of a heap of an arena that is not the main one.
pub(crate) const HEAP_ADDRESSES: u64 = 64 << 20;

/// What stands before `top` in an arena: bytes, and the number of fast bins.
pub(crate) const HEADS: [(u64, u64); 4] = [(16, 10), (8, 10), (16, 0), (8, 0)];

/// That of 2.27 to 2.42.
pub(crate) const HEAD_OF_TODAY: (u64, u64) = HEADS[0];

/// A block, as the program left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    Used(u64),
    Free(u64),
    /// In a fast bin; of 32 to 176 bytes.
    Fast(u64),
}

impl Block {
    pub(crate) fn size(self) -> u64 {
        let (Self::Used(size) | Self::Free(size) | Self::Fast(size)) = self;
        size
    }
}

/// Memory with holes.
#[derive(Debug, Default)]
pub(crate) struct Made {
    mappings: Vec<Mapping>,
    bytes: Vec<Vec<u8>>,
    threads: Vec<Thread>,
    process: ProcessFacts,
}

impl Made {
    /// Maps zeros. Mappings are made in the order of their addresses.
    pub(crate) fn map(&mut self, start: u64, bytes: u64, path: Option<&str>) {
        let backing = match path {
            Some(path) => Backing::File { path: path.into(), offset: 0, deleted: false, identity: (1, 2) },
            None => Backing::Anonymous { label: String::new() },
        };
        self.map_as(start, bytes, backing, false, false);
    }

    /// The same of any kind.
    pub(crate) fn map_as(&mut self, start: u64, bytes: u64, backing: Backing, shared: bool, execute: bool) {
        self.mappings.push(Mapping {
            start,
            end: start + bytes,
            protection: Protection { read: true, write: true, execute },
            shared,
            backing,
            not_frozen: false,
        });
        self.bytes.push(vec![0; usize::try_from(bytes).expect("it fits")]);
    }

    /// A thread with its stack pointer there.
    pub(crate) fn thread(&mut self, stack: u64) {
        let registers = GeneralRegisters { rsp: stack, ..GeneralRegisters::default() };
        self.threads.push(Thread { registers: Some(registers), ..Thread::default() });
    }

    /// What the library says of blocks with mappings of their own (`malloc_par`), in the data at `data`.
    pub(crate) fn parameters(&mut self, data: u64, count: u64, bytes: u64, start: u64) {
        let words = [(0x40, 65536 << 32 | count), (0x48, count), (0x50, bytes), (0x58, bytes), (0x60, start)];
        for (at, word) in words {
            self.word(data + at, word);
        }
    }

    pub(crate) fn resident(&self) -> u64 {
        self.mappings.iter().map(Mapping::size).sum()
    }

    pub(crate) fn word(&mut self, address: u64, word: u64) {
        let number =
            self.mappings.iter().position(|one| one.contains(address)).expect("the address is mapped");
        let at = usize::try_from(address - self.mappings[number].start).expect("it fits");
        self.bytes[number][at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// An arena with empty bins; gives the address behind it.
    pub(crate) fn arena(&mut self, at: u64, head: (u64, u64), top: u64, next: u64, system: u64) -> u64 {
        let top_at = at + head.0 + head.1 * 8;
        self.word(top_at, top);
        let bins = top_at + 16;
        for bin in (0..BINS).map(|number| bins + number * 16) {
            self.word(bin, bin - BACK);
            self.word(bin + 8, bin - BACK);
        }
        let next_at = bins + BINS * 16 + 16;
        self.word(next_at, next);
        self.word(next_at + 24, system);
        next_at + 40
    }

    /// Blocks side by side from an address on, and the rest up to `end`; gives the address of that rest.
    pub(crate) fn blocks(
        &mut self,
        from: u64,
        end: u64,
        arena: u64,
        head: (u64, u64),
        blocks: &[Block],
    ) -> u64 {
        let bins = arena + head.0 + head.1 * 8 + 16;
        let mut at = from;
        let mut previous_in_use = 1;
        let mut free = Vec::new();
        let mut fast: Vec<Vec<u64>> = vec![Vec::new(); 10];
        for block in blocks {
            self.word(at + 8, block.size() | previous_in_use);
            previous_in_use = u64::from(!matches!(block, Block::Free(_)));
            match block {
                Block::Used(_) => {}
                Block::Free(_) => free.push(at),
                Block::Fast(size) => fast[usize::try_from((size - 32) / 16).expect("it is small")].push(at),
            }
            at += block.size();
        }
        self.word(at + 8, (end - at) | previous_in_use);
        // All free ones are in the unsorted bin: a ring with its pair.
        let ring: Vec<u64> = std::iter::once(bins - BACK).chain(free).collect();
        for (number, &chunk) in ring.iter().enumerate() {
            let neighbour = |by| ring[(number + by) % ring.len()];
            self.word(chunk + 16, neighbour(1));
            self.word(chunk + 24, neighbour(ring.len() - 1));
        }
        for (bin, list) in fast.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            self.word(arena + head.0 + bin as u64 * 8, list[0]);
            for (number, chunk) in list.iter().enumerate() {
                let link = list.get(number + 1).copied().unwrap_or(0);
                // Mixed with its own address since 2.32.
                self.word(chunk + 16, link ^ (chunk + 16) >> 12);
            }
        }
        at
    }
}

impl Image for Made {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for (mapping, bytes) in self.mappings.iter().zip(&self.bytes) {
            if mapping.contains(address) {
                let rest = &bytes[usize::try_from(address - mapping.start).expect("it fits")..];
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                return Ok(length);
            }
        }
        Err(ReadError::Missing { address, why: Absence::Unmapped })
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}
