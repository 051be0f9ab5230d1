//! Dumps: the image of a process, written into a recording with the facts of how it was got.
//!
//! The image comes frozen from `biopsy-target`; here it becomes `dumps/PID.core.zst` and `dumps/PID.json`. A core has its
//! final name only when it is whole; what was cut short keeps the ending `.partial`, and the facts say what is missing.

mod facts;
pub mod mask;
mod progress;
mod search;
mod settings;

use std::fs::File;
use std::io::BufWriter;
use std::time::{Duration, SystemTime};

use biopsy_image::Image;
use biopsy_image::write::{CoreError, CoreOptions, CoreOutput, CoreSummary, write_core, write_minidump};
use biopsy_model::Pid;
use biopsy_model::dump::DumpFacts;
use biopsy_recording::{RecordingFolder, WriteError, layout};

pub use progress::DumpProgress;
pub use search::values_left;
pub use settings::{DumpSettings, Format, Origin};

/// A dump that was written, or as much of it as could be.
#[derive(Debug)]
pub struct Dumped {
    /// Whose.
    pub pid: Pid,
    /// Member of the recording that holds the core.
    pub member: String,
    /// What was written; an error leaves a file that ends in `.partial`.
    pub result: Result<CoreSummary, CoreError>,
    /// What is in the member of the facts.
    pub facts: DumpFacts,
    facts_member: String,
}

/// Writes one image into the recording.
///
/// # Errors
/// The recording cannot be written at all. A core that is cut short is no error here: see [`Dumped::result`].
pub fn write(
    image: &dyn Image,
    origin: &Origin,
    settings: &DumpSettings,
    folder: &RecordingFolder,
    progress: &DumpProgress<'_>,
) -> Result<Dumped, WriteError> {
    let pid = image.process().pid;
    let whole = layout::dump_member(pid, origin.number, settings.scrubbed, settings.format.ending());
    let partial = format!("{whole}{}", layout::PARTIAL);
    let taken = SystemTime::now();
    let file = folder.create_member(&partial)?;
    let room = keep_room(folder);
    let result = write_file(image, origin, settings, CoreOutput::File(file.file()), progress);
    drop(room);
    let member = match &result {
        Ok(_) => {
            folder.rename_member(&partial, &whole)?;
            whole
        }
        Err(_) => partial,
    };
    let facts = facts::of(image, origin, settings, &result, &member, taken);
    let facts_member = layout::dump_member(pid, origin.number, settings.scrubbed, "json");
    folder.dump_facts(&facts_member, &facts)?;
    Ok(Dumped { pid, member, result, facts, facts_member })
}

impl Dumped {
    /// Notes how long the process stood still, where that is known only after it was let go.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn set_pause(&mut self, pause: Duration, folder: &RecordingFolder) -> Result<(), WriteError> {
        self.facts.pause_ms = pause.as_secs_f64() * 1e3;
        folder.dump_facts(&self.facts_member, &self.facts)
    }

    /// Searches a dump that was masked for each value that was to be masked in it. One in which a value is left, or that
    /// cannot be searched, is not called scrubbed any more: neither in its name nor in its facts, which say why.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn check_scrubbed(
        &mut self,
        literals: &mask::Literals,
        folder: &RecordingFolder,
    ) -> Result<(), WriteError> {
        if !self.facts.scrubbed {
            return Ok(());
        }
        let opened = folder.edit_member(&self.member).map_err(std::io::Error::other);
        let left = opened.and_then(|member| values_left(member, &literals.finder()));
        let why = match left {
            Ok(0) => return Ok(()),
            Ok(left) => {
                format!("{left} values known to be secret are still in it: it is not called scrubbed")
            }
            Err(error) => format!(
                "it could not be searched for what was to be masked ({error}): it is not called scrubbed"
            ),
        };
        let (member, facts_member) =
            (layout::not_scrubbed(&self.member), layout::not_scrubbed(&self.facts_member));
        folder.rename_member(&self.member, &member)?;
        folder.rename_member(&self.facts_member, &facts_member)?;
        self.facts.member.clone_from(&member);
        self.facts.scrubbed = false;
        self.facts.warnings.push(why);
        (self.member, self.facts_member) = (member, facts_member);
        folder.dump_facts(&self.facts_member, &self.facts)
    }
}

/// Space on the disk for what is said of a dump, kept while the dump is written: where the disk fills up, its facts, the
/// report and the manifest can still be. `None`: it is full already, or cannot promise space.
fn keep_room(folder: &RecordingFolder) -> Option<File> {
    // Facts, report and manifest of a process with thousands of threads.
    const BYTES: u64 = 4 << 20;
    // It has no name, so that nothing is left of it however this ends.
    let file = tempfile::tempfile_in(folder.reach()).ok()?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES).ok()?;
    Some(file)
}

/// Writes one image into a file or stream of its own, without facts beside it.
///
/// # Errors
/// As [`write_core`] and [`write_minidump`].
pub fn write_file(
    image: &dyn Image,
    origin: &Origin,
    settings: &DumpSettings,
    output: CoreOutput<'_>,
    progress: &DumpProgress<'_>,
) -> Result<CoreSummary, CoreError> {
    match (settings.format, output) {
        (Format::Core(compression), output) => {
            let options = CoreOptions {
                compression,
                max_size: settings.max_size,
                scrubbed: settings.scrubbed,
                method: origin.method,
                pause: Some(origin.pause),
                warnings: origin.lacking.clone(),
                ..CoreOptions::new(settings.kind)
            };
            write_core(image, &options, output, progress)
        }
        (Format::Minidump, CoreOutput::File(file)) => {
            write_minidump(image, &mut BufWriter::new(file), progress)
        }
        (Format::Minidump, CoreOutput::Stream(stream)) => write_minidump(image, stream, progress),
    }
}
