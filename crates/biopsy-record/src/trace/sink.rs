//! Where the events go: the timeline file, and the counters that people watch.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biopsy_model::MonoNanos;
use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::timeline::{Ring, Writer};
use biopsy_recording::{MemberFile, layout};

use crate::masking::Masking;

/// What has been recorded so far, for progress displays. All counters only grow.
#[derive(Debug, Default)]
pub struct Progress {
    /// CPU samples.
    pub samples: AtomicU64,
    /// Samples whose user stack reached the thread's root.
    pub rooted: AtomicU64,
    /// Long waits.
    pub waits: AtomicU64,
    /// Off-CPU samples that found a stack.
    pub wait_stacks: AtomicU64,
    /// Threads alive.
    pub threads: AtomicU64,
    /// Things lost, of all kinds.
    pub lost: AtomicU64,
    /// Bytes of the timeline file.
    pub bytes: AtomicU64,
    /// Distinct frames.
    pub frames: AtomicU64,
    /// Frames with a name.
    pub named_frames: AtomicU64,
}

/// Where a timeline goes.
#[derive(Debug)]
pub enum Destination {
    /// Into a recording.
    File(MemberFile),
    /// Into memory, from where the last minutes can be taken while it goes on.
    Ring(Arc<Mutex<Ring>>),
}

impl From<MemberFile> for Destination {
    fn from(file: MemberFile) -> Self {
        Self::File(file)
    }
}

enum Output {
    File(Box<Writer<MemberFile>>),
    Ring(Arc<Mutex<Ring>>),
}

fn locked(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    // An event is taken whole or, after a panic in the middle of one, makes one segment unreadable.
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes events, and counts them.
pub(crate) struct Sink {
    output: Output,
    masking: Option<Masking>,
    /// The earliest sample so far.
    pub(crate) first_sample: Option<MonoNanos>,
    pub(crate) progress: Arc<Progress>,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Sink {
    pub(crate) fn new(
        destination: impl Into<Destination>,
        masking: Option<Masking>,
        progress: Arc<Progress>,
    ) -> io::Result<Self> {
        let output = match destination.into() {
            Destination::File(file) => Output::File(Box::new(Writer::new(file)?)),
            Destination::Ring(ring) => Output::Ring(ring),
        };
        Ok(Self { output, masking, first_sample: None, progress })
    }

    pub(crate) fn push(&mut self, event: &TimelineEvent) -> io::Result<()> {
        match event {
            TimelineEvent::Sample(sample) => {
                self.progress.samples.fetch_add(1, Relaxed);
                let first = self.first_sample.get_or_insert(sample.time);
                *first = sample.time.min(*first);
                if sample.end == biopsy_model::stack::StackEnd::Root {
                    self.progress.rooted.fetch_add(1, Relaxed);
                }
            }
            TimelineEvent::Wait(_) => {
                self.progress.waits.fetch_add(1, Relaxed);
            }
            TimelineEvent::Loss(loss) if !loss.kind.is_meant() => {
                self.progress.lost.fetch_add(loss.count.max(1), Relaxed);
            }
            TimelineEvent::Frame(_) => {
                self.progress.frames.fetch_add(1, Relaxed);
            }
            TimelineEvent::Symbols(_) => {
                self.progress.named_frames.fetch_add(1, Relaxed);
            }
            _ => {}
        }
        match self.masked(event) {
            Some(masked) => self.write(&masked),
            None => self.write(event),
        }
    }

    fn write(&mut self, event: &TimelineEvent) -> io::Result<()> {
        match &mut self.output {
            Output::File(writer) => writer.push(event),
            Output::Ring(ring) => locked(ring).push(event),
        }
    }

    /// The event without secrets, where its texts come from the target and held any: threads are named by programs,
    /// and paths may hold tokens.
    fn masked(&self, event: &TimelineEvent) -> Option<TimelineEvent> {
        let text = match event {
            TimelineEvent::Module(module) => &module.path,
            TimelineEvent::ThreadStart { thread, .. } => &thread.name,
            TimelineEvent::ThreadName { name, .. } | TimelineEvent::Exec { name, .. } => name,
            TimelineEvent::Mark { label, .. } => label,
            TimelineEvent::Warning(warning) => &warning.message,
            _ => return None,
        };
        let masked = match self.masking.as_ref()?.text(layout::TIMELINE, text) {
            Cow::Borrowed(_) => return None,
            Cow::Owned(masked) => masked,
        };
        let mut event = event.clone();
        match &mut event {
            TimelineEvent::Module(module) => module.path = masked,
            TimelineEvent::ThreadStart { thread, .. } => thread.name = masked,
            TimelineEvent::ThreadName { name, .. } | TimelineEvent::Exec { name, .. } => *name = masked,
            TimelineEvent::Mark { label, .. } => *label = masked,
            TimelineEvent::Warning(warning) => warning.message = masked,
            _ => {}
        }
        Some(event)
    }

    pub(crate) fn warn(&mut self, code: &str, message: String, hint: Option<String>) -> io::Result<()> {
        let time = Some(MonoNanos(biopsy_sys::clock::monotonic_nanos()));
        self.push(&TimelineEvent::Warning(Warning { code: code.to_owned(), message, hint, time }))
    }

    pub(crate) fn lost(&mut self, kind: LossKind, from: u64, to: u64, count: u64) -> io::Result<()> {
        let (from, to) = (MonoNanos(from), MonoNanos(to));
        self.push(&TimelineEvent::Loss(Loss { kind, from, to, count, pid: None, tid: None }))
    }

    /// A crash from here on loses nothing that was pushed before. What is kept in memory is held to its bounds.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let bytes = match &mut self.output {
            Output::File(writer) => {
                writer.flush_chunk()?;
                writer.bytes_written()
            }
            Output::Ring(ring) => {
                let mut ring = locked(ring);
                ring.forget();
                ring.bytes() as u64
            }
        };
        self.progress.bytes.store(bytes, Relaxed);
        Ok(())
    }

    /// Length of the file up to here, and the bytes that end a copy of it; `None`: there is no file.
    pub(crate) fn cut(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        self.flush()?;
        Ok(match &self.output {
            Output::File(writer) => Some((writer.bytes_written(), writer.end_mark())),
            Output::Ring(_) => None,
        })
    }

    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        let Output::File(writer) = self.output else { return Ok(self.progress.bytes.load(Relaxed)) };
        let bytes = writer.bytes_written() + writer.end_mark().len() as u64;
        let file = writer.finish()?;
        // What was recorded survives a power loss from here on; failing to sync loses nothing by itself.
        let _ = file.sync();
        self.progress.bytes.store(bytes, Relaxed);
        Ok(bytes)
    }
}
