//! What is handed on to `biopsy-lab`.

use std::ffi::OsString;

use clap::Args;

/// Arguments that are handed on.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct HandedOn {
    /// See `biopsy-lab --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}
