//! Catching processes: short lives, crashes, and that nobody is harmed by it.

mod catching;
