//! Streams written by `super::write`, read back.
