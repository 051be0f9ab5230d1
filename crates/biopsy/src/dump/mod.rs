//! `biopsy dump`.

mod show;

use biopsy_capture::dump::{self, Outcome};
use biopsy_capture::{Failure, MADE, Patience};
use biopsy_cli::DumpArgs;

use crate::running::begin;
use biopsy_foreground::Code;
use biopsy_foreground::interrupt;
use biopsy_foreground::out;
use biopsy_terminal::terminal::ColorChoice;

/// Runs `biopsy dump`.
pub(crate) fn run(args: &DumpArgs, color: ColorChoice) -> Result<Code, Failure> {
    let (job, screen) = begin(color, args.quiet, args.json, Patience::Limited(interrupt::SHORT))?;
    let outcome = dump::run(&args.plan()?, &mut out::stdout(), &job);
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
        Outcome::Stream(done) => Ok(if done.summary.is_whole() { Code::Ok } else { Code::Partial }),
    }
}
