//! An image whose secrets are masked while it is read.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::mapping::is_memory_file;
use crate::{
    Backing, Crash, GeneralRegisters, Image, ImageModule, Mapping, PAGE_SIZE, ProcessFacts, ReadError, Thread,
};

/// Largest piece that is read and masked at once, in bytes, not counting what is around it.
const PIECE_MAX: usize = 4 << 20;
/// Secrets whose addresses are remembered, so that each is counted once however often it is read. Beyond that many,
/// what is read twice counts twice.
const REMEMBERED_MAX: usize = 1 << 20;

/// Finds secrets in memory and overwrites them with as many bytes as they have.
pub trait Mask: Send + Sync {
    /// Names of the rules, as [`MaskCounts::add`] numbers them.
    fn rules(&self) -> &[String];

    /// What is masked at a byte depends on no byte that is further away than this.
    fn overlap(&self) -> usize;

    /// Masks what is secret in `bytes[inner]`. What is around `inner` is there to be looked at; what happens to it
    /// does not matter. Secrets that start in `inner` are added to `counts` with the place where they start.
    fn mask(&self, bytes: &mut [u8], inner: Range<usize>, counts: &mut MaskCounts);

    /// Masks what is secret in the arguments of a process, with as many bytes: one may announce the next.
    fn mask_arguments(&self, arguments: &mut [Vec<u8>]) {
        let _ = arguments;
    }
}

/// Secrets that were masked in one piece of memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MaskCounts {
    found: Vec<(usize, usize)>,
}

impl MaskCounts {
    /// One more secret: by which rule ([`Mask::rules`]), and at which offset in the piece it starts.
    pub fn add(&mut self, rule: usize, start: usize) {
        self.found.push((rule, start));
    }

    /// Rules and offsets, in the order they were added.
    #[must_use]
    pub fn found(&self) -> &[(usize, usize)] {
        &self.found
    }
}

/// How many secrets one rule masked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MaskCount {
    /// Name of the rule.
    pub rule: String,
    /// Secrets, each counted once.
    pub count: u64,
}

#[derive(Default)]
struct Seen {
    counts: Vec<u64>,
    /// Where secrets start, of those that have been counted.
    starts: HashSet<u64>,
}

/// Wraps an image: memory is masked on its way, and so are the texts beside it (names, arguments, paths) and registers in
/// which text stands.
///
/// What is masked does not depend on how the memory is cut into reads: each read looks at what is around it too.
pub struct ScrubbedImage<I, M> {
    image: I,
    mask: M,
    beside: Beside,
    seen: Mutex<Seen>,
}

/// What an image has beside its memory.
struct Beside {
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    modules: Vec<ImageModule>,
    process: ProcessFacts,
}

impl Beside {
    fn of<I: Image, M: Mask>(image: &I, mask: &M, counts: &mut MaskCounts) -> Self {
        let mut text = |bytes: &mut Vec<u8>| {
            let all = 0..bytes.len();
            mask.mask(bytes, all, counts);
        };
        let mut mappings = image.mappings().to_vec();
        for mapping in &mut mappings {
            match &mut mapping.backing {
                Backing::File { path, .. } => text(path),
                // `[anon:NAME]` is what the process called it.
                Backing::Anonymous { label } => {
                    let mut bytes = std::mem::take(label).into_bytes();
                    text(&mut bytes);
                    *label = String::from_utf8_lossy(&bytes).into_owned();
                }
                Backing::Kernel { .. } | Backing::Unknown => {}
            }
        }
        let mut threads = image.threads().to_vec();
        for thread in &mut threads {
            thread.name.iter_mut().for_each(&mut text);
            // What copies strings leaves them in vector registers.
            text(&mut thread.extended);
            if let Some(registers) = &mut thread.registers {
                let before = registers.to_bytes();
                let mut bytes = before.to_vec();
                text(&mut bytes);
                if bytes != before
                    && let Some(masked) = GeneralRegisters::from_bytes(&bytes)
                {
                    *registers = masked;
                }
            }
            thread.signal.iter_mut().flat_map(|signal| &mut signal.info).for_each(&mut text);
        }
        let mut modules = image.modules().to_vec();
        modules.iter_mut().for_each(|module| text(&mut module.path));
        let mut process = image.process().clone();
        mask.mask_arguments(&mut process.command_line);
        process.command_line.iter_mut().for_each(&mut text);
        text(&mut process.name);
        process.executable.iter_mut().for_each(&mut text);
        Self { mappings, threads, modules, process }
    }
}

impl<I: Image, M: Mask> ScrubbedImage<I, M> {
    /// Wraps `image`.
    #[must_use]
    pub fn new(image: I, mask: M) -> Self {
        let mut counts = MaskCounts::default();
        let beside = Beside::of(&image, &mask, &mut counts);
        let mut seen = Seen { counts: vec![0; mask.rules().len()], starts: HashSet::new() };
        for (rule, _) in counts.found {
            seen.counts.get_mut(rule).into_iter().for_each(|count| *count += 1);
        }
        Self { image, mask, beside, seen: Mutex::new(seen) }
    }

