//! A minidump of stacks: threads, registers, modules, exception, and the memory of the kind [`CoreKind::Stacks`], for tools that
//! read minidumps and no cores.
//!
//! `minidump-writer` stops and reads the process by itself, so it cannot write what is frozen already.
//!
//! ```text
//! header | directory | streams | what streams point to: contexts, names, build ids | memory
//! ```
//!
//! Everything but memory is put together in memory first; it is small.

mod context;
mod parts;
mod streams;

use std::io::Write;
use std::ops::Range;

use self::parts::Parts;
use super::contents::{Contents, State, ask};
use super::{CoreError, CoreKind};
use crate::{Absence, Image, PAGE_SIZE, ReadError};

/// Places in a minidump are 32-bit numbers: more memory than this is left out, the least important first.
const MOST_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// Memory is read in steps of this many bytes.
const STEP: u64 = 1024 * 1024;

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MinidumpSummary {
    /// Size of the file in bytes.
    pub written_bytes: u64,
    /// Of these, memory.
    pub memory_bytes: u64,
    /// Bytes of memory that could not be read, or did not fit.
    pub missing_bytes: u64,
    /// Threads with registers.
    pub threads: usize,
}

/// Writes `image` as a minidump, without seeking.
///
/// # Errors
/// [`CoreError::Image`] when the image cannot say which memory there is, [`CoreError::Output`] when the output takes no more.
pub fn write_minidump(image: &dyn Image, output: &mut dyn Write) -> Result<MinidumpSummary, CoreError> {
    let (runs, missing_bytes) = readable(image)?;
    let mut parts = Parts::default();
    let memory = parts.plan_memory(&runs);
    streams::add_all(image, &mut parts, &memory);
    let head = parts.finish();
    let mut writer = Counted { output, written: 0, logical: 0 };
    let memory_bytes: u64 = runs.iter().map(|run| run.end - run.start).sum();
    writer.logical = head.len() as u64 + memory_bytes;
    writer.put(&head)?;
    let mut buffer = Vec::new();
    for run in &runs {
        let mut at = run.start;
        while at < run.end {
            let length = (run.end - at).min(STEP);
            buffer.clear();
            buffer.resize(usize::try_from(length).unwrap_or(0), 0);
            // It was read a moment ago; if it is gone now, the file cannot say so any more.
            read_all(image, at, &mut buffer).map_err(CoreError::Image)?;
            writer.put(&buffer)?;
            at += length;
        }
    }
    writer.output.flush().map_err(|source| writer.failed(source))?;
    let threads = image.threads().iter().filter(|thread| thread.registers.is_some()).count();
    Ok(MinidumpSummary { written_bytes: writer.written, memory_bytes, missing_bytes, threads })
}

/// The runs of memory that go in, by address, each of them readable; and how much is missing. A minidump has no word for
/// memory that is missing: it is just not listed, so that it must be tried before the lists are made.
fn readable(image: &dyn Image) -> Result<(Vec<Range<u64>>, u64), CoreError> {
    let mut contents = Contents::select(image, CoreKind::Stacks)?;
    contents.cut_to(Some(MOST_MEMORY), 0);
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut missing = 0;
    let mut asked = Vec::new();
    let mut buffer = vec![0; usize::try_from(STEP).unwrap_or(0)];
    for piece in &contents.pieces {
        let source = match piece.state {
            State::Present(_, source) => source,
            State::Absent(super::Reason::Ceiling) => {
                missing += piece.size();
                continue;
            }
            State::Absent(_) => continue,
        };
        asked.clear();
        ask(image, piece.range.clone(), source, &mut asked).map_err(CoreError::Image)?;
        for run in &asked {
            let mut at = run.start;
            while at < run.end {
                let length = usize::try_from((run.end - at).min(STEP)).unwrap_or(0);
                let read = image.read(at, buffer.get_mut(..length).unwrap_or_default()).unwrap_or(0) as u64;
                let next = if read == 0 { (at / PAGE_SIZE + 1) * PAGE_SIZE } else { at + read }.min(run.end);
                if read == 0 {
                    missing += next - at;
                } else {
                    match runs.last_mut() {
                        Some(last) if last.end == at && u32::try_from(next - last.start).is_ok() => {
                            last.end = next
                        }
                        _ => runs.push(at..next),
                    }
                }
                at = next;
            }
        }
    }
    Ok((runs, missing))
}

fn read_all(image: &dyn Image, address: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = address.saturating_add(done as u64);
        match image.read(at, rest)? {
            0 => return Err(ReadError::Missing { address: at, why: Absence::Gone }),
            read => done += read,
        }
    }
    Ok(())
}

/// The output, and how much it took.
struct Counted<'a> {
    output: &'a mut dyn Write,
    written: u64,
    logical: u64,
}

impl Counted<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), CoreError> {
        self.output.write_all(bytes).map_err(|source| self.failed(source))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> CoreError {
        CoreError::Output { written: self.written, whole: self.written, logical: self.logical, source }
    }
}
