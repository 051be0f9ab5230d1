//! Dumps that come one after the other into one recording: of the running target, and of processes that are held.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use biopsy_image::Image;
use biopsy_image::write::{CaptureMethod, CopiedImage, CopyRoom};
use biopsy_record::dump::mask::{Literals, MASK_OVERLAP};
use biopsy_record::dump::{DumpProgress, Origin};
use biopsy_recording::layout;
use biopsy_target::catch::{Caught, Cause};
use rustix::fs::{Mode, OFlags};

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::place::Place;
use crate::recording::output_failure;
use crate::target::Subject;
use crate::words::pause_text;

use super::destination::Destination;
use super::forecast::Forecast;
use super::freeze::secrets_of;
use super::plan::DumpPlan;
use super::queue::Queue;
use super::recording::DumpRecording;
use crate::job::Event;

/// Most bytes of copies of caught processes that are not written yet, all together.
const MOST_COPIED: u64 = 1 << 30;
/// What stays free on a disk that copies spill to.
const SPILL_RESERVE: u64 = 1 << 30;
/// Dumps that go into one recording, as they come.
pub(super) struct Dumper<'a> {
    pub(super) plan: &'a DumpPlan,
    pub(super) job: &'a Job,
    pub(super) subject: Subject,
    literals: Arc<Literals>,
    /// For copies of what is held.
    pub(super) room: Arc<CopyRoom>,
    place: Place,
    /// Made when the first dump comes: what never happened leaves nothing behind.
    pub(super) recording: Option<DumpRecording>,
}

impl<'a> Dumper<'a> {
    pub(super) fn new(plan: &'a DumpPlan, subject: Subject, place: Place, job: &'a Job) -> Self {
        let literals = Arc::new(secrets_of(plan, &subject));
        Self { plan, job, subject, literals, room: copy_room(), place, recording: None }
    }

    /// Also takes the context of these processes, which are new.
    fn recording(&mut self, subject: &Subject) -> Result<&mut DumpRecording, Failure> {
        match &mut self.recording {
            Some(recording) => recording.take_context(subject)?,
            none => *none = Some(DumpRecording::begin(self.plan, subject, self.place.clone(), self.job)?),
        }
        self.recording.as_mut().ok_or_else(|| Failure::new(FailureKind::Bug, "the recording is not open"))
    }

    /// Freezes and dumps the running target, with the tree of this moment.
    pub(super) fn dump_now(&mut self, reason: &str) -> Result<(), Failure> {
        let Some(subject) = self.subject.again(self.plan.tree)? else {
            let message = format!("process {} has ended", self.subject.target().key.pid);
            return Err(Failure::new(FailureKind::Target, message));
        };
        self.dump_frozen(&subject, reason)
    }

    pub(super) fn dump_frozen(&mut self, subject: &Subject, reason: &str) -> Result<(), Failure> {
        let (plan, job) = (self.plan, self.job);
        let destination = Destination::Recording(self.place.clone());
        let forecast = Forecast::make(plan, subject, &destination)?;
        job.tell(Event::Forecast(&forecast));
        forecast.check()?;
        let freezing = forecast.freeze;
        let recording = self.recording(subject)?;
        let reason = recording.draft.masking.text(layout::DUMPS_FOLDER, reason).into_owned();
        recording.dump(plan, subject, freezing, &reason, job)
    }