    /// How many secrets have been masked so far, by rule, those without any left out.
    #[must_use]
    pub fn counts(&self) -> Vec<MaskCount> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let named = self.mask.rules().iter().zip(&seen.counts);
        named
            .filter(|(_, count)| **count > 0)
            .map(|(rule, count)| MaskCount { rule: rule.clone(), count: *count })
            .collect()
    }

    /// The image, with its secrets.
    #[must_use]
    pub fn inner(&self) -> &I {
        &self.image
    }

    /// Unwraps the image.
    #[must_use]
    pub fn into_inner(self) -> I {
        self.image
    }

    /// Adds what was found in a piece whose first byte is at `address`.
    fn count(&self, address: u64, counts: &MaskCounts) {
        if counts.found.is_empty() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut *seen;
        seen.counts.resize(seen.counts.len().max(self.mask.rules().len()), 0);
        for (rule, start) in &counts.found {
            let start = address.wrapping_add(*start as u64);
            let new = if seen.starts.len() < REMEMBERED_MAX {
                seen.starts.insert(start)
            } else {
                !seen.starts.contains(&start)
            };
            if new && let Some(count) = seen.counts.get_mut(*rule) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// The parts of `range` that may be looked at around a piece. Pages of memory that were never written are left
    /// alone: they are zeros, which end every text, and to read them would make a live process larger.
    fn neighbours(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        let mappings = self.image.mappings();
        let first = mappings.partition_point(|one| one.end <= range.start);
        for one in mappings[first..].iter().take_while(|one| one.start < range.end) {
            let part = one.start.max(range.start)..one.end.min(range.end);
            let before = runs.len();
            let asked = if one.is_anonymous() {
                self.image.written(part, &mut runs)
            } else if one.shared && one.path().is_some_and(is_memory_file) {
                self.image.populated(part, &mut runs)
            } else {
                runs.push(part);
                Ok(())
            };
            if asked.is_err() {
                // What cannot be asked about is taken for not there.
                runs.truncate(before);
            }
        }
        runs
    }

    /// Appends the bytes that lie right in front of `address` to the empty `buffer`.
    fn read_before(&self, address: u64, buffer: &mut Vec<u8>) {
        let runs = self.neighbours(address.saturating_sub(self.mask.overlap() as u64)..address);
        let mut start = address;
        for run in runs.iter().rev() {
            if run.end != start {
                break;
            }
            start = run.start;
        }
        let mut at = start;
        while at < address {
            match self.append(at..address, buffer) {
                Some(next) => at = next,
                None => {
                    // A page that cannot be read, and what is in front of it is no neighbour of ours.
                    buffer.clear();
                    at = (at / PAGE_SIZE).saturating_add(1).saturating_mul(PAGE_SIZE);
                }
            }
        }
    }

    /// Appends the bytes that lie right behind `address`.
    fn read_behind(&self, address: u64, buffer: &mut Vec<u8>) {
        let mut at = address;
        for run in self.neighbours(address..address.saturating_add(self.mask.overlap() as u64)) {
            if run.start != at {
                return;
            }
            while at < run.end {
                match self.append(at..run.end, buffer) {
                    Some(next) => at = next,
                    None => return,
                }
            }
        }
    }

    /// Appends what one read gives of `range`; where it ended, or `None` when the first byte is missing.
    fn append(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> Option<u64> {
        let from = buffer.len();
        let length = usize::try_from(range.end - range.start).ok()?;
        buffer.resize(from + length, 0);
        let read = self.image.read(range.start, &mut buffer[from..]).unwrap_or(0).min(length);
        buffer.truncate(from + read);
        (read > 0).then(|| range.start + read as u64)
    }

    fn read_piece(&self, address: u64, out: &mut [u8], room: &mut Room) -> Result<usize, ReadError> {
        let read = self.image.read(address, out)?;
        let Room { bytes, behind } = room;
        bytes.clear();
        self.read_before(address, bytes);
        let before = bytes.len();
        bytes.extend_from_slice(&out[..read]);
        behind.clear();
        self.read_behind(address.saturating_add(read as u64), behind);
        bytes.extend_from_slice(behind);
        let inner = before..before + read;
        let mut counts = MaskCounts::default();
        self.mask.mask(bytes, inner.clone(), &mut counts);
        out[..read].copy_from_slice(&bytes[inner]);
        self.count(address.wrapping_sub(before as u64), &counts);
        Ok(read)
    }
}

/// Buffers of a thread, kept between reads.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    behind: Vec<u8>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl<I: Image, M: Mask> Image for ScrubbedImage<I, M> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = buffer.len().min(PIECE_MAX);
        let out = &mut buffer[..length];
        // One scrubbing image may wrap another: then the inner one finds the buffers in use and takes its own.
        ROOM.with(|room| match room.try_borrow_mut() {
            Ok(mut room) => self.read_piece(address, out, &mut room),
            Err(_) => self.read_piece(address, out, &mut Room::default()),
        })
    }

    fn mappings(&self) -> &[Mapping] {
        &self.beside.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.beside.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.beside.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.beside.process
    }

    fn crash(&self) -> Option<&Crash> {
        self.image.crash()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.image.written(range, runs)
    }

    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.image.populated(range, runs)
    }
}

impl<I, M> std::fmt::Debug for ScrubbedImage<I, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScrubbedImage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
