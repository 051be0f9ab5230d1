//! Rules on what a .NET runtime said while it was recorded, and on managed stacks.

pub(super) mod allocation_storm;
pub(super) mod blocked_on_lock;
pub(super) mod exception_storm;
pub(super) mod failed_requests;
pub(super) mod finalizer_blocked;
pub(super) mod gc_induced;
pub(super) mod gc_pauses;
pub(super) mod gc_pinned;
pub(super) mod heap_fragmentation;
pub(super) mod lock_convoy;
pub(super) mod logged_errors;
pub(super) mod managed_heap_growth;
pub(super) mod n_plus_one;
pub(super) mod pool_starvation;
pub(super) mod regex_backtracking;
pub(super) mod requests_unanswered;
pub(super) mod runtime_events_incomplete;
pub(super) mod slow_dependency;
pub(super) mod slow_requests;
pub(super) mod timer_growth;
