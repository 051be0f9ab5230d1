//! What may be typed after `biopsy verify-deletion`.

use std::path::PathBuf;

use biopsy_deliver::Fingerprint;
use clap::Args;

/// Check the certificate of a deletion: who signed it, and whether it is of what you sent. Needs no network.
#[derive(Debug, Args)]
pub struct VerifyDeletionArgs {
    /// The certificate.
    pub certificate: PathBuf,
    /// The receipt of what you sent: `FILE.age.receipt.json`.
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
    /// Who must have signed it: the fingerprint from the link, or from `biopsy send`.
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint)]
    pub signer: Option<Fingerprint>,
}

fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    text.parse().map_err(|_| "a fingerprint has 22 letters and digits".to_owned())
}
