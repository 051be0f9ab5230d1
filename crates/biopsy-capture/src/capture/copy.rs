//! A usable bundle of everything so far, while the recording goes on: a copy that ends here.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_analyze::Diagnosis;
use biopsy_model::capture::{CaptureHeader, EndedBy};
use biopsy_record::context::clock_pair;
use biopsy_record::trace::{Cut, TraceHandle};
use biopsy_recording::{RecordingFolder, layout};

use crate::failure::{Failure, FailureKind};
use crate::finish::finish;
use crate::job::Event;
use crate::place::Place;
use crate::recording::{Draft, output_failure};

use super::record::Recording;

impl Recording<'_> {
    /// Makes it, and tells how it went.
    pub(super) fn snapshot(&mut self) {
        let number = u32::try_from(self.snapshots.len() + 1).unwrap_or(u32::MAX);
        let place = self.place.snapshot(number);
        let cut = self.running.trace.as_ref().and_then(TraceHandle::cut);
        match self.copy(cut.as_ref(), &place) {
            Ok(path) => {
                self.job.step(format!("snapshot {number}: {}; recording goes on", path.display()));
                self.snapshots.push(path);
            }
            Err(failure) => {
                self.job.step(format!("snapshot {number} failed; recording goes on"));
                self.job.tell(Event::Failed(&failure));
            }
        }
    }

    fn copy(&self, cut: Option<&Cut>, place: &Place) -> Result<PathBuf, Failure> {
        let folder = Arc::new(RecordingFolder::create(&place.folder).map_err(output_failure)?);
        let header = CaptureHeader {
            end: Some(clock_pair()),
            ended_by: EndedBy::Snapshot,
            ..self.draft.header.clone()
        };
        let leaving = self.job.removing(&place.folder);
        // It goes when this ends: into the bundle, or because there is none.
        let copy = Draft::of(folder, self.draft.masking.clone(), header, leaving);
        copy_members(&self.draft, &copy.folder, cut)?;
        copy.write_header()?;
        finish(self.job, &copy, place, Diagnosis::of_capture).map(|(done, _)| done.path)
    }
}

fn copy_members(from: &Draft, copy: &RecordingFolder, cut: Option<&Cut>) -> Result<(), Failure> {
    let failed = |name: &str, error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot copy `{name}` for the snapshot: {error}"))
    };
    for name in from.folder.members().map_err(output_failure)? {
        if name == layout::HEADER || name == layout::REDACTION {
            continue;
        }
        let file = from.folder.edit_member(&name).map_err(output_failure)?;
        let mut member = copy.create_member(&name).map_err(output_failure)?;
        let (limit, end) = match cut {
            Some(cut) if name == layout::TIMELINE => (cut.bytes, cut.end.as_slice()),
            _ => (u64::MAX, &[][..]),
        };
        std::io::copy(&mut file.take(limit), &mut member)
            .and_then(|_| member.write_all(end))
            .map_err(|error| failed(&name, error))?;
    }
    Ok(())
}
