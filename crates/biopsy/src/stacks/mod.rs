//! `biopsy stacks`: every thread of a process now, managed and native frames in one stack, and what it waits for.
//!
//! [`take`] freezes the process for milliseconds and reads its stacks from the frozen memory; the process need not answer
//! anything, so it works when it hangs. `biopsy_report` makes the text and the JSON.

mod args;
mod take;

use biopsy_report::dump::{StacksOptions, render_dump_json, render_stacks_text};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::out;
use crate::render::terminal::{ColorChoice, Terminal};

pub(crate) use args::StacksArgs;
pub(crate) use take::{LookOptions, look};

/// Runs `biopsy stacks`.
pub(crate) fn run(args: &StacksArgs, color: ColorChoice) -> Result<Code, Failure> {
    let analysis = take::take(args)?;
    let terminal = Terminal::of_stdout(color);
    if args.json {
        return out::json(render_dump_json(&analysis).into_bytes());
    }
    let text = render_stacks_text(
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
