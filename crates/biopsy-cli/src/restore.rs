//! What may be typed after `biopsy restore`.

use clap::Args;

/// Switch off whatever `biopsy watch` of this user has on: the watcher and all that it has begun. What was recorded is kept.
#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// Say what is on, and leave it on.
    #[arg(long)]
    pub dry_run: bool,
    /// Kill what does not end within two minutes of being asked.
    #[arg(long)]
    pub force: bool,
}
