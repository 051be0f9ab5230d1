//! `biopsy lab`, `biopsy request`, `biopsy case`, `biopsy open`: the vendor's side is a program of its own, which is started where it is installed. What runs
//! beside a customer's server has no web server and no database in it.

use biopsy_cli::HandedOn;
use std::os::unix::process::CommandExt;
use std::process::Command;

use biopsy_capture::{Failure, FailureKind};

use biopsy_foreground::Code;

/// The program of the vendor's side.
const PROGRAM: &str = "biopsy-lab";

/// What `biopsy lab` begins: it serves, unless a question is asked (`biopsy lab query SQL`).
pub(crate) fn lab_verb(args: &HandedOn) -> &'static [&'static str] {
    if args.arguments.first().is_some_and(|first| first == "query") { &[] } else { &["serve"] }
}

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

#[cfg(test)]
mod tests {
    use super::{HandedOn, lab_verb};

    #[test]
    fn a_lab_serves_unless_a_question_is_asked() {
        let of = |words: &[&str]| lab_verb(&HandedOn { arguments: words.iter().map(Into::into).collect() });
        assert_eq!(of(&[]), ["serve"]);
        assert_eq!(of(&["--data", "query"]), ["serve"]);
        assert!(of(&["query", "SHOW TABLES"]).is_empty());
    }
}
