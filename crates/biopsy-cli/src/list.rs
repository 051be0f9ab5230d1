//! What may be typed after `biopsy list`.

use std::path::PathBuf;

use clap::Args;

/// List what `biopsy watch` has recorded, the newest first.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Where results are. [default: as the settings say]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Those of this rule alone.
    #[arg(long, value_name = "NAME")]
    pub rule: Option<String>,
    /// For programs: one JSON document.
    #[arg(long)]
    pub json: bool,
}
