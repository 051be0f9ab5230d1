//! `biopsy stacks`: every thread of a process now, managed and native frames in one stack, and what it waits for.

use biopsy_cli::StacksArgs;
use std::time::Duration;

use biopsy_analyze::Diagnosis;
use biopsy_capture::stacks::{self, LookOptions, Looks};
use biopsy_capture::{Failure, Patience};
use biopsy_report::{StacksOptions, render_json, render_stacks};

use crate::running::begin;
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

/// Runs `biopsy stacks`.
pub(crate) fn run(args: &StacksArgs, color: ColorChoice) -> Result<Code, Failure> {
    // Between looks it ends at once, with those there are.
    let patience = if args.looks > 1 { Duration::from_secs(5) } else { Duration::ZERO };
    let (job, _) = begin(color, true, args.json, Patience::Limited(patience))?;
    let options = LookOptions { max_pause: args.max_pause, heap: !args.no_heap, ..LookOptions::default() };
    let looks = Looks { count: args.looks.into(), every: args.every };
    let analyses = match args.looks {
        _ if args.tree => stacks::take_tree(&args.target, &options)?,
        0 | 1 => vec![stacks::take(&args.target, &options)?],
        _ => vec![stacks::take_several(&args.target, &options, &looks, &job)?],
    };
    let terminal = Terminal::of_stdout(color);
    if args.json {
        let diagnosis = Diagnosis::new(None, analyses, Vec::new());
        return out::json(render_json(&diagnosis, None));
    }
    let options = StacksOptions {
        width: terminal.width,
        color: terminal.colour,
        all: args.all,
        native: args.native,
        frames: args.frames,
    };
    let texts: Vec<String> = analyses.iter().map(|analysis| render_stacks(analysis, options)).collect();
    out::text(&texts.join("\n"), terminal.colour)
}
