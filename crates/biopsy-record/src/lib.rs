//! the recorders, one folder each: trace, metrics, logs, context.
pub mod trace;
pub mod metrics;
pub mod context;
pub mod logs;
pub mod masking;
