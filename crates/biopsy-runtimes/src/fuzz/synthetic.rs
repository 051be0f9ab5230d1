//! A made-up process: a module, its data, and the stack of a thread.

use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError,
    Thread,
};
use biopsy_model::Tid;

/// Where the module's file is.
pub(super) const MODULE: u64 = 0x10_0000;
/// Where its data is.
pub(super) const DATA: u64 = 0x20_0000;
/// Lowest address of the stack.
pub(super) const STACK: u64 = 0x7000_0000;
/// The thread.
pub(super) const TID: u32 = 7;

/// A process of one thread.
#[derive(Debug)]
pub(crate) struct Synthetic {
    areas: [(u64, Vec<u8>); 3],
    mappings: Vec<Mapping>,
    modules: Vec<ImageModule>,
    threads: Vec<Thread>,
    facts: ProcessFacts,
}

impl Synthetic {
    pub(super) fn new(
        path: &str,
        file: Vec<u8>,
        data: Vec<u8>,
        stack: Vec<u8>,
        registers: GeneralRegisters,
    ) -> Self {
        let areas = [(MODULE, file), (DATA, data), (STACK, stack)];
        let mapping = |(start, bytes): &(u64, Vec<u8>), backing| Mapping {
            start: *start,
            end: start + bytes.len() as u64,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing,
            not_frozen: false,
        };
        let of_file = Backing::File { path: path.into(), offset: 0, deleted: false, identity: (0, 0) };
        let anonymous = || Backing::Anonymous { label: String::new() };
        let mappings = vec![
            mapping(&areas[0], of_file),
            mapping(&areas[1], anonymous()),
            mapping(&areas[2], anonymous()),
        ];
        let module = ImageModule {
            start: MODULE,
            end: MODULE + areas[0].1.len() as u64,
            path: path.into(),
            build_id: None,
            bias: MODULE,
            is_elf: true,
            deleted: false,
        };
        let thread = Thread { tid: Tid(TID), registers: Some(registers), ..Thread::default() };
        Self { areas, mappings, modules: vec![module], threads: vec![thread], facts: ProcessFacts::default() }
    }

    /// Writes a word, where there is memory.
    pub(super) fn put(&mut self, address: u64, value: u64) {
        for (start, bytes) in &mut self.areas {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            if let Some(slot) = at.and_then(|at| bytes.get_mut(at..at.checked_add(8)?)) {
                slot.copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Each 6 bytes are an area, an offset, and what to write there: a small number, an address, ones, or bytes.
    pub(super) fn damage(&mut self, bytes: &[u8]) {
        for change in bytes.as_chunks::<6>().0.iter().take(64) {
            let [area, low, high, kind, value_low, value_high] = *change;
            let places: Vec<(u64, usize)> =
                self.areas.iter().map(|(start, bytes)| (*start, bytes.len())).collect();
            let (start, length) = places[usize::from(area) % places.len()];
            let value = u64::from(u16::from_le_bytes([value_low, value_high]));
            let other = places[usize::from(kind >> 4) % places.len()].0;
            let value = match kind & 3 {
                0 => value,
                1 => other + value,
                2 => !value,
                _ => value << 48 | value << 32 | value << 16 | value,
            };
            let offset = usize::from(u16::from_le_bytes([low, high])) % length.max(1);
            self.put(start + offset as u64, value);
        }
    }

    /// Limits of the stack, for those who write frames into it.
    #[cfg(test)]
    pub(super) fn data_bytes(&self) -> usize {
        self.areas[1].1.len()
    }
}

impl Image for Synthetic {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for (start, bytes) in &self.areas {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            let Some(rest) = at.and_then(|at| bytes.get(at..)).filter(|rest| !rest.is_empty()) else {
                continue;
            };
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            return Ok(count);
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
        &self.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }
}

/// Data that grows: words and texts with their addresses.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) bytes: Vec<u8>,
}

impl Data {
    /// Appends words and gives the address of the first.
    pub(super) fn words(&mut self, words: &[u64]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = DATA + self.bytes.len() as u64;
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        at
    }

    /// Appends bytes and gives their address.
    pub(super) fn text(&mut self, text: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = DATA + self.bytes.len() as u64;
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        at
    }

    /// Writes a word again.
    pub(super) fn set(&mut self, address: u64, value: u64) {
        let at = (address - DATA) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}
