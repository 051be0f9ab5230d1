//! What CI runs, in the order in which failures are cheapest to see.

use crate::run::{Outcome, cargo, root, succeed};
use crate::tidy;

/// All of it; stops at the first failure.
pub(crate) fn run() -> Outcome {
    succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run(tidy::Options::default())?;
    succeed(&mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    succeed(cargo(&["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    succeed(cargo(&["check", "--quiet", "--all-targets"]).current_dir(root().join("fuzz")))?;
    succeed(&mut cargo(&["test", "--workspace"]))
}
