//! The rules, a file for each, named after the id of its finding: here those that need a recording of any process, in `dotnet`
//! those that need what a .NET runtime said, in `dump` those that look at memory at one moment.

mod accept_queue;
mod allocator_churn;
mod cgroup_throttled;
mod cpu_bound;
mod cpu_saturated_by_others;
mod cpu_steal;
mod descriptor_growth;
mod disk_bound;
mod dotnet;
mod dump;
mod exception_storm;
mod gc_large_heap;
mod gc_pressure;
mod growing_type;
mod kept_allocations;
mod kept_by_allocator;
mod kernel_time;
mod last_word;
mod leak;
mod lock_contention;
mod lock_convoy;
mod log_errors;
mod memory_growth;
mod memory_in_use;
mod memory_pressure;
mod never_released;
mod page_faults;
mod recording_incomplete;
mod regex_backtracking;
mod round_trips;
mod runaway_threads;
mod short_lived_processes;
mod single_thread_bottleneck;
mod sleep_loop;
mod slow_peer;
mod switch_storm;
mod target_ended;
mod wasted_memory;

use super::finding::Finding;
use super::incident::Incident;
use super::scene::Scene;
use crate::dump::DumpAnalysis;

pub(super) use last_word::find as last_word;

/// A rule over a recording.
type OfRecording = fn(&Scene<'_>) -> Option<Finding>;
/// A rule over a dump.
type OfDump = fn(&DumpAnalysis) -> Option<Finding>;

/// A rule over evidence of several kinds.
type OfAll = fn(&Incident<'_>) -> Option<Finding>;

pub(super) const OF_ALL: &[OfAll] = &[
    leak::find,
    gc_large_heap::find,
    never_released::find,
    growing_type::find,
    kept_by_allocator::find,
    wasted_memory::find,
];

/// In this order: those that know the runtime first, since where two see one thing, the first one speaks.
pub(super) const OF_RECORDING: &[OfRecording] = &[
    dotnet::pool_starvation::find,
    dotnet::blocked_on_lock::find,
    dotnet::finalizer_blocked::find,
    dotnet::lock_convoy::find,
    dotnet::exception_storm::find,
    dotnet::regex_backtracking::find,
    dotnet::gc_pinned::find,
    dotnet::allocation_storm::find,
    dotnet::gc_pauses::find,
    dotnet::gc_induced::find,
    dotnet::timer_growth::find,
    dotnet::managed_heap_growth::find,
    dotnet::heap_fragmentation::find,
    dotnet::n_plus_one::find,
    dotnet::slow_dependency::find,
    dotnet::requests_unanswered::find,
    dotnet::failed_requests::find,
    dotnet::slow_requests::find,
    dotnet::logged_errors::find,
    dotnet::runtime_events_incomplete::find,
    cgroup_throttled::find,
    cpu_saturated_by_others::find,
    cpu_steal::find,
    gc_pressure::find,
    allocator_churn::find,
    page_faults::find,
    exception_storm::find,
    regex_backtracking::find,
    short_lived_processes::find,
    lock_convoy::find,
    lock_contention::find,
    single_thread_bottleneck::find,
    disk_bound::find,
    memory_pressure::find,
    runaway_threads::find,
    kept_allocations::find,
    memory_in_use::find,
    memory_growth::find,
    descriptor_growth::find,
    cpu_bound::find,
    kernel_time::find,
    switch_storm::find,
    slow_peer::find,
    round_trips::find,
    accept_queue::find,
    sleep_loop::find,
    log_errors::find,
    target_ended::find,
    recording_incomplete::find,
];

pub(super) const OF_DUMP: &[OfDump] = &[
    dump::unhandled_exception::find,
    dump::crash::find,
    dump::deadlock::find,
    dump::strand_deadlock::find,
    dump::across::circle,
    dump::orphaned_lock::find,
    dump::abandoned_lock::find,
    dump::pool_starvation::of_strands,
    dump::never_woken::find,
    dump::silent_peer::find,
    dump::lock_queue::find,
    dump::no_progress::find,
    dump::across::chain,
    dump::strands_wait::find,
    dump::finalizer_blocked::find,
    dump::pool_starvation::find,
    dump::waiting_operations::find,
    dump::waiting_operations::of_tasks,
    dump::inferred::full_channel::find,
    dump::full_channel::find,
    dump::inferred::pool_starvation::find,
    dump::target_ended::find,
    dump::never_woken::all_asleep::find,
    dump::stuck_wait::database_lock::find,
    dump::stuck_wait::own_ends::find,
    dump::stuck_wait::at_exit::find,
    dump::stuck_wait::find,
    dump::inferred::stuck_wait::find,
    dump::stuck_wait::input_wait::find,
    dump::held_up::find,
    dump::equal_threads::find,
    dump::many_threads::find,
    dump::running::find,
    dump::memory_split::find,
    dump::broken_stacks::find,
    dump::no_symbols::find,
    dump::incomplete_dump::find,
    dump::scrubbed::find,
    dump::overview::find,
];
