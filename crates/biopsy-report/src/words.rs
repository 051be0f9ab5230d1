//! The words of the output for the field's enumerations: stable in JSON, readable for people.

pub(crate) mod dump;

use biopsy_analyze::{FunctionKind, NotableKind, WaitReason};
use biopsy_model::Pid;
use biopsy_model::capture::EndedBy;
use biopsy_model::log::LogLevel;
use biopsy_model::loss::LossKind;
use biopsy_model::metric::Unit;
use biopsy_model::process::RuntimeKind;

/// `server (pid 4711)`; the name alone where the pid is not known.
pub(crate) fn name_and_pid(name: &str, pid: Pid) -> String {
    if pid == Pid(0) { name.to_owned() } else { format!("{name} (pid {pid})") }
}

pub(crate) fn function_kind(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Kernel => "kernel",
        FunctionKind::Native => "native",
        FunctionKind::Jit => "jit",
        FunctionKind::Unknown => "unknown",
        FunctionKind::Heading => "heading",
    }
}

pub(crate) fn reason(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Lock => "lock",
        WaitReason::Condition => "condition",
        WaitReason::LockOrCondition => "lock-or-condition",
        WaitReason::KernelLock => "kernel-lock",
        WaitReason::Events => "events",
        WaitReason::Peer => "peer",
        WaitReason::Pipe => "pipe",
        WaitReason::Descriptor => "descriptor",
        WaitReason::Disk => "disk",
        WaitReason::Memory => "memory",
        WaitReason::Sleep => "sleep",
        WaitReason::Child => "child",
        WaitReason::Signal => "signal",
        WaitReason::Preempted => "preempted",
        WaitReason::Stopped => "stopped",
        WaitReason::Throttled => "throttled",
        WaitReason::Other => "other",
        WaitReason::Unknown => "unknown",
    }
}

pub(crate) fn loss(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Samples => "samples",
        LossKind::Waits => "waits",
        LossKind::SideBand => "side-band",
        LossKind::Throttled => "throttled",
        LossKind::StacksSkipped => "stacks-skipped",
        LossKind::Metrics => "metrics",
        LossKind::Disk => "disk",
        LossKind::Allocations => "allocations",
        LossKind::Switches => "switches",
    }
}

/// What was lost, for people, as it follows a number.
pub(crate) fn loss_for_people(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Samples => "CPU samples",
        LossKind::Waits => "records of waits and wake-ups",
        LossKind::SideBand => "records of process, thread and mapping changes",
        LossKind::Throttled => "sampling interrupts (throttled by the kernel)",
        LossKind::StacksSkipped => "stacks (the recorder was behind)",
        LossKind::Metrics => "metric readings",
        LossKind::Disk => "events (disk full or size limit)",
        LossKind::Allocations => "sampled allocations",
        LossKind::Switches => "context switches (watched in turns, because they were many)",
    }
}

pub(crate) fn notable(kind: NotableKind) -> &'static str {
    match kind {
        NotableKind::CpuSaturated => "cpu-saturated",
        NotableKind::Steal => "steal",
        NotableKind::CpuPressure => "cpu-pressure",
        NotableKind::MemoryPressure => "memory-pressure",
        NotableKind::IoPressure => "io-pressure",
        NotableKind::Swapping => "swapping",
        NotableKind::MemoryShort => "memory-short",
        NotableKind::Throttled => "throttled",
        NotableKind::DiskBusy => "disk-busy",
    }
}

pub(crate) fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Unknown => "unknown",
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
    }
}

pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::PerSecond => "per-second",
        Unit::Cores => "cores",
        Unit::Ratio => "ratio",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes-per-second",
        Unit::Milliseconds => "milliseconds",
    }
}

pub(crate) fn runtime(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::DotNet => "dotnet",
        RuntimeKind::Jvm => "jvm",
        RuntimeKind::Node => "node",
        RuntimeKind::Python => "python",
        RuntimeKind::Go => "go",
        RuntimeKind::OtherInterpreter => "interpreter",
        RuntimeKind::Native => "native",
        RuntimeKind::Unknown => "unknown",
    }
}

/// Why the recording ended, for people.
pub(crate) fn ended_by(why: &EndedBy) -> &str {
    match why {
        EndedBy::Time => "the time asked for was over",
        EndedBy::Stopped => "stopped by the user",
        EndedBy::TargetExited => "the target exited",
        EndedBy::DiskFull => "the disk was full",
        EndedBy::Error => "an error",
        EndedBy::Unknown | EndedBy::Snapshot | EndedBy::Dumped | EndedBy::Other(_) => why.as_str(),
    }
}
