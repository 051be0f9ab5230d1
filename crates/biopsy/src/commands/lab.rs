//! `biopsy lab`, `biopsy request`, `biopsy case`, `biopsy open`: the vendor's side is a program of its own, which is started where it is installed. What runs
//! beside a customer's server has no web server and no database in it.

use biopsy_cli::HandedOn;
use std::os::unix::process::CommandExt;
use std::process::Command;

use biopsy_capture::{Failure, FailureKind};

use biopsy_foreground::Code;

/// The program of the vendor's side.
const PROGRAM: &str = "biopsy-lab";

/// Becomes that program.
pub(crate) fn lab(verbs: &[&str], args: &HandedOn) -> Result<Code, Failure> {
    // Beside this program first: what is in the path may be another's.
    let beside =
        std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(verbs).args(&args.arguments).exec();
    Err(Failure::new(FailureKind::Usage, format!("cannot start `{}`: {error}", program.display()))
        .with_hint(Some("the vendor's side is a program of its own, `biopsy-lab`; customers do not need it")))
}
