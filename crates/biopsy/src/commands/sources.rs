//! Where files are looked for that evidence names, as the command line says, and what came of it.

use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::SymbolArgs;
use biopsy_debuginfod::{Progress, Sources, SourcesError};
use biopsy_foreground::out;

/// What the command line allows. Nothing is asked before a reader wants a file.
pub(crate) fn sources(args: &SymbolArgs) -> Result<Sources, Failure> {
    Sources::of(&args.folders, &args.debuginfod, progress).map_err(|error| {
        let kind = match error {
            SourcesError::Cache(_) => FailureKind::Output,
            _ => FailureKind::Usage,
        };
        Failure::from_error(kind, &error).with_hint(error.hint())
    })
}

/// Says what was asked from whom, and gives what is missing.
pub(crate) fn missing(sources: &Sources) -> Vec<String> {
    let told = sources.told();
    told.asked.iter().for_each(|line| out::say(format_args!("note: {line}")));
    told.missing
}

/// Says both.
pub(crate) fn say(sources: &Sources) {
    missing(sources).iter().for_each(|line| out::say(format_args!("note: not known: {line}")));
}

fn progress(Progress { module, server, bytes, of }: &Progress<'_>) {
    let of = of.map_or_else(String::new, |of| format!(" of {}", of >> 20));
    out::say(format_args!("file of {module} from {server}: {}{of} MiB", bytes >> 20));
}
