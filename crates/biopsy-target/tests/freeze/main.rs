//! The freeze, on living processes: nothing of them is changed, whatever happens and whenever biopsy dies.

mod bad_days;
mod held_up;
mod image;
mod intact;
mod kills;
mod kinds;
mod orphans;
mod support;
