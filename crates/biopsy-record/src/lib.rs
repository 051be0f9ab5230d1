//! the recorders, one folder each: trace, metrics, logs, context.
pub mod context;
pub mod logs;
pub mod masking;
pub mod metrics;
pub mod trace;
