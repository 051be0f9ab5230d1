//! From a file, its report, or a recording that is made now, to a sealed file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use biopsy_capture::{Failure, FailureKind, Job, UntilSealed};
use biopsy_deliver::{Kind, Parcel, REPORT_ALONE, Request};
use biopsy_report::{Mask, render_markdown};
use biopsy_seal::{Recipient, SealError, Sealed, seal_file};
use clap::Parser;

use crate::commands::input::diagnose;
use biopsy_cli::{CaptureArgs, SendArgs, SymbolArgs};
use biopsy_foreground::{Code, Screen, out};
use biopsy_terminal::terminal::ColorChoice;

/// `biopsy send FILE --seal-only --to-key KEY`.
pub(super) fn only(args: &SendArgs) -> Result<Code, Failure> {
    let Some(from) = &args.file else { return Err(Failure::new(FailureKind::Usage, "there is no file")) };
    let to = args.output.clone().unwrap_or_else(|| Parcel::name_of(from, args.report_only));
    let done =
        if args.report_only { report(from, &to, &args.to_key)? } else { file(from, &to, &args.to_key)? };
    let text =
        format!("{}: {} bytes, sealed to {} keys\n", done.path.display(), done.bytes, args.to_key.len());
    out::text(&text, false)
}

/// A file, as it is.
pub(super) fn file(from: &Path, to: &Path, recipients: &[Recipient]) -> Result<Sealed, Failure> {
    let unread = |why: &dyn std::fmt::Display| {
        Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {why}", from.display()))
    };
    let meta = std::fs::metadata(from).map_err(|error| unread(&error))?;
    if !meta.is_file() {
        return Err(unread(&"it is no file").with_hint(Some("a recording's folder is packed with `zip -r`")));
    }
    let mut opened = File::open(from).map_err(|error| unread(&error))?;
    seal(&mut opened, to, recipients)
}

/// The report on a file, as text with its secrets masked.
pub(super) fn report(from: &Path, to: &Path, recipients: &[Recipient]) -> Result<Sealed, Failure> {
    let read = diagnose(&[from.to_owned()], &SymbolArgs::default())?;
    let mask = |text: &str| read.mask(text);
    let mask: Option<Mask<'_>> = Some(&mask);
    let text = render_markdown(&read.diagnosis, mask);
    seal(&mut Cursor::new(REPORT_ALONE).chain(text.as_bytes()), to, recipients)
}

fn seal(from: &mut dyn Read, to: &Path, recipients: &[Recipient]) -> Result<Sealed, Failure> {
    seal_file(from, to, recipients).map_err(|error| {
        let kind = match &error {
            SealError::Read(_) => FailureKind::BadInput,
            SealError::Write { .. } => FailureKind::Output,
        };
        Failure::from_error(kind, &error)
    })
}

/// Which process: the customer's word goes before the lab's.
pub(super) fn target(args: &SendArgs, request: &Request) -> Result<String, Failure> {
    let target = args.target.clone().or_else(|| request.recipe.target.clone());
    let Some(target) = target else {
        return Err(Failure::new(FailureKind::Usage, "the request names no process").with_hint(Some(
            "name it with `--target`: a pid, a name, a systemd unit or a container id; `biopsy ps` lists them",
        )));
    };
    // It comes from elsewhere, and must not be read as something else.
    if target.starts_with('-') || target.is_empty() || target.chars().any(char::is_control) {
        return Err(Failure::new(FailureKind::Usage, format!("`{target}` is no name of a process")));
    }
    Ok(target)
}

/// What `biopsy capture` is told.
#[derive(Parser)]
struct Capturing {
    #[command(flatten)]
    args: CaptureArgs,
}

/// Records what the request asks for, seals it, and removes what is not sealed.
#[expect(clippy::too_many_arguments, reason = "the outline of the verb: each is used once")]
pub(super) fn recording(
    args: &SendArgs,
    request: &Request,
    parcel: &Parcel,
    until: UntilSealed,
    recipients: &[Recipient],
    job: &Job,
    screen: &Arc<Screen>,
    color: ColorChoice,
) -> Result<Sealed, Failure> {
    if !request.recipe.kind.is_captured() {
        let message = "the request asks for a file that you have, and not for a recording";
        return Err(Failure::new(FailureKind::Usage, message)
            .with_hint(Some("`biopsy send FILE --to LINK` sends it".to_owned())));
    }
    let bundle = until.bundle(&parcel.bundle());
    let seconds = format!("{}s", request.recipe.seconds());
    let target = target(args, request)?;
    let mut words: Vec<OsString> = ["capture", "--for", &seconds, "--output"].map(Into::into).into();
    words.push(bundle.clone().into());
    if request.recipe.kind == Kind::Hang {
        words.push("--stacks".into());
    }
    if let Some(megabytes) = until.most_megabytes() {
        words.extend(["--max-size".into(), megabytes.to_string().into()]);
    }
    words.push(target.into());
    let capturing = Capturing::try_parse_from(words)
        .map_err(|error| Failure::new(FailureKind::Usage, error.to_string()))?;
    // Less than was asked for is worth sending: it says what it lacks.
    let _: Code = crate::capture::record(&capturing.args, false, color, job, screen)?;
    if !bundle.is_file() {
        let message = "the recording was stopped before there was a bundle";
        return Err(Failure::new(FailureKind::Stopped, message));
    }
    let done = file(&bundle, parcel.sealed(), recipients)?;
    if let Some(sentence) = until.remove(&bundle) {
        out::say(sentence);
    }
    Ok(done)
}
