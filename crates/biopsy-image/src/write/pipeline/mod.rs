//! Reads, compresses and writes at the same time, on all cores allowed, in bounded memory.
//!
//! Workers take blocks in order, fill them from the image and compress them; the calling thread puts them back in order and
//! writes. Plain cores in files are written by the workers themselves, each block at its place.

mod fill;
mod order;
mod pack;
mod window;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::fill::{Missing, fill};
use self::order::Ordered;
use self::pack::{Packed, Packer, Spare};
use self::window::Window;
use super::layout::Layout;
use super::{Compression, CoreError, CoreOptions, CoreOutput, CoreProgress, CoreSummary};
use crate::Image;
use crate::vendor::{self, END_NOTE_SIZE};

/// What all threads see.
struct Shared<'a> {
    image: &'a dyn Image,
    layout: &'a Layout,
    progress: &'a dyn CoreProgress,
    window: Window,
    missing: Mutex<Missing>,
    spare: Spare,
    /// Blocks of the frozen process that are not read yet.
    frozen_left: AtomicU64,
    freeze_needed: Mutex<Duration>,
    read: AtomicU64,
    /// The ceiling is reached: memory is not read any more.
    full: AtomicBool,
    stopped: AtomicBool,
    started: Instant,
}

/// One block, packed, for the writer.
type Done = (u64, Result<Packed, CoreError>);

/// Writes everything. See [`super::write_core`].
pub(super) fn run(
    image: &dyn Image,
    options: &CoreOptions,
    layout: &Layout,
    output: CoreOutput<'_>,
    progress: &dyn CoreProgress,
) -> Result<CoreSummary, CoreError> {
    let workers = options.workers();
    let shared = Shared {
        image,
        layout,
        progress,
        window: Window::new(layout.blocks(), workers as u64 + 2),
        missing: Mutex::default(),
        spare: Spare::default(),
        frozen_left: AtomicU64::new(layout.frozen_blocks()),
        freeze_needed: Mutex::default(),
        read: AtomicU64::new(0),
        full: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        started: Instant::now(),
    };
    let in_place = match (&output, options.compression) {
        (CoreOutput::File(file), Compression::None) => Some(*file),
        _ => None,
    };
    let mut ordered = Ordered::new(output, options, layout);
    let result = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for started in 0..workers {
            let sender = sender.clone();
            let shared = &shared;
            let body = move || {
                let packer = match in_place {
                    Some(file) => Ok(Packer::in_place(file)),
                    None => Packer::new(options.compression).map_err(CoreError::Compression),
                };
                work(shared, packer, &sender);
            };
            match std::thread::Builder::new().name("core-writer".to_owned()).spawn_scoped(scope, body) {
                Ok(_) => {}
                Err(error) if started == 0 => return Err(CoreError::Thread(error)),
                // Fewer do it too, only slower.
                Err(_) => break,
            }
        }
        drop(sender);
        let result = collect(&shared, &mut ordered, &receiver);
        // Whoever waits for room must not wait for ever.
        shared.window.close();
        result
    });
    if let Err(error) = result {
        // Blocks that others wrote behind the one that failed have holes before them, which would read as zeros.
        if let Some(file) = in_place {
            let _ = file.set_len(ordered.whole());
        }
        return Err(error);
    }
    let missing = shared.missing.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    let end = vendor::encode_end_note(&missing);
    ordered.finish(&end)?;
    progress.read(layout.file_size(), layout.file_size());
    Ok(CoreSummary {
        logical_bytes: layout.file_size(),
        written_bytes: ordered.written(),
        contents: layout.class_bytes(),
        segments: layout.segments(),
        left_out: layout.left_out().to_vec(),
        missing,
        freeze_needed: *shared.freeze_needed.lock().unwrap_or_else(PoisonError::into_inner),
        total: shared.started.elapsed(),
    })
}

/// Takes packed blocks in order and writes them, until all are there or something fails.
fn collect(
    shared: &Shared<'_>,
    ordered: &mut Ordered<'_>,
    receiver: &Receiver<Done>,
) -> Result<(), CoreError> {
    while ordered.next() < shared.layout.blocks() {
        let Ok((index, packed)) = receiver.recv() else {
            // All workers are gone, which they are early only when they were told to stop.
            return Err(CoreError::Stopped { written: ordered.written() });
        };
        ordered.put(index, packed?, &shared.spare)?;
        if ordered.is_full() {
            shared.full.store(true, Ordering::Relaxed);
        }
        shared.window.written_up_to(ordered.next());
        if !shared.progress.keep_going() {
            shared.stopped.store(true, Ordering::Relaxed);
            return Err(CoreError::Stopped { written: ordered.written() });
        }
    }
    Ok(())
}

fn work(shared: &Shared<'_>, packer: Result<Packer<'_>, CoreError>, sender: &Sender<Done>) {
    let mut packer = match packer {
        Ok(packer) => packer,
        Err(error) => {
            let _ = sender.send((0, Err(error)));
            return;
        }
    };
    let mut block = Vec::new();
    let mut runs = Vec::new();
    while let Some(index) = shared.window.claim() {
        let range = shared.layout.block(index);
        let skip = shared.full.load(Ordering::Relaxed);
        let missing = fill(shared.image, shared.layout, range.clone(), skip, &mut block, &mut runs);
        if !missing.is_empty() {
            shared.missing.lock().unwrap_or_else(PoisonError::into_inner).append(missing);
        }
        shared.block_read(index, range.end - range.start);
        let packed = packer.pack(range.start, &mut block, &shared.spare);
        // The writer has gone when the output failed.
        if sender.send((index, packed)).is_err() {
            return;
        }
    }
}

impl Shared<'_> {
    fn block_read(&self, index: u64, bytes: u64) {
        let done = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.progress.read(done, self.layout.file_size());
        let frozen = index < self.layout.frozen_blocks();
        if frozen && self.frozen_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.freeze_needed.lock().unwrap_or_else(PoisonError::into_inner) = self.started.elapsed();
            self.progress.anonymous_memory_done();
        }
    }
}

/// Compression of the end note, and its size, are those of any block.
const _: () = assert!(END_NOTE_SIZE <= super::layout::BLOCK);
