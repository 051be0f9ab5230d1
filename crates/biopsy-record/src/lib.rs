//! The recorders, one folder each: trace, metrics, logs, context.
//!
//! The capture half, beside the target. Each recorder writes its part of a recording, masked, and turns what it could
//! not do into warnings and losses in the recording. None of them stops, signals or traces the target.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod context;
pub mod dotnet;
pub mod dump;
pub mod favour;
pub mod logs;
pub mod masking;
pub mod metrics;
pub mod preview;
pub mod snapshot;
pub mod trace;
pub mod triggers;
