//! Writing one image.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use biopsy_image::Image;
use biopsy_image::scrub::{MaskCount, ScrubbedImage};
use biopsy_record::dump::mask::{Literals, MemoryMask};
use biopsy_record::dump::{DumpProgress, Dumped, Origin};
use biopsy_recording::{RecordingFolder, WriteError};

use crate::job::{Event, Job};
use crate::place::disk_is_nearly_full;

use super::plan::DumpPlan;

/// How often it is told how far it is, and looked whether it is to be given up.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// A dump, or why the recording could not be written, and what was masked in it.
pub(super) type Written = (Result<Dumped, WriteError>, Vec<MaskCount>);

/// When a dump that is being written is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// When the job is asked to end: somebody is frozen or held for it. How far it is, is told.
    Asked,
    /// When it is hurried: it is written from a copy, beside others.
    Hurried,
}

/// Writes one image into the folder.
pub(super) fn write_image(
    plan: &DumpPlan,
    image: &dyn Image,
    literals: &Literals,
    origin: &Origin,
    folder: &RecordingFolder,
    (job, until): (&Job, Until),
    progress: &DumpProgress<'_>,
) -> Written {
    let settings = plan.settings();
    watching(job, until, image, Some(folder.reach()), progress, |progress| {
        masking(plan, image, literals, |image| {
            biopsy_record::dump::write(image, origin, &settings, folder, progress)
        })
    })
}

/// Hands the image on, with its secrets masked where that is wanted, and says what was masked.
pub(super) fn masking<T>(
    plan: &DumpPlan,
    image: &dyn Image,
    literals: &Literals,
    write: impl FnOnce(&dyn Image) -> T,
) -> (T, Vec<MaskCount>) {
    if !plan.scrub {
        return (write(image), Vec::new());
    }
    let masked = ScrubbedImage::new(image, MemoryMask::new(literals));
    let written = write(&masked);
    (written, masked.counts())
}

/// Runs `write` beside a thread that tells its progress, and ends it when the disk is nearly full or it is to be given up.
pub(super) fn watching<T>(
    job: &Job,
    until: Until,
    image: &dyn Image,
    path: Option<&Path>,
    progress: &DumpProgress<'_>,
    write: impl FnOnce(&DumpProgress<'_>) -> T,
) -> T {
    let pid = image.process().pid;
    let end = End::default();
    let look = || {
        if until == Until::Asked {
            let (done, total) = (progress.done.load(Relaxed), progress.total.load(Relaxed));
            job.tell(Event::Writing { pid, done, total });
        }
        let given_up = if until == Until::Asked { job.is_asked() } else { job.is_hurried() };
        if given_up || path.is_some_and(disk_is_nearly_full) {
            progress.stop.store(true, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        // Without it nothing is told, and a full disk is noticed by the writer.
        let _ = std::thread::Builder::new().spawn_scoped(scope, || {
            while !end.within(LOOK_EVERY) {
                look();
            }
            if until == Until::Asked {
                job.tell(Event::Written);
            }
        });
        // Also when `write` panics: the scope waits for that thread, and the frozen copy would be held for ever.
        let _end = EndWhenDropped(&end);
        write(progress)
    })
}

/// That the writer has ended.
#[derive(Default)]
struct End(Mutex<bool>, Condvar);

impl End {
    /// Waits so long for it.
    fn within(&self, time: Duration) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *self.1.wait_timeout_while(ended, time, |ended| !*ended).unwrap_or_else(PoisonError::into_inner).0
    }
}

struct EndWhenDropped<'a>(&'a End);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Adds up counts of several dumps by rule.
pub(super) fn merge(all: &mut Vec<MaskCount>, more: Vec<MaskCount>) {
    for one in more {
        match all.iter_mut().find(|known| known.rule == one.rule) {
            Some(known) => known.count = known.count.saturating_add(one.count),
            None => all.push(one),
        }
    }
}
