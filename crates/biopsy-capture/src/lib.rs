//! From a plan to a finished recording: the verbs of the capture half, for whoever runs them.
//!
//! ```text
//! CapturePlan ──► capture::run ──┐
//! DumpPlan ─────► dump::run ─────┤     find or start ─► (wait) ─► record or freeze ─► finish: mask again, report, look for
//! SnapshotPlan ─► snapshot::run ─┼──►  secrets, pack ─► an outcome with its warnings
//! StacksPlan ───► stacks::take ──┤
//! KeepPlan ─────► recent::keep ──┘
//! ```
//!
//! A verb takes a plan and a [`Job`] and returns its outcome or a [`Failure`]. It prints nothing and exits nowhere: what goes on is
//! told to the job's [`Observer`], and the job says whether the verb should end. The program parses and renders around it.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod capture;
pub mod dump;
pub mod failure;
mod finish;
pub mod job;
pub mod place;
pub mod recent;
mod recording;
pub mod snapshot;
pub mod stacks;
pub mod survey;
pub mod target;
mod tree;
mod until_sealed;
pub mod words;

pub use failure::{Failure, FailureKind, MADE};
pub use finish::HandedOver;
pub use job::{Event, Job, LeftBehind, Observer, Patience};
pub use until_sealed::UntilSealed;
