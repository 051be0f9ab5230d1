//! unwinding and symbols.
