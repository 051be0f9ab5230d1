//! From written dumps to something that can be handed over: report, check, seal.

use std::path::PathBuf;

use biopsy_analyze::dump::DumpAnalysis;
use biopsy_model::capture::EndedBy;
use biopsy_record::context::clock_pair;
use biopsy_record::dump::Dumped;
use biopsy_recording::{Limits, layout};
use biopsy_report::dump::{
    IndexRow, render_dump_html, render_dump_json, render_dump_markdown, render_index_html,
    render_index_markdown,
};

use crate::commands::core;
use crate::failure::Failure;
use crate::interrupt;
use crate::session::again;
use crate::session::record::{output_failure, warn_all, warning};
use crate::session::seal::not_opened_again;
use crate::session::verify::{self, HandedOver};

use super::act::Opened;

/// Code of the warning that a dump could not be read again for its report.
const NOT_READ: &str = "dump.not-read";

/// What was made.
pub(crate) struct Concluded {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) is_bundle: bool,
    pub(crate) dumps: Vec<Dumped>,
    /// Values masked in dumped memory, by rule.
    pub(crate) masked: Vec<(String, u64)>,
    /// What the first dump tells.
    pub(crate) report: Option<DumpAnalysis>,
    /// Why there is no report on some.
    pub(crate) not_read: Vec<String>,
}

/// Reports, checks for secrets, seals.
pub(crate) fn conclude(mut opened: Opened) -> Result<Concluded, Failure> {
    let folder = &opened.folder;
    let mut report = None;
    let mut warnings = Vec::new();
    let several = opened.dumps.len() > 1;
    let mut rows = Vec::new();
    // Those of the recorders, as they were written; what is found below is in the dumps themselves.
    let said = core::warnings_at(folder.reach());
    for (at, dumped) in opened.dumps.iter().enumerate() {
        let file = folder.reach().join(&dumped.member);
        // We wrote it ourselves. In a container its files are elsewhere; a process that ended has no root any more, and nothing is
        // lost by asking.
        let roots = vec![PathBuf::from(format!("/proc/{}/root", dumped.pid)), PathBuf::from("/")];
        match core::read(&file, roots, Some(opened.masking.redactor())) {
            Ok(mut analysis) => {
                core::add_warnings(&mut analysis, &said);
                if !dumped.facts.scrubbed {
                    // Whatever is noted in the dump itself, from before it was searched.
                    analysis.identity.scrubbed = analysis.identity.scrubbed.map(|_| false);
                    analysis.findings.retain(|finding| finding.id != "scrubbed");
                }
                let link = several.then(|| beside(dumped, "html"));
                rows.push(IndexRow { link, ..row(dumped, IndexRow::of(&analysis)) });
                if several {
                    write_reports(&opened, &analysis, |ending| beside(dumped, ending))?;
                }
                if at == 0 {
                    // Programs find the target's report at its place, however many there are.
                    write_reports(&opened, &analysis, |ending| format!("report.{ending}"))?;
                }
                report.get_or_insert(analysis);
            }
            Err(failure) => {
                rows.push(row(dumped, unread(&opened, dumped)));
                warnings.push(warning(NOT_READ, format!("no report on `{}`: {failure}", dumped.member)));
            }
        }
        if !dumped.facts.scrubbed && opened.masked.iter().any(|one| one.count > 0) {
            let why = dumped.facts.warnings.last().map_or("", String::as_str);
            warnings.push(warning("dump.not-scrubbed", format!("`{}`: {why}", dumped.member)));
        }
        if let Some(error) = &dumped.facts.error {
            warnings.push(warning("dump.cut-short", format!("`{}` is not whole: {error}", dumped.member)));
        }
    }
    if several {
        let name = &opened.header.target_name;
        let said: Vec<String> =
            said.into_iter().chain(warnings.iter().map(|one| one.message.clone())).collect();
        write_text(&opened, layout::REPORT_HTML, &render_index_html(name, &rows, &said))?;
        write_text(&opened, layout::REPORT_MARKDOWN, &render_index_markdown(name, &rows, &said))?;
    }
    warn_all(folder, &warnings);
    let not_read = warnings.into_iter().filter(|one| one.code == NOT_READ).map(|one| one.message).collect();
    opened.header.end = Some(clock_pair());
    if opened.header.ended_by == EndedBy::Unknown {
        opened.header.ended_by = if interrupt::is_asked() { EndedBy::Stopped } else { EndedBy::Dumped };
    }
    folder.header(&opened.header).map_err(output_failure)?;
    again::mask_again(folder, &opened.masking)?;
    // What cannot be opened again helps nobody.
    biopsy_recording::open(folder.reach(), &Limits::default()).map_err(|error| not_opened_again(&error))?;
    let masked = opened.masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    let HandedOver { path, bytes, is_bundle } =
        verify::hand_over(folder, opened.place.bundle.as_deref(), opened.masking.redactor())?;
    if !is_bundle {
        opened.leaving.made();
    }
    Ok(Concluded { path, bytes, is_bundle, dumps: opened.dumps, masked, report, not_read })
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
    opened: &Opened,
    analysis: &DumpAnalysis,
    name: impl Fn(&str) -> String,
) -> Result<(), Failure> {
    for (member, text) in [
        (name("html"), render_dump_html(analysis)),
        (name("json"), render_dump_json(analysis)),
        (name("md"), render_dump_markdown(analysis)),
    ] {
        write_text(opened, &member, &text)?;
    }
    Ok(())
}

fn write_text(opened: &Opened, member: &str, text: &str) -> Result<(), Failure> {
    let masked = opened.masking.text(member, text);
    opened.folder.write_text(member, &masked).map_err(output_failure)
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
fn unread(opened: &Opened, dumped: &Dumped) -> IndexRow {
    let process = opened.processes.iter().find(|process| process.key.pid == dumped.pid);
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
