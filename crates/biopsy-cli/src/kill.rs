//! What may be typed after `biopsy kill`.

use clap::Args;

/// End processes of a kind, so that new ones start under the eyes of `biopsy watch`: they are asked their own way, then by SIGTERM. Of this
/// user only, unless root asks.
#[derive(Clone, Debug, Args)]
pub struct KillArgs {
    /// Name of the kind: `Compiler`, `MsBuild`, `TestHost` ... or one of the settings.
    pub kind: String,
    /// Kill those that do not end when they are asked.
    #[arg(long)]
    pub force: bool,
    /// Say which processes it would be, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}
