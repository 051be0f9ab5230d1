//! Tables over all cases from outside: what a report leaves, what a file holds, what may be asked.

mod files;
mod golden;
mod hostile;
mod questions;
mod support;
