//! `biopsy compare`: what differs between two recordings. What they hold decides what is compared.

use std::path::{Path, PathBuf};

use biopsy_analyze::Recorded;
use biopsy_analyze::compare::compare as hold_against;
use biopsy_capture::place::write_new;
use biopsy_capture::{Failure, FailureKind};
use biopsy_report::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
};
use clap::Args;

use super::input::{bad_input, look};
use super::symbols::SymbolArgs;
use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;

/// Say what got slower or faster between two recordings of one program: functions, waits, locks, requests; in rates, with the noise, and
/// nothing that is below it.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The earlier one, or the good one: a bundle, a recording's folder, a perf.data file.
    before: PathBuf,
    /// The later one, or the bad one.
    after: PathBuf,
    /// Write the comparison as a page for a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print it as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// What a file holds that can be compared.
enum Comparable {
    /// A recording over time.
    Time(Box<Recorded>),
}

/// Runs `biopsy compare`.
pub(crate) fn compare(args: &CompareArgs, terminal: Terminal) -> Result<Code, Failure> {
    let (Comparable::Time(before), Comparable::Time(after)) =
        (read(&args.before, &args.symbols)?, read(&args.after, &args.symbols)?);
    let comparison = hold_against(&before, &after);
    let (before, after) = (args.before.display().to_string(), args.after.display().to_string());
    let files = [before.as_str(), after.as_str()];
    if let Some(path) = &args.html {
        write_new(path, render_comparison_html(&comparison, files).as_bytes())?;
    }
    if args.json {
        out::json(render_comparison_json(&comparison, files).into_bytes())?;
    } else if args.markdown {
        out::text(&render_comparison_markdown(&comparison, files), terminal.colour)?;
    } else {
        out::text(&render_comparison_text(&comparison, files, terminal.for_reports()), terminal.colour)?;
    }
    Ok(if comparison.refused.is_some() { Code::Partial } else { Code::Ok })
}

/// Reads what a file holds.
fn read(path: &Path, symbols: &SymbolArgs) -> Result<Comparable, Failure> {
    let roots = symbols.roots()?;
    let evidence = look(path, symbols)?;
    let capture = if evidence.dumps() > 0 && !evidence.is_recording() {
        None
    } else {
        Some(evidence.capture(&roots).map_err(bad_input)?)
    };
    match capture.filter(|capture| capture.holds_time()) {
        Some(capture) => Ok(Comparable::Time(Box::new(Recorded::new(capture)))),
        None => {
            let hint = "dumps of one process at several moments are for `biopsy analyze FIRST SECOND`, which says what moved";
            let message = format!("`{}` holds nothing that was recorded over time", path.display());
            Err(Failure::new(FailureKind::BadInput, message).with_hint(Some(hint.to_owned())))
        }
    }
}
