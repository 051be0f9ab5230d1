//! `biopsy stacks`: every thread of a process now, managed and native frames in one stack, and what it waits for.

mod args;

use std::time::Duration;

use biopsy_analyze::Diagnosis;
use biopsy_capture::stacks::{self, LookOptions};
use biopsy_capture::{Failure, Job, Patience};
use biopsy_report::{StacksOptions, render_json, render_stacks};

use crate::exit_codes::Code;
use crate::interrupt;
use crate::render::out;
use crate::render::progress::Screen;
use crate::render::terminal::{ColorChoice, Terminal};

pub(crate) use args::StacksArgs;

/// Runs `biopsy stacks`.
pub(crate) fn run(args: &StacksArgs, color: ColorChoice) -> Result<Code, Failure> {
    let job = Job::new(Box::new(Screen::new(color, true, args.json)));
    interrupt::listen(&job, Patience::Limited(Duration::ZERO), color)?;
    let options = LookOptions { max_pause: args.max_pause, heap: !args.no_heap };
    let analysis = stacks::take(&args.target, &options)?;
    let terminal = Terminal::of_stdout(color);
    if args.json {
        let diagnosis = Diagnosis::new(None, vec![analysis], Vec::new());
        return out::json(render_json(&diagnosis, None).into_bytes());
    }
    let text = render_stacks(
        &analysis,
        StacksOptions {
            width: terminal.width,
            color: terminal.colour,
            all: args.all,
            native: args.native,
            frames: args.frames,
        },
    );
    out::text(&text, terminal.colour)
}
