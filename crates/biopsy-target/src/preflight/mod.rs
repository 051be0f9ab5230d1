//! Checks of the machine, the account and the target, each with a hint that holds here.

pub mod namespace;
