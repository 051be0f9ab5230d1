//! Catching processes: short lives, crashes, and that nobody is harmed by it.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

mod catching;
