//! the recorders, one folder each: trace, metrics, logs, context.
