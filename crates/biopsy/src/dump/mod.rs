//! `biopsy dump`: from a name, or an event, to cores with their context and a report.
//!
//! The flow: [`subject`] finds the processes; [`forecast`] says what freezing them would cost, and refuses; [`act`] freezes,
//! writes and releases; [`conclude`] reports, checks and seals; [`show`] says what there is. [`wait`] stands before all that
//! where something has to happen first.

mod act;
mod args;
mod conclude;
mod forecast;
mod place;
mod queue;
mod show;
pub(crate) mod subject;
mod wait;

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt::{self, Patience};
use crate::render::terminal::{ColorChoice, Terminal};
use crate::session::seal::{KEPT, MADE};

pub(crate) use args::DumpArgs;
pub(crate) use forecast::freeze_failure;
pub(crate) use show::pause_text;
pub(crate) use subject::find_target;

use place::Destination;

/// Runs `biopsy dump`.
pub(crate) fn run(args: &DumpArgs, color: ColorChoice) -> Result<Code, Failure> {
    let terminal = Terminal::of_stderr(color);
    args.check()?;
    if args.waits() {
        return wait::run(args, color);
    }
    let subject = subject::find(args)?;
    let destination = Destination::choose(args, &subject.name)?;
    let plan = forecast::forecast(args, &subject, &destination, terminal)?;
    if args.dry_run {
        return Ok(Code::Ok);
    }
    match destination {
        Destination::Recording(place) => {
            interrupt::be_patient(Patience::WithoutCopies);
            let mut opened = act::open(&subject, place)?;
            let dumped = act::dump(args, &subject, plan, &mut opened, "asked for");
            if opened.discard_if_empty() {
                return dumped.map(|()| Code::Partial);
            }
            // What was dumped before something went wrong is kept, and told first.
            let folder = opened.folder.path().to_owned();
            let kept = |failure: Failure| failure.naming(KEPT, &folder);
            let concluded = conclude::conclude(opened).map_err(kept)?;
            let code = show::show(args, &concluded, color)
                .map_err(|failure| failure.naming(MADE, &concluded.path))?;
            dumped.map(|()| code)
        }
        Destination::File(path) => act::dump_to_file(args, &subject, plan, &path),
        Destination::Stdout => act::dump_to_stdout(args, &subject, plan),
    }
}
