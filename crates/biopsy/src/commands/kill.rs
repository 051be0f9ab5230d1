//! `biopsy kill`: ends processes of a kind in order, so that new ones start watched.

use biopsy_capture::Failure;
use biopsy_cli::KillArgs;
use biopsy_model::printable::printable;

use biopsy_cli::standing::check;
use biopsy_foreground::{Code, out};

/// Runs `biopsy kill`.
pub(crate) fn run(args: &KillArgs) -> Result<Code, Failure> {
    let kills = biopsy_standby::kill::kill(&args.kind, args.force, args.dry_run, &check)?;
    let mut text = String::new();
    for killed in &kills.mine {
        let process = &killed.process;
        text.push_str(&format!("{} ({}): {}\n", printable(process.title()), process.key.pid, killed.how));
    }
    if kills.mine.is_empty() {
        text.push_str(&format!("no process of the kind `{}` runs\n", args.kind));
    }
    if kills.others > 0 {
        text.push_str(&format!("{} of other users were left alone\n", kills.others));
    }
    out::text(&text, false)?;
    Ok(if kills.mine.iter().any(|killed| killed.is_left) { Code::Partial } else { Code::Ok })
}
