//! The reader of `perf.data`, on files made for one question each.

mod build;
mod container;
mod samples;
mod scheduler;
mod side_band;
