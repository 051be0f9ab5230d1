//! `biopsy restore`: switches off whatever is on, and says what that was.

use biopsy_capture::Failure;
use biopsy_cli::RestoreArgs;
use biopsy_model::printable::printable;
use biopsy_standby::journal::JournalFolder;
use biopsy_standby::restore;

use biopsy_foreground::{Code, out};

/// Runs `biopsy restore`.
pub(crate) fn run(args: &RestoreArgs) -> Result<Code, Failure> {
    let folder = JournalFolder::usual()?;
    let lines: Vec<String> = if args.dry_run {
        restore::on(&folder).iter().map(|(lease, _)| restore::text(lease)).collect()
    } else {
        restore::clean_up(&folder, args.force)?
    };
    let mut text: String = lines.iter().map(|line| format!("{}\n", printable(line))).collect();
    let still = restore::on(&folder);
    match (args.dry_run, still.is_empty()) {
        (true, _) if lines.is_empty() => text.push_str("nothing is on\n"),
        (true, _) => {}
        (false, true) => text.push_str("nothing is on any more\n"),
        (false, false) => text.push_str("some of it is still on: `--force` kills it\n"),
    }
    out::text(&text, false)?;
    Ok(if args.dry_run || still.is_empty() { Code::Ok } else { Code::Partial })
}
