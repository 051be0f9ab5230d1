//! Rules on the memory and registers of a process at one moment.

pub(super) mod abandoned_lock;
pub(super) mod across;
pub(super) mod broken_stacks;
pub(super) mod crash;
pub(super) mod deadlock;
pub(super) mod equal_threads;
pub(super) mod finalizer_blocked;
pub(super) mod full_channel;
pub(super) mod held_up;
pub(super) mod incomplete_dump;
pub(super) mod inferred;
pub(super) mod lock_queue;
pub(super) mod many_threads;
pub(super) mod memory_split;
pub(super) mod never_woken;
pub(super) mod no_progress;
pub(super) mod no_symbols;
pub(super) mod orphaned_lock;
pub(super) mod overview;
pub(super) mod pool_starvation;
pub(super) mod running;
pub(super) mod scrubbed;
pub(super) mod silent_peer;
pub(super) mod strand_deadlock;
pub(super) mod strands_wait;
pub(super) mod stuck_wait;
pub(super) mod target_ended;
pub(super) mod unhandled_exception;
pub(super) mod waiting_operations;

#[cfg(test)]
mod tests;