    /// Dumps a process that is held, and lets it go: as soon as its memory is copied, where there is room for a copy, else when
    /// the dump is written. With a queue, others write it.
    pub(super) fn dump_held(
        &mut self,
        caught: Caught,
        reason: &str,
        queue: Option<&Queue<'_>>,
    ) -> Result<(), Failure> {
        let (plan, job) = (self.plan, self.job);
        let pid = caught.key().pid;
        let info = biopsy_target::list::process(pid);
        if caught.cause() == Cause::Time
            && let Ok(info) = info
        {
            // It is in the middle of its work: frozen, it stands still for a fraction of the time.
            let _ = caught.release();
            let name = info.name.clone();
            return self.dump_frozen(&Subject { processes: vec![info], name }, reason);
        }
        let subject = match info {
            Ok(info) => self.subject.one(info),
            // It is going: what is known of the target has to do.
            Err(_) => self.subject.clone(),
        };
        let fresh = (plan.scrub && plan.wait_for.is_some()).then(|| Literals::read(&subject.pids()));
        let literals = fresh.map_or_else(|| Arc::clone(&self.literals), Arc::new);
        let copied = self.copy(&caught);
        let recording = self.recording(&subject)?;
        recording.keep_words(pid)?;
        let reason = recording.draft.masking.text(layout::DUMPS_FOLDER, reason).into_owned();
        let origin = Origin {
            method: CaptureMethod::Held,
            pause: caught.held(),
            predicted_pause: None,
            reason: reason.clone(),
            lacking: caught.warnings().to_vec(),
            warnings: caught.warnings().to_vec(),
            number: 1,
        };
        let told = |held: Duration| {
            job.step(format!("process {pid}: {reason}; held for {}", pause_text(held)));
        };
        let Some(copied) = copied else {
            // Compressing takes long, and all processors: there, the others are as good as we are.
            let _behind = queue.is_some().then(|| Nice::set(0));
            let image: &dyn Image = &caught;
            recording.write_one(plan, image, &literals, origin, &DumpProgress::default(), job)?;
            let release = caught.release();
            if let Some(dumped) = recording.dumps.last_mut() {
                dumped.set_pause(release.held, &recording.draft.folder).map_err(output_failure)?;
            }
            told(release.held);
            return recording.check_scrubbed(&literals);
        };
        let release = caught.release();
        told(release.held);
        let origin = Origin { pause: release.held, ..origin };
        match queue {
            Some(queue) => queue.put(recording, copied, literals, origin),
            None => {
                recording.write_one(plan, &copied, &literals, origin, &DumpProgress::default(), job)?;
                recording.check_scrubbed(&literals)
            }
        }
    }

    /// Copies what the dump will hold: into memory, and when there is no room, into a file beside the dumps that is gone when
    /// we are. Never there what is to be masked: then it is held until there is room.
    fn copy(&self, caught: &Caught) -> Option<CopiedImage> {
        let around = if self.plan.scrub { MASK_OVERLAP } else { 0 };
        let folder =
            self.recording.as_ref().filter(|_| !self.plan.scrub).map(|recording| &recording.draft.folder);
        let spill = |bytes: u64| folder.and_then(|folder| spill_file(folder.reach(), bytes));
        // That it cannot be asked what it has is for the writer to say.
        CopiedImage::copy_or_spill(caught, self.plan.kind, around, &self.room, &spill).ok().flatten()
    }
}

/// A file without a name in the folder, where its disk has room for so many bytes twice: the dump goes there too.
fn spill_file(folder: &Path, bytes: u64) -> Option<File> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free / 2 < bytes.saturating_add(SPILL_RESERVE) {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::open(folder, flags, mode).ok().map(File::from)
}

/// Puts the calling thread before or behind others, by a nice value (setpriority(2)), until it is dropped. That it is refused is
/// no reason to stop.
pub(super) struct Nice {
    before: i32,
}

impl Nice {
    pub(super) fn set(value: i32) -> Self {
        let before = rustix::process::getpriority_process(None).unwrap_or(0);
        let _ = rustix::process::setpriority_process(None, value);
        Self { before }
    }
}

impl Drop for Nice {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
    }
}

/// How much memory copies may have: a quarter of what biopsy can get.
fn copy_room() -> Arc<CopyRoom> {
    let left = biopsy_target::freeze::own_headroom().map_or(0, |headroom| headroom.bytes / 4);
    CopyRoom::new(left.min(MOST_COPIED))
}
