//! Dumps that are written while the next process is caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use biopsy_image::write::{CopiedImage, CopyRoom};
use biopsy_record::dump::mask::Literals;
use biopsy_record::dump::{DumpProgress, Origin};
use biopsy_recording::RecordingFolder;

use crate::failure::{Failure, FailureKind};
use crate::job::Job as Run;

use super::plan::DumpPlan;
use super::recording::DumpRecording;
use super::write::{Until, Written, write_image};

/// A copy that is to be written.
struct Job {
    image: CopiedImage,
    literals: Arc<Literals>,
    origin: Origin,
    folder: Arc<RecordingFolder>,
}

/// Takes copies. How many bytes may wait in it is bounded by the room that copies are made in.
pub(super) struct Queue<'a> {
    jobs: Sender<Job>,
    state: &'a State,
}

#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    failed: AtomicBool,
}

impl Queue<'_> {
    /// Hands a copy to the writer.
    pub(super) fn put(
        &self,
        recording: &mut DumpRecording,
        image: CopiedImage,
        literals: Arc<Literals>,
        origin: Origin,
    ) -> Result<(), Failure> {
        let number = recording.next_number(biopsy_image::Image::process(&image).pid);
        let origin = Origin { number, ..origin };
        self.state.waiting.fetch_add(1, Relaxed);
        let job = Job { image, literals, origin, folder: Arc::clone(&recording.draft.folder) };
        self.jobs
            .send(job)
            .map_err(|_| Failure::new(FailureKind::Bug, "the thread that writes dumps has ended"))
    }

    /// Copies that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.state.waiting.load(Relaxed)
    }

    /// Whether the recording cannot be written any more.
    pub(super) fn has_failed(&self) -> bool {
        self.state.failed.load(Relaxed)
    }
}

/// Runs `body` beside a thread that writes what it puts into the queue, and waits until all is written.
///
/// # Errors
/// That thread cannot be started; `body` was not run.
pub(super) fn writing<T>(
    plan: &DumpPlan,
    room: &CopyRoom,
    run: &Run,
    body: impl FnOnce(&Queue<'_>) -> T,
) -> Result<(T, Vec<Written>), Failure> {
    let state = State::default();
    std::thread::scope(|scope| {
        let (jobs, inbox) = channel();
        let writer = std::thread::Builder::new()
            .spawn_scoped(scope, || write_all(plan, room, inbox, &state, run))
            .map_err(|error| Failure::new(FailureKind::Memory, format!("cannot start a thread: {error}")))?;
        let queue = Queue { jobs, state: &state };
        let result = body(&queue);
        drop(queue);
        // A panic over there is one of ours too.
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((result, written))
    })
}

/// Nice value of the writer while there is room for copies, and when more than half of it is taken: what comes after a full
/// room is held longer. Behind everybody, as other dumps are written, six megabytes took twenty seconds on a machine with
/// eighty runnable threads.
const AT_EASE: i32 = 0;
const IN_HASTE: i32 = -10;

fn write_all(
    plan: &DumpPlan,
    room: &CopyRoom,
    inbox: Receiver<Job>,
    state: &State,
    run: &Run,
) -> Vec<Written> {
    let mut all = Vec::new();
    for Job { image, literals, origin, folder } in inbox {
        let nice = if room.used() > room.total() / 2 { IN_HASTE } else { AT_EASE };
        // That it is refused is no reason to stop.
        let _ = rustix::process::setpriority_process(None, nice);
        // Nobody is held for a copy: what was caught in time is written after the first signal, too.
        let (how, progress) = ((run, Until::Hurried), DumpProgress::default());
        let mut written = write_image(plan, &image, &literals, &origin, &folder, how, &progress);
        // Its room is free for the next one.
        drop(image);
        if let Ok(dumped) = &mut written.0
            && let Err(error) = dumped.check_scrubbed(&literals, &folder)
        {
            written.0 = Err(error);
        }
        if written.0.is_err() {
            state.failed.store(true, Relaxed);
        }
        all.push(written);
        state.waiting.fetch_sub(1, Relaxed);
    }
    all
}
