//! The catalogue of findings in `docs/guide/findings.md`, made from the texts in `biopsy-analyze`.

use clap::Args;

use crate::run::{Outcome, cargo, succeed};

/// The test that makes it, and holds the guide against it.
const TEST: &str = "the_guide_has_the_catalogue_of_today";

/// What `catalogue` is asked.
#[derive(Args)]
pub(crate) struct Options {
    /// Only check that the guide is current; `cargo xtask ci` does, with all tests
    #[arg(long)]
    check: bool,
}

/// Writes the catalogue, or checks it.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut test = cargo(&["test", "--quiet", "-p", "biopsy-report", "--lib", TEST]);
    if !options.check {
        test.env("BIOPSY_WRITE_FIXTURES", "1");
    }
    succeed(&mut test)
}
