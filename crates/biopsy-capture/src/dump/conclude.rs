//! From written dumps to something that can be handed over: report, and finish.

use std::path::PathBuf;

use biopsy_analyze::analyze_opened;
use biopsy_analyze::dump::DumpAnalysis;
use biopsy_image::OpenError;
use biopsy_model::capture::EndedBy;
use biopsy_record::dump::Dumped;
use biopsy_recording::{Limits, layout, warnings_in_words};
use biopsy_report::dump::{
    IndexRow, render_dump_html, render_dump_json, render_dump_markdown, render_index_html,
    render_index_markdown,
};

use crate::failure::{Failure, FailureKind};
use crate::finish::{HandedOver, finish};
use crate::job::Job;
use crate::recording::{Draft, output_failure, warning};

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
    /// What the first dump tells.
    pub report: Option<DumpAnalysis>,
    /// Why there is no report on some.
    pub not_read: Vec<String>,
}

/// Reports on each dump, and finishes the recording.
pub(super) fn conclude(mut recording: DumpRecording, job: &Job) -> Result<Dumps, Failure> {
    let mut report = None;
    let mut warnings = Vec::new();
    let several = recording.dumps.len() > 1;
    let mut rows = Vec::new();
    // Those of the recorders, as they were written; what is found below is in the dumps themselves.
    let said = warnings_in_words(recording.draft.folder.reach(), &Limits::default());
    for (at, dumped) in recording.dumps.iter().enumerate() {
        match read(&recording, dumped) {
            Ok(mut analysis) => {
                analysis.add_undetermined(&said);
                if !dumped.facts.scrubbed {
                    // Whatever is noted in the dump itself, from before it was searched.
                    analysis.identity.scrubbed = analysis.identity.scrubbed.map(|_| false);
                    analysis.findings.retain(|finding| finding.id != biopsy_analyze::FindingId::Scrubbed);
                }
                let link = several.then(|| beside(dumped, "html"));
                rows.push(IndexRow { link, ..row(dumped, IndexRow::of(&analysis)) });
                if several {
                    write_reports(&recording, &analysis, |ending| beside(dumped, ending))?;
                }
                if at == 0 {
                    // Programs find the target's report at its place, however many there are.
                    write_reports(&recording, &analysis, |ending| format!("report.{ending}"))?;
                }
                report.get_or_insert(analysis);
            }
            Err(error) => {
                let failure = Failure::from_error(FailureKind::BadInput, &error);
                rows.push(row(dumped, unread(&recording, dumped)));
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
    if several {
        let name = &recording.draft.header.target_name;
        let said: Vec<String> =
            said.into_iter().chain(warnings.iter().map(|one| one.message.clone())).collect();
        write_text(&recording, layout::REPORT_HTML, &render_index_html(name, &rows, &said))?;
        write_text(&recording, layout::REPORT_MARKDOWN, &render_index_markdown(name, &rows, &said))?;
    }
    recording.draft.warn_all(&warnings);
    let not_read = warnings.into_iter().filter(|one| one.code == NOT_READ).map(|one| one.message).collect();
    recording.draft.end(if job.is_asked() { EndedBy::Stopped } else { EndedBy::Dumped })?;
    let result = finish(job, &recording.draft, &recording.place)?;
    let masked = recording.masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    Ok(Dumps { result, dumps: recording.dumps, masked, report, not_read })
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
    Ok(analyze_opened(&opened, bytes, roots, Some(masking.redactor())))
}

/// Name of a member that stands beside a core.
fn beside(dumped: &Dumped, ending: &str) -> String {
    let name = &dumped.member;
    let stem = [".core", ".dmp"]
        .iter()
        .find_map(|kind| name.rsplit_once(kind))
        .map_or(name.as_str(), |(stem, _)| stem);
    format!("{stem}.report.{ending}")
}

/// Writes a report in its three forms.
fn write_reports(
    recording: &DumpRecording,
    analysis: &DumpAnalysis,
    name: impl Fn(&str) -> String,
) -> Result<(), Failure> {
    for (member, text) in [
        (name("html"), render_dump_html(analysis)),
        (name("json"), render_dump_json(analysis)),
        (name("md"), render_dump_markdown(analysis)),
    ] {
        write_text(recording, &member, &text)?;
    }
    Ok(())
}

fn write_text(recording: &DumpRecording, member: &str, text: &str) -> Result<(), Failure> {
    recording.draft.write_text(member, text).map_err(output_failure)
}

/// A row of the list of dumps, with how the dump was taken.
fn row(dumped: &Dumped, row: IndexRow) -> IndexRow {
    let facts = &dumped.facts;
    IndexRow {
        reason: facts.reason.clone(),
        pause: Some(facts.pause_ms / 1e3),
        bytes: facts.written_bytes.or(row.bytes),
        whole: facts.whole,
        ..row
    }
}

/// The row of a dump that could not be read again.
fn unread(recording: &DumpRecording, dumped: &Dumped) -> IndexRow {
    let process = recording.processes.iter().find(|process| process.key.pid == dumped.pid);
    IndexRow {
        link: None,
        name: process.map_or_else(|| format!("process {}", dumped.pid), |process| process.name.clone()),
        pid: dumped.pid,
        parent: None,
        taken: None,
        reason: String::new(),
        pause: None,
        threads: dumped.facts.threads,
        bytes: None,
        whole: false,
        finding: None,
    }
}
