//! Builders of synthetic dumps, for tests of this crate and (feature `testing`) of others.

mod core;
mod minidump;
mod pack;
mod samples;

pub use core::{CoreBuilder, CoreNote, Segment};
pub use minidump::MinidumpBuilder;
pub use pack::{gzip, seekable_zstd, zstd_frames, zstd_stream};
pub use samples::{samples, small_core, small_minidump};
