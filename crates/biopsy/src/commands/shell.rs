//! `biopsy completions` and `biopsy man`.

use clap::CommandFactory;

use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::{Cli, CompletionsArgs, ManArgs};
use biopsy_foreground::Code;

use biopsy_foreground::out;

/// Runs `biopsy completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "biopsy", &mut script);
    out::file(&script)
}

/// Runs `biopsy man`.
pub(crate) fn man(args: &ManArgs) -> Result<Code, Failure> {
    clap_mangen::generate_to(Cli::command(), &args.folder).map(|()| Code::Ok).map_err(|error| {
        Failure::new(
            FailureKind::Output,
            format!("cannot write manual pages into `{}`: {error}", args.folder.display()),
        )
    })
}
