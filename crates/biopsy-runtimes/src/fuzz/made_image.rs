//! An image of a few mappings, filled by hand.

use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, MemoryExt, ProcessFacts, Protection,
    ReadError, Thread,
};
use biopsy_model::{Pid, Tid};

/// A made-up image.
#[derive(Debug)]
pub struct MadeImage {
    mappings: Vec<Mapping>,
    contents: Vec<Vec<u8>>,
    threads: Vec<Thread>,
    modules: Vec<ImageModule>,
    process: ProcessFacts,
    /// Address of `_PyRuntime` and the minor version, of an image of Python.
    pub(crate) python: Option<(u64, u32)>,
}

impl MadeImage {
    /// Mappings (start, size, writable) of one program; the first is its beginning.
    pub(crate) fn new(path: &[u8], mappings: &[(u64, usize, bool)]) -> Self {
        let mapping = |(start, size, write): &(u64, usize, bool)| Mapping {
            start: *start,
            end: start + *size as u64,
            protection: Protection { read: true, write: *write, execute: !*write },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        };
        let (start, end) = mappings.iter().take(3).fold((u64::MAX, 0), |(low, high), (start, size, _)| {
            (low.min(*start), high.max(start + *size as u64))
        });
        let module = ImageModule {
            start,
            end,
            path: path.to_vec(),
            build_id: None,
            bias: 0,
            is_elf: true,
            deleted: false,
        };
        Self {
            mappings: mappings.iter().map(mapping).collect(),
            contents: mappings.iter().map(|(_, size, _)| vec![0; *size]).collect(),
            threads: Vec::new(),
            modules: vec![module],
            process: ProcessFacts { pid: Pid(7), executable: Some(path.to_vec()), ..ProcessFacts::default() },
            python: None,
        }
    }

    pub(crate) fn thread(&mut self, tid: u32, registers: GeneralRegisters) {
        self.threads.push(Thread { tid: Tid(tid), registers: Some(registers), ..Thread::default() });
    }

    /// Maps more that may be written, behind all that is mapped.
    pub(super) fn map(&mut self, start: u64, size: usize) {
        assert!(self.mappings.last().is_none_or(|last| last.end <= start), "mappings are by address");
        self.mappings.push(Mapping {
            start,
            end: start + size as u64,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        });
        self.contents.push(vec![0; size]);
    }

    /// Puts bytes; what is outside of all mappings is a mistake of the test.
    ///
    /// # Panics
    /// When the address is in no mapping.
    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        let place =
            self.mappings.iter().position(|one| one.contains(address)).expect("the address is mapped");
        let at = (address - self.mappings[place].start) as usize;
        self.contents[place][at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts a word of eight bytes.
    ///
    /// # Panics
    /// As [`MadeImage::put`].
    pub fn word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    /// The word of eight bytes that is there.
    ///
    /// # Panics
    /// As [`MadeImage::put`].
    #[must_use]
    pub fn word_at(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.read_exact(address, &mut word).expect("the address is mapped");
        u64::from_le_bytes(word)
    }

    pub(crate) fn half(&mut self, address: u64, half: u32) {
        self.put(address, &half.to_le_bytes());
    }

    /// Maps the last bytes that have addresses, filled by a word for each address. No process of Linux has memory there; a dump may say
    /// that it has.
    pub fn map_the_end(&mut self, word: impl Fn(u64) -> u64) {
        const BYTES: usize = 0x400;
        let start = u64::MAX - BYTES as u64 + 1;
        let mut bytes: Vec<u8> =
            (0..BYTES as u64).step_by(8).flat_map(|at| word(start + at).to_le_bytes()).collect();
        // The very last byte has no end that could be said.
        bytes.pop();
        self.mappings.push(Mapping {
            start,
            end: u64::MAX,
            protection: Protection { read: true, write: true, execute: true },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        });
        self.contents.push(bytes);
    }

    /// Where a word lies that is an address of this image.
    #[must_use]
    pub fn pointers(&self) -> Vec<u64> {
        self.words_that(|word| self.mappings.iter().any(|one| one.contains(word)))
    }

    /// Where such words lie.
    pub fn words_that(&self, are: impl Fn(u64) -> bool) -> Vec<u64> {
        let words = |(mapping, bytes): (&Mapping, &Vec<u8>)| {
            let words: Vec<(u64, u64)> = (mapping.start..)
                .step_by(8)
                .zip(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)))
                .collect();
            words
        };
        let all = self.mappings.iter().zip(&self.contents).flat_map(words);
        all.filter(|(_, word)| are(*word)).map(|(at, _)| at).collect()
    }

    /// Changes the word of this number, counted over all mappings: to a small number, an address, what another word is, a large number,
    /// or in one bit.
    pub(super) fn change(&mut self, number: usize, how: u8, by: u8) {
        let words: Vec<usize> = self.contents.iter().map(|one| one.len() / 8).collect();
        let all: usize = words.iter().sum();
        let place = |number: usize| {
            let mut left = number % all;
            for (mapping, count) in words.iter().enumerate() {
                if left < *count {
                    return (mapping, left * 8);
                }
                left -= count;
            }
            (0, 0)
        };
        let (mapping, at) = place(number);
        let value = match how % 6 {
            0 => by.into(),
            1 => {
                let (other, offset) = place(number.wrapping_mul(31).wrapping_add(usize::from(by) * 8));
                self.mappings[other].start + offset as u64
            }
            2 => {
                let (other, offset) = place(number.wrapping_add(usize::from(by)));
                u64::from_le_bytes(self.contents[other][offset..offset + 8].try_into().expect("eight bytes"))
            }
            3 => u64::MAX - u64::from(by),
            4 => 1 << (by % 64),
            _ => {
                self.contents[mapping][at + usize::from(by % 8)] ^= by;
                return;
            }
        };
        self.contents[mapping][at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl Image for MadeImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let missing = ReadError::Missing { address, why: Absence::Unmapped };
        let Some(place) = self.mappings.iter().position(|one| one.contains(address)) else {
            return Err(missing);
        };
        let at = (address - self.mappings[place].start) as usize;
        let there = &self.contents[place][at..];
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(count)
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
        &self.process
    }
}
