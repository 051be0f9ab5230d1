//! Names of kernel functions that say what role they play. Data: no list of names is ever complete.

/// Switching and waking. Everything these call is part of the cost of switching.
#[rustfmt::skip]
pub(crate) const SCHEDULER: &[&str] = &[
    "__cond_resched", "__schedule", "default_wake_function", "do_sched_yield", "dynamic_cond_resched",
    "finish_task_switch", "io_schedule", "io_schedule_timeout", "preempt_schedule",
    "preempt_schedule_common", "preempt_schedule_irq", "preempt_schedule_notrace", "schedule",
    "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock", "schedule_preempt_disabled",
    "schedule_timeout", "try_to_wake_up", "wake_up_process", "wake_up_q", "wake_up_state",
    "yield_task_fair",
];

/// A timer interrupt cannot land while interrupts are off: it lands here, right after.
#[rustfmt::skip]
pub(crate) const INTERRUPTS_ON: &[&str] = &[
    "__raw_spin_unlock_irq", "__raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq",
    "_raw_spin_unlock_irqrestore", "raw_spin_rq_unlock",
];
