//! `biopsy kill`: ends processes of a kind in order, so that new ones start watched.

use biopsy_capture::Failure;
use biopsy_model::printable::printable;
use clap::Args;

use biopsy_foreground::Code;
use biopsy_foreground::out;
use crate::standing::check;

/// End processes of a kind, so that new ones start under the eyes of `biopsy watch`: they are asked their own way, then by SIGTERM. Of this
/// user only, unless root asks.
#[derive(Clone, Debug, Args)]
pub(crate) struct KillArgs {
    /// Name of the kind: `Compiler`, `MsBuild`, `TestHost` ... or one of the settings.
    pub(crate) kind: String,
    /// Kill those that do not end when they are asked.
    #[arg(long)]
    pub(crate) force: bool,
    /// Say which processes it would be, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

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
