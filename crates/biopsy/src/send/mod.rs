//! `biopsy send`: from a link or a key to a sealed file, and to whoever asked for it.

mod consent;
mod policy;
mod seal;
mod way;

use biopsy_cli::SendArgs;
use std::sync::Arc;

use biopsy_capture::{Failure, FailureKind, Job, Patience, UntilSealed};
use biopsy_deliver::state::State;
use biopsy_deliver::{Kind, Link, Parcel, Request, SendError, Sender, Signer};

use crate::running;
use biopsy_foreground::{Code, Screen, interrupt, out};
use biopsy_terminal::terminal::ColorChoice;

/// Runs `biopsy send`.
pub(crate) fn send(args: &SendArgs, color: ColorChoice) -> Result<Code, Failure> {
    if args.seal_only {
        return seal::only(args);
    }
    let Some(link) = args.request.as_ref().or(args.to.as_ref()) else {
        return Err(Failure::new(FailureKind::Usage, "there is no link"));
    };
    if !link.is_private() && !args.plain_http {
        let message = format!("`{}` speaks no https: whoever looks on could use the link", link.shown());
        return Err(Failure::new(FailureKind::Usage, message)
            .with_hint(Some("ask for a link with https; `--plain-http` uses it all the same")));
    }
    let policies = policy::Policies::read(args)?;
    policies.check_link(link)?;
    let parcel = way::parcel(args, link)?;
    // What was begun goes on with the key that began it.
    let (begun, signer) = match parcel.begun(link).map_err(way::not_sendable)? {
        Some((state, signer)) => (Some(state), signer),
        None => {
            parcel.check_room(args.file.is_none()).map_err(way::not_sendable)?;
            (None, Signer::generate())
        }
    };
    let sealed = parcel.sealed();
    let mut sender = Sender::new(link, signer);
    sender.give_up_after = std::time::Duration::from_secs(args.patience);
    sender.most_per_second = args.limit_rate.map(|kilobytes| kilobytes.saturating_mul(1000));

    let patience =
        if args.request.is_some() { Patience::Unlimited } else { Patience::Limited(interrupt::SHORT) };
    let (job, screen) = running::begin(color, args.quiet, false, patience)?;
    let mut watch = way::Watch::new(&job, args.quiet);
    let mut state = match begun {
        Some(state) => {
            out::say(format_args!("going on with `{}`", sealed.display()));
            state
        }
        None => {
            let request = sender.request(&mut |progress| watch.shows(progress)).map_err(way::failure)?;
            begin(args, link, &request, &policies, &parcel, sender.signer(), &job, &screen, color)?
        }
    };
    let receipt = sender
        .send(sealed, &mut state, &mut |progress| watch.shows(progress))
        .map_err(|error| kept(error, sealed))?;
    let text = format!(
        "received by {}: {} bytes, sha256 {}\nreceipt: {}\nthe sealed file is yours to remove: {}\n",
        link.lab,
        receipt.bytes,
        receipt.sha256,
        State::receipt_of(sealed).display(),
        sealed.display(),
    );
    out::text(&text, false)
}

/// Shows what is asked for, asks, records or reads, seals; what was agreed to is in the state.
#[expect(clippy::too_many_arguments, reason = "the outline of the verb: each is used once")]
fn begin(
    args: &SendArgs,
    link: &Link,
    request: &Request,
    policies: &policy::Policies,
    parcel: &Parcel,
    signer: &Signer,
    job: &Job,
    screen: &Arc<Screen>,
    color: ColorChoice,
) -> Result<State, Failure> {
    let recipients =
        request.recipients().map_err(|error| Failure::from_error(FailureKind::Delivery, &error))?;
    let is_report = args.report_only || request.recipe.kind == Kind::Report;
    let target = if args.file.is_none() { Some(seal::target(args, request)?) } else { None };
    policies.check(link, request, target.as_deref(), is_report)?;
    let mut plan = consent::plan(args, link, request, target.as_deref(), is_report);
    let until = target.is_some().then(|| UntilSealed::choose(args.on_disk));
    plan.extend(until.iter().map(|until| until.line(&parcel.bundle())).chain(policies.lines()));
    consent::ask(&plan, args.yes)?;
    let sealed = parcel.sealed();
    let done = match (&args.file, until) {
        (Some(file), _) if is_report => seal::report(file, sealed, &recipients)?,
        (Some(file), _) => seal::file(file, sealed, &recipients)?,
        (None, until) => {
            let until = until.unwrap_or_else(|| UntilSealed::choose(args.on_disk));
            seal::recording(args, request, parcel, until, &recipients, job, screen, color)?
        }
    };
    let mut state = State::new(link, signer, done.bytes, done.sha256, plan);
    state.know(&done.beginnings);
    state.contact.clone_from(&args.tell);
    Ok(state)
}

/// The sealed file stays: the same command goes on.
fn kept(error: SendError, sealed: &std::path::Path) -> Failure {
    let may_go_on = matches!(
        error,
        SendError::Unreachable(_) | SendError::Stopped | SendError::Answer { .. } | SendError::Blocked { .. }
    );
    let failure = way::failure(error);
    if may_go_on {
        let hint = format!("`{}` is kept; the same command goes on from where it was", sealed.display());
        return failure.with_hint(Some(hint));
    }
    failure
}
