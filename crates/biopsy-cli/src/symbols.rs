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
    /// The key that opens sealed files, as `age-keygen` writes it. They are read where they are: nothing is decrypted to a disk.
    #[arg(long, value_name = "KEYFILE")]
    pub identity: Option<PathBuf>,
}
