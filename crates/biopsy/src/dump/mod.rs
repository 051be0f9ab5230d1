//! `biopsy dump`.

mod show;

use std::path::Path;

use biopsy_capture::dump::{self, DumpPlan, Outcome};
use biopsy_capture::{Failure, FailureKind, Job, MADE, Patience};
use biopsy_cli::DumpArgs;
use biopsy_seal::{Recipient, SealError, SealingFile};

use crate::running::begin;
use biopsy_foreground::{Code, interrupt, out};
use biopsy_terminal::terminal::ColorChoice;

/// Runs `biopsy dump`.
pub(crate) fn run(args: &DumpArgs, color: ColorChoice) -> Result<Code, Failure> {
    let (job, screen) = begin(color, args.quiet, args.json, Patience::Limited(interrupt::SHORT))?;
    let plan = args.plan()?;
    let outcome = match &plan.sealed {
        None => dump::run(&plan, &mut out::stdout(), &job),
        Some(path) => sealed(&plan, path, &args.to_key, &job),
    };
    let shown = screen.clear();
    match outcome? {
        Outcome::Forecast(_) if shown.is_err() => shown.map(|()| Code::Ok),
        // As JSON, it says itself what is refused.
        Outcome::Forecast(Some(refused)) if !args.json => Err(refused),
        Outcome::Forecast(_) => Ok(Code::Ok),
        Outcome::Nothing(why) => {
            // Also for those who want no progress: there is nothing else that could tell.
            out::say(format_args!("nothing was dumped: {why}"));
            Ok(Code::Partial)
        }
        Outcome::Recording(dumps, failed) => {
            let code = show::show(args, &dumps, color)
                .map_err(|failure| failure.naming(MADE, &dumps.result.path))?;
            failed.map_or(Ok(code), Err)
        }
        Outcome::File(path, done) => show::show_alone(args, &path.display().to_string(), &done)
            .map_err(|failure| failure.naming(MADE, &path)),
        Outcome::Stream(done) if plan.sealed.is_some() => {
            let path = plan.sealed.unwrap_or_default();
            show::show_alone(args, &path.display().to_string(), &done)
                .map_err(|failure| failure.naming(MADE, &path))
        }
        Outcome::Stream(done) => Ok(if done.summary.is_whole() { Code::Ok } else { Code::Partial }),
    }
}

/// Into a file that is sealed as it is written, and is there when it is whole.
fn sealed(plan: &DumpPlan, path: &Path, keys: &[Recipient], job: &Job) -> Result<Outcome, Failure> {
    let failed = |error: SealError| Failure::from_error(FailureKind::Output, &error);
    // What is refused before anything is frozen leaves nothing: the file has no name yet.
    let mut file = SealingFile::create(path, keys).map_err(failed)?;
    let outcome = dump::run(plan, &mut file, job)?;
    if matches!(outcome, Outcome::Stream(_)) {
        file.finish().map_err(failed)?;
    }
    Ok(outcome)
}
