//! From written dumps to something that can be handed over: report, check, seal.

use std::path::{Path, PathBuf};

use biopsy_analyze::dump::DumpAnalysis;
use biopsy_record::context::clock_pair;
use biopsy_record::dump::Dumped;
use biopsy_recording::{Limits, bundle, layout};
use biopsy_report::dump::{render_dump_html, render_dump_json, render_dump_markdown};

use crate::commands::core;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::session::record::{output_failure, warn_all, warning};
use crate::session::verify;

use super::act::Opened;

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
}

/// Reports, checks for secrets, seals.
pub(crate) fn conclude(mut opened: Opened) -> Result<Concluded, Failure> {
    let folder = &opened.folder;
    let mut report = None;
    let mut warnings = Vec::new();
    for (at, dumped) in opened.dumps.iter().enumerate() {
        let file = folder.path().join(&dumped.member);
        // In a container its files are elsewhere; a process that ended has no root any more, and nothing is lost by asking.
        let roots = vec![PathBuf::from(format!("/proc/{}/root", dumped.pid))];
        match core::read(&file, roots, Some(opened.masking.redactor())) {
            Ok(analysis) => {
                write_reports(&opened, dumped, at, &analysis)?;
                report.get_or_insert(analysis);
            }
            Err(failure) => {
                warnings
                    .push(warning("dump.not-read", format!("no report on `{}`: {failure}", dumped.member)));
            }
        }
        if let Some(error) = &dumped.facts.error {
            warnings.push(warning("dump.cut-short", format!("`{}` is not whole: {error}", dumped.member)));
        }
    }
    warn_all(folder, &warnings);
    opened.header.end = Some(clock_pair());
    if opened.header.ended_by.is_empty() {
        "dumped".clone_into(&mut opened.header.ended_by);
    }
    folder.header(&opened.header).map_err(output_failure)?;
    verify::mask_again(folder, &opened.masking)?;
    let capture = biopsy_recording::open(folder.path(), &Limits::default())
        .map_err(|error| Failure::from_error(Code::Bug, &error).with_hint(error.hint()))?;
    verify::check(folder.path(), &capture, opened.masking.redactor())?;
    let masked = opened.masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    let dumps = std::mem::take(&mut opened.dumps);
    let (path, bytes, is_bundle) = seal(&opened)?;
    Ok(Concluded { path, bytes, is_bundle, dumps, masked, report })
}

fn seal(opened: &Opened) -> Result<(PathBuf, u64, bool), Failure> {
    let folder = &opened.folder;
    let Some(out) = &opened.place.bundle else {
        folder.seal().map_err(output_failure)?;
        return Ok((folder.path().to_owned(), bytes_in(folder.path()), false));
    };
    let packed = bundle(folder.path(), out).map_err(output_failure)?;
    // The bundle is on the disk and has its name: now, and only now, the folder has served.
    if let Err(error) = std::fs::remove_dir_all(folder.path()) {
        tracing::warn!(%error, "the recording's folder could not be removed");
    }
    Ok((packed.path, packed.bytes, true))
}

fn bytes_in(folder: &Path) -> u64 {
    verify::members(folder).iter().filter_map(|name| Some(folder.join(name).metadata().ok()?.len())).sum()
}

/// The first dump's report is the recording's; those of others stand beside their cores.
fn write_reports(
    opened: &Opened,
    dumped: &Dumped,
    at: usize,
    analysis: &DumpAnalysis,
) -> Result<(), Failure> {
    let name = |whole: &str, ending: &str| {
        if at == 0 {
            whole.to_owned()
        } else {
            let stem = dumped.member.split(".core").next().unwrap_or(&dumped.member);
            format!("{stem}.report.{ending}")
        }
    };
    for (member, text) in [
        (name(layout::REPORT_HTML, "html"), render_dump_html(analysis)),
        (name(layout::REPORT_JSON, "json"), render_dump_json(analysis)),
        (name(layout::REPORT_MARKDOWN, "md"), render_dump_markdown(analysis)),
    ] {
        let masked = opened.masking.text(&member, &text);
        opened.folder.write_text(&member, &masked).map_err(output_failure)?;
    }
    Ok(())
}
