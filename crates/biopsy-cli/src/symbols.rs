//! What is needed to read evidence, beside the evidence: files that it names, and the key to it.

use std::path::PathBuf;

use clap::Args;

/// What is needed to read evidence, beside the evidence.
#[derive(Debug, Default, Args)]
pub struct SymbolArgs {
    /// Look for the programs and libraries of the process below FOLDER, at the paths that it knew; `/`: on this machine. Only
    /// those are used that are the same. Without it no file is opened because a dump names it. Can be given several times.
    #[arg(long = "symbols", value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// Ask debuginfod servers for debug files that are not on this machine, and for programs whose text a core has left out: URL, or without one those of
    /// `DEBUGINFOD_URLS`. They are told build ids and nothing else; what they give is kept below `~/.cache/biopsy/debuginfod`. Can be given
    /// several times.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub debuginfod: Vec<String>,
    /// The key that opens sealed files, as `age-keygen` writes it. They are read where they are: nothing is decrypted to a disk.
    #[arg(long, value_name = "KEYFILE")]
    pub identity: Option<PathBuf>,
}
