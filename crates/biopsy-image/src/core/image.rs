//! A core as an image.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::modules;
use super::notes::Notes;
use super::space::{self, Content, Region};
use crate::mapping::{find, is_memory_file};
use crate::storage::{Storage, StorageError};
use crate::vendor::DumpNote;
use crate::{
    Absence, Crash, CrashKind, Image, ImageModule, Mapping, PAGE_SIZE, ProcessFacts, ReadError, Thread,
};

/// An opened core.
pub(crate) struct CoreImage {
    storage: Arc<dyn Storage>,
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    process: ProcessFacts,
    regions: Vec<Region>,
    crash: Option<Crash>,
    dump: Option<DumpNote>,
    most_modules: usize,
    /// Found when somebody asks: that reads a page of each, and with it a frame of a compressed core.
    modules: OnceLock<Vec<ImageModule>>,
}

impl fmt::Debug for CoreImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreImage")
            .field("process", &self.process)
            .field("storage", &self.storage)
            .field("threads", &self.threads.len())
            .field("mappings", &self.mappings.len())
            .finish_non_exhaustive()
    }
}

impl CoreImage {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        mappings: Vec<Mapping>,
        threads: Vec<Thread>,
        process: ProcessFacts,
        notes: Notes,
        regions: Vec<Region>,
        most_modules: usize,
    ) -> Self {
        let crash = threads.first().and_then(|thread| {
            let signal = thread.signal.as_ref()?;
            Some(Crash {
                thread: Some(thread.tid),
                kind: CrashKind::Signal { number: signal.number, code: signal.code },
                address: signal.address,
                description: CrashKind::signal_name(signal.number),
            })
        });
        Self {
            storage,
            mappings,
            threads,
            process,
            regions,
            crash,
            dump: notes.dump,
            most_modules,
            modules: OnceLock::new(),
        }
    }
}

impl CoreImage {
    /// What our own note says about the dump.
    pub(crate) fn dump_note(&self) -> Option<&DumpNote> {
        self.dump.as_ref()
    }
}

impl Image for CoreImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let missing = |why| ReadError::Missing { address, why };
        let first = space::find(&self.regions, address).ok_or_else(|| missing(Absence::Unmapped))?;
        let mut done = 0usize;
        for region in self.regions.iter().skip(first) {
            let at = address.saturating_add(done as u64);
            if done == buffer.len() || at < region.start {
                break;
            }
            let room = usize::try_from(region.end - at).unwrap_or(usize::MAX).min(buffer.len() - done);
            let part = &mut buffer[done..done + room];
            let read = match region.content {
                Content::Zero => {
                    part.fill(0);
                    Ok(room)
                }
                Content::Missing(why) => Err(ReadError::Missing { address: at, why }),
                Content::File(offset) => {
                    match self.storage.read_full(offset.saturating_add(at - region.start), part) {
                        // It was there when it was opened.
                        Ok(0) => Err(ReadError::Missing { address: at, why: Absence::Truncated }),
                        Ok(read) => Ok(read),
                        Err(StorageError::Io(source)) => Err(ReadError::Io { address: at, source }),
                        Err(StorageError::Damaged { what }) => Err(ReadError::Damaged { address: at, what }),
                    }
                }
            };
            match read {
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if at.saturating_add(room as u64) > address.saturating_add(done as u64) {
                break;
            }
        }
        Ok(done)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        self.modules.get_or_init(|| modules::find(self, &self.mappings, &self.process, self.most_modules))
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }

    fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    /// What is in the file and is not one of its holes; holes in mapped files are zeros that were written, so they count.
    /// Of memory that is missing although it may be anything nobody must think that it is zeros: runs of their own.
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let from = runs.len();
        let mut pieces = Vec::new();
        let mut missing_to = None;
        for region in space::within(&self.regions, range.clone()) {
            let (start, end) = (region.start.max(range.start), region.end.min(range.end));
            let mapping = find(&self.mappings, start).filter(|mapping| mapping.end >= end);
            match region.content {
                Content::Zero | Content::Missing(Absence::Unreadable | Absence::Unmapped) => {}
                Content::Missing(Absence::LeftOut) if mapping.is_some_and(is_on_disk) => {}
                // Not told whether it was written, so that it counts where it may have been.
                Content::Missing(Absence::NotOfKind)
                    if mapping
                        .is_some_and(|one| is_on_disk(one) && (one.shared || !one.protection.write)) => {}
                Content::Missing(_) => {
                    match runs[from..]
                        .last_mut()
                        .filter(|last| missing_to == Some(last.end) && last.end == start)
                    {
                        Some(last) => last.end = end,
                        None => runs.push(start..end),
                    }
                    missing_to = Some(end);
                }
                Content::File(offset) => {
                    let from = if missing_to == Some(start) { runs.len() } else { from };
                    if mapping.is_some_and(Mapping::is_anonymous) {
                        let at = offset.saturating_add(start - region.start);
                        pieces.clear();
                        self.storage.data_runs(at..at.saturating_add(end - start), &mut pieces);
                        for piece in &pieces {
                            push_pages(
                                runs,
                                from,
                                start + (piece.start - at)..start + (piece.end - at),
                                &(start..end),
                            );
                        }
                    } else {
                        push_pages(runs, from, start..end, &(start..end));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether what is not in the core can be had from a file.
fn is_on_disk(mapping: &Mapping) -> bool {
    mapping.path().is_some_and(|path| !is_memory_file(path))
}

/// Appends a run in whole pages, cut to `range` and joined with the one before.
fn push_pages(runs: &mut Vec<Range<u64>>, from: usize, run: Range<u64>, range: &Range<u64>) {
    let start = (run.start / PAGE_SIZE * PAGE_SIZE).max(range.start);
    let end = run.end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX).min(range.end);
    match runs[from..].last_mut() {
        Some(last) if last.end >= start => last.end = last.end.max(end),
        _ => runs.push(start..end),
    }
}
