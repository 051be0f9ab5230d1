//! `biopsy open CASE --from LAB`: a case that its lab cannot read is fetched as it was sealed, and read here.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::{HandedOn, OpenFromArgs};
use biopsy_deliver::fetch::{Fetch, FetchError};
use biopsy_foreground::{Code, out};
use biopsy_seal::Identity;

use super::lab;

/// Runs `biopsy open`.
pub(crate) fn open(args: &HandedOn) -> Result<Code, Failure> {
    match OpenFromArgs::of(&args.arguments) {
        None => lab(&["case", "open"], args),
        Some(Ok(from)) => fetched(&from),
        Some(Err(error)) => error.exit(),
    }
}

fn fetched(args: &OpenFromArgs) -> Result<Code, Failure> {
    /// Longest file with a token.
    const MOST: u64 = 4096;
    let bad = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", path.display()))
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if args.case.is_empty() || args.case.starts_with(['.', '-']) || !args.case.bytes().all(is_name) {
        return Err(Failure::new(FailureKind::Usage, "that is no name of a case"));
    }
    // Before anything is fetched.
    Identity::of_file(&args.identity).map_err(|error| bad(&args.identity, &error))?;
    let to = args.to.clone().unwrap_or_else(|| PathBuf::from(format!("{}.sealed", args.case)));
    if to.exists() {
        out::say(format_args!("`{}` is there: it is read, and nothing is fetched", to.display()));
    } else {
        let mut token = String::new();
        std::fs::File::open(&args.token_file)
            .and_then(|file| file.take(MOST).read_to_string(&mut token))
            .map_err(|error| bad(&args.token_file, &error))?;
        let fetch = Fetch {
            lab: &args.from,
            case: &args.case,
            token: token.trim(),
            give_up_after: Duration::from_secs(300),
        };
        let bytes = fetch.to(&to).map_err(failure)?;
        out::say(format_args!(
            "fetched {bytes} bytes, sealed as they were sent: `{}`; it is yours to remove",
            to.display()
        ));
    }
    let analyze = OsString::from("analyze");
    let (verb, arguments) = args.words.split_first().unwrap_or((&analyze, &[]));
    let own = std::env::current_exe().map_err(|error| bad(Path::new("/proc/self/exe"), &error))?;
    let error =
        Command::new(&own).arg(verb).arg(&to).args(arguments).arg("--identity").arg(&args.identity).exec();
    Err(Failure::new(FailureKind::Usage, format!("cannot start `{}`: {error}", own.display())))
}

fn failure(error: FetchError) -> Failure {
    let kind = match error {
        FetchError::NotPrivate(_) => FailureKind::Usage,
        FetchError::Io { .. } => FailureKind::Output,
        FetchError::Refused { .. } | FetchError::Unreachable(_) | FetchError::OtherBytes => {
            FailureKind::Delivery
        }
    };
    Failure::from_error(kind, &error)
}
