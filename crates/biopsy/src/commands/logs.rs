//! `biopsy logs`: lines of all logs of a recording, in the order of time.

use std::time::Duration;

use biopsy_analyze::analyze;
use biopsy_analyze::log_lines::{Stretch, WantedLines, at_time_of_day, log_lines, moments, widened};
use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::{Around, LogsArgs};
use biopsy_foreground::{Code, out};
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::{MonoNanos, Nanos};
use biopsy_report::{render_log_lines_json, render_log_lines_text};
use biopsy_terminal::Terminal;

use super::input::{bad_input, look};
use super::sources::sources;
use crate::render::for_reports;

/// Runs `biopsy logs`.
pub(crate) fn logs(args: &LogsArgs, terminal: Terminal) -> Result<Code, Failure> {
    let capture =
        look(&args.file, &args.symbols)?.capture(&sources(&args.symbols)?.files).map_err(bad_input)?;
    let within = args.around.as_ref().map(|around| stretches(&capture, around, args.within)).transpose()?;
    let wanted = WantedLines {
        least: args.level.map_or(LogLevel::Unknown, LogLevel::from),
        within: within.as_deref(),
        text: &|text| args.grep.as_ref().is_none_or(|grep| grep.is_match(text)),
    };
    let lines = log_lines(&capture, &wanted);
    if args.json {
        return out::json(render_log_lines_json(&capture, &lines));
    }
    out::text(&render_log_lines_text(&capture, &lines, for_reports(terminal)), terminal.colour)
}

/// When that is, with what is before and after it.
fn stretches(capture: &Capture, around: &Around, by: Duration) -> Result<Vec<Stretch>, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let start = capture.header.start.mono;
    let at = |time: MonoNanos| vec![(time, time)];
    let found = match around {
        Around::After(after) => at(MonoNanos(start.0.saturating_add(nanos(*after).0))),
        Around::Clock(time) => {
            let since = time.duration_since(jiff::civil::Time::midnight()).unsigned_abs();
            at(at_time_of_day(&capture.header, nanos(since))
                .ok_or_else(|| usage("the recording says nothing of its wall clock".to_owned()))?)
        }
        Around::Finding(id) => {
            let mut findings = analyze(capture).findings;
            findings.retain(|finding| finding.id == *id);
            if findings.is_empty() {
                return Err(usage(format!("there is no finding `{id}` in it"))
                    .with_hint(Some("`biopsy analyze FILE` says what there is")));
            }
            findings.iter().flat_map(|finding| moments(capture, finding)).collect()
        }
    };
    if found.is_empty() {
        return Err(usage("the evidence of the finding is neither in a log nor at a time".to_owned())
            .with_hint(Some("`--around` takes a time, too: `90s` after the beginning, or `10:27:03`")));
    }
    Ok(found.into_iter().map(|stretch| widened(stretch, nanos(by))).collect())
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
