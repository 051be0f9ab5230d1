//! What is shown before anything is recorded or sent, and the question.

use std::io::{BufRead, IsTerminal};

use biopsy_capture::{Failure, FailureKind};
use biopsy_deliver::{Link, Request};
use biopsy_model::printable::printable;
use jiff::Timestamp;

use biopsy_cli::SendArgs;
use biopsy_foreground::out;

/// The lines that are shown, and kept with what is sent.
pub(super) fn plan(
    args: &SendArgs,
    link: &Link,
    request: &Request,
    target: Option<&str>,
    is_report: bool,
) -> Vec<String> {
    let expires = Timestamp::from_second(request.expires).map(|time| time.to_string()).unwrap_or_default();
    let mut lines = vec![
        format!("who asks      {} (its signature is the one the link names: {})", request.lab, link.signer),
        format!("for           case {}", request.case),
        format!("asked for     {}", request.recipe),
    ];
    match &args.file {
        Some(file) if is_report => {
            lines.push(format!("you send      the report on `{}`; the file stays here", file.display()))
        }
        Some(file) => lines.push(format!("you send      `{}`", file.display())),
        None => lines.push(format!("you record    {}", target.unwrap_or_default())),
    }
    for reader in &request.readers {
        lines.push(format!("readable by   {} ({})", reader.name, reader.key));
    }
    lines.push(format!("sent to       {}, taken until {expires}", link.lab));
    lines.push(format!(
        "kept for      {} days at most, then deleted; the receipt is how you hold them to it",
        request.kept_days
    ));
    if let Some(mail) = &args.tell {
        lines.push(format!(
            "told by mail  {mail}: received, analysed, deleted; the lab keeps this address until then"
        ));
    }
    // Names come from the lab: none of them may look like a line of ours.
    lines.iter().map(|line| printable(line)).collect()
}

/// Shows it, and asks.
pub(super) fn ask(plan: &[String], is_agreed: bool) -> Result<(), Failure> {
    out::to_stderr(&format!("{}\n", plan.join("\n")), false);
    if is_agreed {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new(FailureKind::Usage, "nobody is there to be asked")
            .with_hint(Some("`--yes` agrees to what is shown above")));
    }
    out::to_stderr("do it? [y/N] ", false);
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    let is_yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if is_yes {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Stopped, "nothing was recorded, and nothing was sent"))
}
