//! The tables and their columns: the one list that the recorder, the guide and the tests share.

use biopsy_model::metric::Unit::{Bytes, BytesPerSecond, Cores, Count, Milliseconds, PerSecond, Ratio};

use super::sink::TableSchema;

/// The whole machine. `tcp.*` belong to the target's network namespace.
pub static SYSTEM: TableSchema = TableSchema {
    name: "system",
    keys: &[],
    columns: &[
        ("cpu.user", Cores),
        ("cpu.nice", Cores),
        ("cpu.system", Cores),
        ("cpu.idle", Cores),
        ("cpu.iowait", Cores),
        ("cpu.irq", Cores),
        ("cpu.softirq", Cores),
        ("cpu.steal", Cores),
        ("cpu.busy", Ratio),
        ("load.1", Count),
        ("load.5", Count),
        ("load.15", Count),
        ("processes.running", Count),
        ("processes.blocked", Count),
        ("switches", PerSecond),
        ("forks", PerSecond),
        ("interrupts", PerSecond),
        ("memory.total", Bytes),
        ("memory.available", Bytes),
        ("memory.free", Bytes),
        ("memory.cached", Bytes),
        ("memory.dirty", Bytes),
        ("memory.writeback", Bytes),
        ("memory.anon", Bytes),
        ("memory.shared", Bytes),
        ("memory.slab", Bytes),
        ("swap.total", Bytes),
        ("swap.used", Bytes),
        ("swap.in", BytesPerSecond),
        ("swap.out", BytesPerSecond),
        ("faults", PerSecond),
        ("faults.major", PerSecond),
        ("reclaim.direct", PerSecond),
        ("oom.kills", PerSecond),
        ("pressure.cpu.some", Ratio),
        ("pressure.cpu.some.avg10", Ratio),
        ("pressure.memory.some", Ratio),
        ("pressure.memory.some.avg10", Ratio),
        ("pressure.memory.full", Ratio),
        ("pressure.memory.full.avg10", Ratio),
        ("pressure.io.some", Ratio),
        ("pressure.io.some.avg10", Ratio),
        ("pressure.io.full", Ratio),
        ("pressure.io.full.avg10", Ratio),
        ("tcp.established", Count),
        ("tcp.connects", PerSecond),
        ("tcp.accepts", PerSecond),
        ("tcp.segments.out", PerSecond),
        ("tcp.retransmits", PerSecond),
        ("tcp.resets", PerSecond),
        ("tcp.failures", PerSecond),
        ("tcp.listen.overflows", PerSecond),
        ("tcp.listen.drops", PerSecond),
    ],
};

/// Whole block devices (not partitions) that did anything since boot.
pub static DISKS: TableSchema = TableSchema {
    name: "disks",
    keys: &["device"],
    columns: &[
        ("read.throughput", BytesPerSecond),
        ("write.throughput", BytesPerSecond),
        ("read.iops", PerSecond),
        ("write.iops", PerSecond),
        ("read.latency", Milliseconds),
        ("write.latency", Milliseconds),
        ("flush.iops", PerSecond),
        ("flush.latency", Milliseconds),
        ("busy", Ratio),
        ("queue", Count),
        ("in-flight", Count),
    ],
};

/// Network interfaces of the target's network namespace.
pub static NETWORK: TableSchema = TableSchema {
    name: "network",
    keys: &["interface"],
    columns: &[
        ("rx.throughput", BytesPerSecond),
        ("tx.throughput", BytesPerSecond),
        ("rx.packets", PerSecond),
        ("tx.packets", PerSecond),
        ("rx.errors", PerSecond),
        ("tx.errors", PerSecond),
        ("rx.drops", PerSecond),
        ("tx.drops", PerSecond),
    ],
};

/// The processes of the tree.
pub static PROCESSES: TableSchema = TableSchema {
    name: "processes",
    keys: &["pid", "name"],
    columns: &[
        ("cpu.user", Cores),
        ("cpu.system", Cores),
        ("memory.rss", Bytes),
        ("memory.pss", Bytes),
        ("memory.anon", Bytes),
        ("memory.file", Bytes),
        ("memory.shared", Bytes),
        ("memory.swap", Bytes),
        ("memory.virtual", Bytes),
        ("faults.minor", PerSecond),
        ("faults.major", PerSecond),
        ("read.throughput", BytesPerSecond),
        ("write.throughput", BytesPerSecond),
        ("read.calls", PerSecond),
        ("write.calls", PerSecond),
        ("read.requested", BytesPerSecond),
        ("write.requested", BytesPerSecond),
        ("switches.voluntary", PerSecond),
        ("switches.involuntary", PerSecond),
        ("threads", Count),
        ("fds", Count),
        ("oom.score", Count),
    ],
};

/// The threads of the tree. A thread without a row at a reading did not run since its last row.
pub static THREADS: TableSchema = TableSchema {
    name: "threads",
    keys: &["pid", "tid", "name"],
    columns: &[
        ("cpu", Cores),
        ("cpu.user", Cores),
        ("cpu.system", Cores),
        ("ready", Ratio),
        ("disk-wait", Ratio),
        ("switches", PerSecond),
        ("switches.voluntary", PerSecond),
        ("switches.involuntary", PerSecond),
        ("faults.major", PerSecond),
        ("read.throughput", BytesPerSecond),
        ("write.throughput", BytesPerSecond),
        ("state", Count),
    ],
};

/// The control groups of the tree and their parents.
pub static CGROUPS: TableSchema = TableSchema {
    name: "cgroups",
    keys: &["path"],
    columns: &[
        ("cpu.usage", Cores),
        ("cpu.user", Cores),
        ("cpu.system", Cores),
        ("cpu.quota", Cores),
        ("throttled.periods", PerSecond),
        ("throttled.ratio", Ratio),
        ("throttled.time", Cores),
        ("memory.current", Bytes),
        ("memory.limit", Bytes),
        ("memory.high", Bytes),
        ("memory.anon", Bytes),
        ("memory.file", Bytes),
        ("memory.events.high", PerSecond),
        ("memory.events.max", PerSecond),
        ("memory.events.oom-kill", PerSecond),
        ("swap.current", Bytes),
        ("pids.current", Count),
        ("pids.limit", Count),
        ("read.throughput", BytesPerSecond),
        ("write.throughput", BytesPerSecond),
        ("pressure.cpu.some", Ratio),
        ("pressure.memory.some", Ratio),
        ("pressure.io.some", Ratio),
    ],
};

/// All tables.
pub static ALL: [&TableSchema; 6] = [&SYSTEM, &DISKS, &NETWORK, &PROCESSES, &THREADS, &CGROUPS];
