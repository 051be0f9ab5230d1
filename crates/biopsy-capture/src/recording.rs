//! A recording that is being made.

use std::path::Path;
use std::sync::Arc;

use biopsy_model::ProcessKey;
use biopsy_model::capture::{CaptureHeader, EndedBy};
use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::{self, Moment, clock_pair, host_info};
use biopsy_record::masking::Masking;
use biopsy_recording::{RecordingFolder, WriteError, layout};
use biopsy_redact::{RedactionLog, Redactor};

use crate::failure::{Failure, FailureKind};
use crate::job::{Job, Leaving};

/// The folder of a recording while it is written, with what masks it. Unless it is [kept](Self::keep), it goes with this value: a
/// folder with nothing but context in it would only puzzle.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) folder: Arc<RecordingFolder>,
    pub(crate) masking: Masking,
    pub(crate) header: CaptureHeader,
    /// Should the process be ended, the folder is named.
    pub(crate) leaving: Leaving,
    kept: bool,
}

impl Draft {
    /// Makes the folder, with the header of a recording that begins now. `command`: what the user typed.
    pub(crate) fn begin(
        job: &Job,
        folder: &Path,
        target: &ProcessKey,
        name: &str,
        command: &[String],
    ) -> Result<Self, Failure> {
        Self::begin_with(new_masking()?, job, folder, target, name, command)
    }

    /// The same with what masks it.
    pub(crate) fn begin_with(
        masking: Masking,
        job: &Job,
        folder: &Path,
        target: &ProcessKey,
        name: &str,
        command: &[String],
    ) -> Result<Self, Failure> {
        let made = Arc::new(RecordingFolder::create(folder).map_err(output_failure)?);
        let leaving = job.keeping(folder);
        let header = header(target, name, command, &masking);
        let draft = Self::of(made, masking, header, leaving);
        draft.write_header()?;
        Ok(draft)
    }

    pub(crate) fn of(
        folder: Arc<RecordingFolder>,
        masking: Masking,
        header: CaptureHeader,
        leaving: Leaving,
    ) -> Self {
        Self { folder, masking, header, leaving, kept: false }
    }

    /// It holds something now: it stays, whatever happens.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    pub(crate) fn write_header(&self) -> Result<(), Failure> {
        self.folder.header(&self.header).map_err(output_failure)
    }

    /// Sets the end of the recording, and why it ended.
    pub(crate) fn end(&mut self, ended_by: EndedBy) -> Result<(), Failure> {
        self.header.end = Some(clock_pair());
        self.header.ended_by = ended_by;
        self.write_header()
    }

    /// The context of these processes, and what it lacks as warnings.
    pub(crate) fn context(&self, processes: &[ProcessInfo], moment: Moment) -> Result<(), WriteError> {
        let pids: Vec<_> = processes.iter().map(|process| process.key.pid).collect();
        let summary =
            context::collect(&context::Config::default(), moment, &pids, &self.folder, &self.masking)?;
        self.warn_all(&summary.warnings);
        Ok(())
    }

    /// `target/processes.json`, with masked command lines.
    pub(crate) fn write_processes(&self, tree: &[ProcessInfo]) -> Result<(), Failure> {
        let (member, masking) = (layout::PROCESSES, &self.masking);
        let mut tree = tree.to_vec();
        for process in &mut tree {
            let redacted = masking.redactor().command_line(&process.command_line);
            masking.log().add(member, &redacted.hits);
            process.command_line = redacted.args;
            for text in [&mut process.name, &mut process.exe, &mut process.cgroup] {
                *text = masking.text(member, text).into_owned();
            }
        }
        self.folder.processes(&tree).map_err(output_failure)
    }

    /// Writes a text, masked.
    pub(crate) fn write_text(&self, member: &str, text: &str) -> Result<(), WriteError> {
        self.folder.write_text(member, &self.masking.text(member, text))
    }

    pub(crate) fn warn(&self, code: &str, message: impl Into<String>) {
        self.warn_all(&[warning(code, message)]);
    }

    pub(crate) fn warn_all(&self, warnings: &[Warning]) {
        for warning in warnings {
            if let Err(error) = self.folder.warn(warning) {
                tracing::warn!(%error, message = warning.message, "a warning could not be written");
            }
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is named by whoever says why there is no result.
            let _ = self.folder.remove();
        }
    }
}

/// A redactor for one recording, with a key of its own.
pub(crate) fn new_masking() -> Result<Masking, Failure> {
    Ok(Masking::new(Arc::new(new_redactor()?), Arc::new(RedactionLog::new())))
}

/// The same, or one that masks personal data, too: what looks like it, and the names of this machine and its people wherever they
/// stand.
pub(crate) fn masking_for(anonymize: bool) -> Result<Masking, Failure> {
    if !anonymize {
        return new_masking();
    }
    let names = biopsy_redact::pack_of_names(&context::machine(), &context::people());
    let extra_packs = names.into_iter().collect();
    let options = biopsy_redact::Options { personal: true, extra_packs, ..biopsy_redact::Options::default() };
    Ok(Masking::new(Arc::new(redactor(options)?), Arc::new(RedactionLog::new())))
}

pub(crate) fn new_redactor() -> Result<Redactor, Failure> {
    redactor(biopsy_redact::Options::default())
}

fn redactor(options: biopsy_redact::Options) -> Result<Redactor, Failure> {
    Redactor::new(options).map_err(|error| Failure::from_error(FailureKind::Bug, &error))
}

fn header(target: &ProcessKey, name: &str, command: &[String], masking: &Masking) -> CaptureHeader {
    let redacted = masking.redactor().command_line(command);
    masking.log().add(layout::HEADER, &redacted.hits);
    CaptureHeader {
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
        command: redacted.args,
        start: clock_pair(),
        end: None,
        target: Some(target.clone()),
        target_name: masking.text(layout::HEADER, name).into_owned(),
        host: host_info(Path::new("/proc"), masking),
        ended_by: EndedBy::Unknown,
    }
}

pub(crate) fn warning(code: &str, message: impl Into<String>) -> Warning {
    Warning { code: code.to_owned(), message: message.into(), hint: None, time: None }
}

pub(crate) fn output_failure(error: WriteError) -> Failure {
    Failure::from_error(FailureKind::Output, &error).with_hint(error.hint())
}
