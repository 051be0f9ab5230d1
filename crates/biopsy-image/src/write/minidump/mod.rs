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
use std::time::Instant;

use self::parts::Parts;
use super::contents::{Contents, Piece, Source, State, ask, reason};
use super::layout::left_out;
use super::{Class, ClassBytes, CoreError, CoreKind, CoreProgress, CoreSummary, MissingRange, dotnet_header};
use crate::{Absence, Image, PAGE_SIZE, ReadError};

/// Places in a minidump are 32-bit numbers: more memory than this is left out, the least important first.
const MOST_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// Memory is read in steps of this many bytes.
const STEP: u64 = 1024 * 1024;

/// Writes `image` as a minidump, without seeking.
///
/// # Errors
/// [`CoreError::Image`] when the image cannot say which memory there is, [`CoreError::Output`] when the output takes no more,
/// [`CoreError::Stopped`] when [`CoreProgress::keep_going`] said so.
pub fn write_minidump(
    image: &dyn Image,
    output: &mut dyn Write,
    progress: &dyn CoreProgress,
) -> Result<CoreSummary, CoreError> {
    let started = Instant::now();
    let described = dotnet_header::describe(image);
    let image = described.as_ref().map_or(image, |described| described as &dyn Image);
    let readable = Readable::find(image)?;
    let mut parts = Parts::default();
    let memory = parts.plan_memory(&readable.runs);
    streams::add_all(image, &mut parts, &memory);
    let head = parts.finish();
    let mut writer = Counted { output, written: 0, logical: 0 };
    writer.logical = head.len() as u64 + readable.contents.total();
    writer.put(&head)?;
    let mut buffer = Vec::new();
    for run in &readable.runs {
        let mut at = run.start;
        while at < run.end {
            if !progress.keep_going() {
                return Err(CoreError::Stopped { written: writer.written });
            }
            let length = (run.end - at).min(STEP);
            buffer.clear();
            buffer.resize(usize::try_from(length).unwrap_or(0), 0);
            // It was read a moment ago; if it is gone now, the file cannot say so any more.
            read_all(image, at, &mut buffer).map_err(CoreError::Image)?;
            writer.put(&buffer)?;
            progress.read(writer.written, writer.logical);
            at += length;
        }
    }
    progress.anonymous_memory_done();
    let freeze_needed = started.elapsed();
    writer.output.flush().map_err(|source| writer.failed(source))?;
    Ok(CoreSummary {
        logical_bytes: writer.logical,
        written_bytes: writer.written,
        contents: readable.contents,
        segments: readable.runs.len(),
        left_out: readable.left_out,
        missing: readable.missing,
        freeze_needed,
        total: started.elapsed(),
    })
}

/// The memory that goes in. A minidump has no word for memory that is missing: it is just not listed, so that it must be
/// tried before the lists are made.
#[derive(Default)]
struct Readable {
    /// By address, each of them readable.
    runs: Vec<Range<u64>>,
    contents: ClassBytes,
    left_out: Vec<MissingRange>,
    missing: Vec<MissingRange>,
}

impl Readable {
    fn find(image: &dyn Image) -> Result<Self, CoreError> {
        let mut contents = Contents::select(image, CoreKind::Stacks)?;
        contents.cut_to(Some(MOST_MEMORY), 0);
        let mut found = Self { left_out: left_out(&contents.pieces), ..Self::default() };
        let mut asked = Vec::new();
        let mut buffer = vec![0; usize::try_from(STEP).unwrap_or(0)];
        for piece in &contents.pieces {
            let Piece { range, state: State::Present(class, source), .. } = piece else { continue };
            asked.clear();
            ask(image, range.clone(), *source, &mut asked).map_err(CoreError::Image)?;
            for run in &asked {
                found.try_run(image, run.clone(), (*class, *source), &mut buffer);
            }
        }
        Ok(found)
    }

    fn try_run(
        &mut self,
        image: &dyn Image,
        run: Range<u64>,
        (class, source): (Class, Source),
        buffer: &mut [u8],
    ) {
        let mut at = run.start;
        while at < run.end {
            let length = usize::try_from((run.end - at).min(STEP)).unwrap_or(0);
            let result = image.read(at, buffer.get_mut(..length).unwrap_or_default());
            let read = result.as_ref().map_or(0, |read| *read as u64);
            let next = if read == 0 { (at / PAGE_SIZE + 1) * PAGE_SIZE } else { at + read }.min(run.end);
            if read == 0 {
                let reason = reason(&result, source);
                match self.missing.last_mut() {
                    Some(last) if last.reason == reason && last.range.end == at => last.range.end = next,
                    _ => self.missing.push(MissingRange { range: at..next, reason }),
                }
            } else {
                self.contents.add(class, next - at);
                match self.runs.last_mut() {
                    Some(last) if last.end == at && u32::try_from(next - last.start).is_ok() => {
                        last.end = next;
                    }
                    _ => self.runs.push(at..next),
                }
            }
            at = next;
        }
    }
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
