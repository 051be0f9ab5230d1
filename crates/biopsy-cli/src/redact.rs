//! What may be typed after `biopsy redact`.

use std::path::PathBuf;

use clap::Args;

/// Write logs and configuration again without their secrets: one file, or all files of a folder; packed ones (gzip, zstd, zip) stay packed.
///
/// What is found by its key in one file is masked in all of them, names included. The input is only read. What cannot be looked into
/// (programs, pictures, links) is left out and named. The result is checked by a second reader before it gets its name.
#[derive(Debug, Args)]
pub struct RedactArgs {
    /// A file, a folder, or `-` for standard input (which is gone over once: what is learned late is not masked in what came before).
    #[arg(value_name = "FILE|FOLDER", required_unless_present = "test")]
    pub input: Option<PathBuf>,
    /// Where to write to; `-`: standard output [default: beside the input, `NAME.redacted`]
    #[arg(short, long, value_name = "PATH", conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Write nothing; show each line in which something would be masked, and end with 8 if there is one.
    #[arg(long)]
    pub check: bool,
    /// Rules of your own: names whose values are secrets, shapes, and values that are none. Can be given several times.
    #[arg(long = "policy", value_name = "FILE")]
    pub policies: Vec<PathBuf>,
    /// Run the examples of the policies, and say which do not hold.
    #[arg(long, requires = "policies", conflicts_with_all = ["input", "output", "check"])]
    pub test: bool,
    /// Mask personal data, too: addresses of mail and network, names of users and machines, numbers of telephones, accounts and
    /// cards. The same value has the same pseudonym everywhere, so that one client can still be followed.
    #[arg(long, alias = "personal")]
    pub anonymize: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    pub json: bool,
}
