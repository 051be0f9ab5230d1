//! From written dumps to something that can be handed over: report, and finish.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_analyze::dump::DumpAnalysis;
use biopsy_analyze::{Beside, Diagnosis, analyze_opened};
use biopsy_image::OpenError;
use biopsy_model::Nanos;
use biopsy_model::capture::EndedBy;
use biopsy_record::dump::Dumped;
use biopsy_recording::{Limits, warnings_in_words};

use crate::failure::{Failure, FailureKind};
use crate::finish::{HandedOver, finish};
use crate::job::Job;
use crate::recording::{Draft, warning};

use super::recording::DumpRecording;

/// Code of the warning that a dump could not be read again for its report.
const NOT_READ: &str = "dump.not-read";

/// Dumps that were made.
#[derive(Debug)]
pub struct Dumps {
    /// The recording.
    pub result: HandedOver,
    /// In the order in which they were taken.
    pub dumps: Vec<Dumped>,
    /// Values masked in dumped memory, by rule.
    pub masked: Vec<(String, u64)>,
    /// What they say.
    pub diagnosis: Diagnosis,
    /// Why there is no report on some.
    pub not_read: Vec<String>,
}

/// Reads each dump again, and finishes the recording.
pub(super) fn conclude(mut recording: DumpRecording, job: &Job) -> Result<Dumps, Failure> {
    let mut analyses = Vec::new();
    let mut warnings = Vec::new();
    // Those of the recorders, as they were written; what is found below is in the dumps themselves.
    let mut undetermined = warnings_in_words(recording.draft.folder.reach(), &Limits::default());
    for dumped in &recording.dumps {
        match read(&recording, dumped) {
            Ok(analysis) => analyses.push(with_facts(analysis, dumped)),
            Err(error) => {
                let failure = Failure::from_error(FailureKind::BadInput, &error);
                warnings.push(warning(NOT_READ, format!("no report on `{}`: {failure}", dumped.member)));
            }
        }
        if !dumped.facts.scrubbed && recording.masked.iter().any(|one| one.count > 0) {
            let why = dumped.facts.warnings.last().map_or("", String::as_str);
            warnings.push(warning("dump.not-scrubbed", format!("`{}`: {why}", dumped.member)));
        }
        if let Some(error) = &dumped.facts.error {
            warnings.push(warning("dump.cut-short", format!("`{}` is not whole: {error}", dumped.member)));
        }
    }
    undetermined.extend(warnings.iter().map(|one| one.message.clone()));
    recording.draft.warn_all(&warnings);
    let not_read = warnings.into_iter().filter(|one| one.code == NOT_READ).map(|one| one.message).collect();
    recording.draft.end(if job.is_asked() { EndedBy::Stopped } else { EndedBy::Dumped })?;
    let mut diagnosis = if recording.looks {
        Diagnosis::of_looks(analyses)
    } else {
        Diagnosis::new(None, analyses, Vec::new())
    };
    diagnosis.undetermined = undetermined;
    let (result, diagnosis) = finish(job, &recording.draft, &recording.place, |_| diagnosis)?;
    let masked = recording.masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    Ok(Dumps { result, dumps: recording.dumps, masked, diagnosis, not_read })
}

/// With what only whoever took it knows.
fn with_facts(mut analysis: DumpAnalysis, dumped: &Dumped) -> DumpAnalysis {
    let facts = &dumped.facts;
    let identity = &mut analysis.identity;
    identity.reason = Some(facts.reason.clone()).filter(|reason| !reason.is_empty());
    identity.partial = !facts.whole;
    let pause = Duration::try_from_secs_f64(facts.pause_ms / 1e3).ok();
    identity.pause = pause.and_then(|pause| u64::try_from(pause.as_nanos()).ok()).map(Nanos);
    if !facts.scrubbed {
        // Whatever is noted in the dump itself, from before it was searched.
        identity.scrubbed = identity.scrubbed.map(|_| false);
        analysis.findings.retain(|finding| finding.id != biopsy_analyze::FindingId::Scrubbed);
    }
    analysis
}

/// Opens a dump that was just written.
fn read(recording: &DumpRecording, dumped: &Dumped) -> Result<DumpAnalysis, OpenError> {
    let Draft { folder, masking, .. } = &recording.draft;
    let file = folder.reach().join(&dumped.member);
    // We wrote it ourselves. In a container its files are elsewhere; a process that ended has no root any more, and nothing is
    // lost by asking.
    let roots = vec![PathBuf::from(format!("/proc/{}/root", dumped.pid)), PathBuf::from("/")];
    let opened = biopsy_image::open(&file, &biopsy_image::Limits::default())?;
    let bytes = std::fs::metadata(&file).ok().map(|meta| meta.len());
    let first = recording.dumps.iter().find(|other| other.pid == dumped.pid);
    let peers =
        recording.peers.get(&dumped.pid).filter(|_| first.is_some_and(|first| first.member == dumped.member));
    let last_words = recording.words.get(&dumped.pid).map(Vec::as_slice).unwrap_or_default();
    let beside = Beside { peers, last_words };
    Ok(analyze_opened(&opened, bytes, &roots.into(), Some(masking.redactor()), &beside))
}
