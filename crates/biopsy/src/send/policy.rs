//! What this machine allows a request to ask, before anything is asked of anybody.

use std::path::Path;

use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::SendArgs;
use biopsy_deliver::{InForce, Link, Request};
use biopsy_standby::places::machine_folder;

/// The policy of the machine, below its folder of settings.
const NAME: &str = "send-policy.json";

/// What is in force: the policy of the machine, and the one that was named; each has to allow what is done.
#[derive(Debug)]
pub(super) struct Policies(Vec<InForce>);

impl Policies {
    /// Reads them. One that others may write, or that is not understood, allows nothing.
    pub(super) fn read(args: &SendArgs) -> Result<Self, Failure> {
        let of_machine = one(&machine_folder().join(NAME))?;
        let named = match &args.policy {
            None => None,
            Some(path) => Some(one(path)?.ok_or_else(|| {
                Failure::new(FailureKind::Usage, format!("there is no policy `{}`", path.display()))
            })?),
        };
        Ok(Self(of_machine.into_iter().chain(named).collect()))
    }

    /// Before the lab is spoken with.
    pub(super) fn check_link(&self, link: &Link) -> Result<(), Failure> {
        self.0.iter().try_for_each(|one| refused(one, one.policy.refuses_link(link)))
    }

    /// When it is known what is asked for.
    pub(super) fn check(
        &self,
        link: &Link,
        request: &Request,
        target: Option<&str>,
        is_report: bool,
    ) -> Result<(), Failure> {
        self.0.iter().try_for_each(|one| refused(one, one.policy.refuses(link, request, target, is_report)))
    }

    /// For what is shown and agreed to.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(InForce::line)
    }
}

fn one(path: &Path) -> Result<Option<InForce>, Failure> {
    let unread = |error: biopsy_watch::file::FileError| {
        let hint = error.hint();
        Failure::from_error(FailureKind::Permission, &error).with_hint(hint)
    };
    let Some(text) = biopsy_watch::file::read(path).map_err(unread)? else { return Ok(None) };
    let parsed = InForce::parse(&path.display().to_string(), &text);
    parsed.map(Some).map_err(|error| Failure::from_error(FailureKind::Permission, &error))
}

fn refused(one: &InForce, why: Vec<String>) -> Result<(), Failure> {
    if why.is_empty() {
        return Ok(());
    }
    let message = format!("nothing was recorded, and nothing was sent: {}", why.join("; "));
    Err(Failure::new(FailureKind::Permission, message)
        .with_hint(Some(format!("`{}` says what may be asked of this machine", one.name))))
}
