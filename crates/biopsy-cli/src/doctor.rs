//! What may be typed after `biopsy doctor`.

use clap::Args;

/// Say what this machine and account can do, and what would allow more.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// For programs: one JSON document.
    #[arg(long)]
    pub json: bool,
}
