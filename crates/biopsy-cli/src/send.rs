//! What may be typed after `biopsy send`.

use std::io::{BufRead, Read};
use std::path::PathBuf;

use biopsy_deliver::{Link, LinkError};
use biopsy_seal::Recipient;
use clap::Args;

/// Longest link that is read.
const LONGEST: u64 = 4096;

/// A link, or `-` for one that is read: a command line is everybody's to see.
fn link(text: &str) -> Result<Link, String> {
    let mut line = String::new();
    if text == "-" {
        std::io::stdin().lock().take(LONGEST).read_line(&mut line).map_err(|error| error.to_string())?;
    }
    let link = if text == "-" { &line } else { text };
    link.parse().map_err(|error: LinkError| error.to_string())
}

/// Send evidence to whoever asked for it: sealed to their key before it touches the network, resumed after any cut, with a signed receipt.
///
/// Before anything is recorded or sent it shows who asks, for what, and who will be able to read it, and asks you.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// A file that is there: a bundle, a dump, a log. With `--request`, nothing: what is asked for is recorded now.
    #[arg(required_unless_present = "request")]
    pub file: Option<PathBuf>,
    /// Do what the request behind this link asks for, and send it.
    #[arg(long, value_name = "LINK", conflicts_with_all = ["file", "to", "seal_only"])]
    pub request: Option<Link>,
    /// Send FILE to the request behind this link; `-`: it is a line of standard input. The same command goes on after a cut, a kill or a
    /// reboot.
    #[arg(long, value_name = "LINK", value_parser = link, required_unless_present_any = ["request", "seal_only"])]
    pub to: Option<Link>,
    /// Only seal FILE, for a drive or another way: nothing is sent.
    #[arg(long, requires = "to_key", conflicts_with = "to")]
    pub seal_only: bool,
    /// To whom it is sealed: `age1...`; may be repeated.
    #[arg(long, value_name = "KEY", requires = "seal_only")]
    pub to_key: Vec<Recipient>,
    /// Send the report on FILE, and not FILE: derived data alone.
    #[arg(long, requires = "file")]
    pub report_only: bool,
    /// Record this process instead of the one that the request names.
    #[arg(long, value_name = "TARGET", requires = "request")]
    pub target: Option<String>,
    /// Keep the recording on the disk, in clear and readable by its owner alone, until it is sealed: where memory is not enough for it. Otherwise it
    /// is in memory alone, where that can be had (root, Linux 5.2).
    #[arg(long, requires = "request")]
    pub on_disk: bool,
    /// Where the sealed file goes. [default: beside FILE, or here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Most kilobytes in a second.
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit_rate: Option<u64>,
    /// For how many seconds without progress it is tried again.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub patience: u64,
    /// Use a link without https: what is sent is sealed, but whoever looks on can use the link.
    #[arg(long)]
    pub plain_http: bool,
    /// Ask the lab to tell this address when it was received, analysed and deleted.
    #[arg(long, value_name = "MAIL", conflicts_with = "seal_only")]
    pub tell: Option<String>,
    /// What may be asked is capped by this file, too, and not by `/etc/biopsy/send-policy.json` alone: each of them has to allow it.
    #[arg(long, value_name = "FILE", conflicts_with = "seal_only")]
    pub policy: Option<PathBuf>,
    /// Agree beforehand to what is shown.
    #[arg(short, long)]
    pub yes: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}
