//! Made-up Go programs, one property each.

mod ahead;
mod holders;
mod program;
mod stacks;
mod states;
mod waits;
