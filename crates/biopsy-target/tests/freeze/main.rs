//! The freeze, on living processes: nothing of them is changed, whatever happens and whenever biopsy dies.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

mod bad_days;
mod held_up;
mod image;
mod intact;
mod kills;
mod kinds;
mod orphans;
mod support;
