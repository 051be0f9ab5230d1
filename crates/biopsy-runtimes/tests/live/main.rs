//! Goroutines of real Go programs and threads of real Python programs, read from a frozen copy of their memory, against what the
//! programs are and what Go itself prints of them.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote")]

mod frozen;
mod go;
mod python;
