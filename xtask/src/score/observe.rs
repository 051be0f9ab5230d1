//! Starts a program, looks at it with biopsy, and gives back what the report finds.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::corpus::Specimen;
use super::grade::{Finding, parse_findings};
use super::running::{Running, Stop};
use crate::run::Outcome;

/// Interpreters on a busy machine take their time; nothing waits so long when all is well.
const READY_WITHIN: Duration = Duration::from_secs(60);
const WATCHED_WITHIN: Duration = Duration::from_secs(30);
/// For the longest recording and its report.
const OBSERVED_WITHIN: Duration = Duration::from_secs(120);
/// Bytes of what biopsy said that are shown where it failed.
const LAST_WORDS: usize = 400;

/// The findings on one program; `folder` is emptied and then its current folder, `report` is where the JSON is kept.
pub(crate) fn observe(
    program: &Path,
    specimen: &Specimen,
    command: &Command,
    folder: &Path,
    report: &Path,
    stop: &Stop,
) -> Outcome<Vec<Finding>> {
    let failed = |error: std::io::Error| format!("`{}`: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let truth = &specimen.truth;
    let mut target = Running::start(command, folder, "log.txt")?;
    target
        .wait_for_line(&truth.ready, READY_WITHIN, stop)
        .map_err(|error| format!("the program: {error}"))?;
    stop.rest(Duration::from_millis(truth.settle_ms))?;
    if target.has_ended() {
        return Err("the program ended before it was looked at".to_owned());
    }
    let result = folder.join("result");
    let (look, written) = truth.observe.command(program, target.pid(), &result);
    let mut look = Running::start(&look, folder, "biopsy.txt")?;
    if truth.observe.is_triggered() {
        stop.until("biopsy watches the program", WATCHED_WITHIN, || target.is_traced())?;
        target.trigger()?;
    }
    let mut json = wait_for(&mut look, folder, stop)?;
    drop(target);
    if let Some(written) = written {
        let mut analyze = Command::new(program);
        analyze.arg("analyze").arg(written).args(["--json", "--symbols", "/"]);
        json = wait_for(&mut Running::start(&analyze, folder, "biopsy.txt")?, folder, stop)?;
    }
    std::fs::write(report, &json).map_err(|error| format!("`{}`: {error}", report.display()))?;
    // Dumps of runtimes are large.
    std::fs::remove_dir_all(folder).map_err(failed)?;
    parse_findings(&json)
}

fn wait_for(biopsy: &mut Running, folder: &Path, stop: &Stop) -> Outcome<String> {
    let (said, _) = biopsy.wait_for_end(OBSERVED_WITHIN, stop).map_err(|error| format!("biopsy: {error}"))?;
    // An exit code that is not 0 may still come with a result; nothing said and nothing written does not.
    if said.trim().is_empty() && !folder.join("result").exists() {
        let words = std::fs::read_to_string(folder.join("biopsy.txt")).unwrap_or_default();
        let words = words.trim();
        let from = words.char_indices().rev().nth(LAST_WORDS).map_or(0, |(at, _)| at);
        return Err(format!("biopsy: no result: {}", &words[from..]));
    }
    Ok(said)
}
