//! `struct perf_event_attr` (perf_event_open(2)): what an event measures and which fields its records have.

use biopsy_bytes::{Cursor, ReadError};

/// Bits of `sample_type`.
pub(crate) mod sample {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of the flags.
pub(crate) mod flag {
    pub(crate) const INHERIT: u64 = 1 << 1;
    pub(crate) const FREQ: u64 = 1 << 10;
    pub(crate) const SAMPLE_ID_ALL: u64 = 1 << 18;
}

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// `PERF_TYPE_BREAKPOINT`.
const BREAKPOINT: u32 = 5;

/// What is needed of an event's description.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// Frequency or period, as the flag says.
    pub(crate) period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
}

/// What to make of an event's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// Samples stand for CPU time; periods are nanoseconds.
    Clock,
    /// Samples stand for CPU time; periods are counts of something (cycles, instructions).
    Counter,
    /// One sample for each context switch, taken as the thread leaves the CPU.
    Switch,
    /// `sched:sched_switch`.
    SchedSwitch,
    /// `sched:sched_waking` or `sched:sched_wakeup`.
    SchedWaking,
    /// Only there for its side-band records.
    Dummy,
    /// Something else: not used.
    Other,
}

impl Attr {
    /// Reads one from the start of `bytes`. Returns its own size too.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<(Attr, usize), ReadError> {
        let kind = cursor.u32("perf_event_attr.type")?;
        let size = cursor.u32("perf_event_attr.size")? as usize;
        let mut attr = Attr {
            kind,
            config: cursor.u64("perf_event_attr.config")?,
            period: cursor.u64("perf_event_attr.sample_period")?,
            sample_type: cursor.u64("perf_event_attr.sample_type")?,
            read_format: cursor.u64("perf_event_attr.read_format")?,
            flags: cursor.u64("perf_event_attr.flags")?,
            ..Attr::default()
        };
        // wakeup_events and bp_type, config1, config2.
        cursor.skip("perf_event_attr.wakeup_events", 16)?;
        if size >= 80 {
            cursor.skip("perf_event_attr.config2", 8)?;
            attr.branch_sample_type = cursor.u64("perf_event_attr.branch_sample_type")?;
        }
        if size >= 96 {
            attr.regs_user = cursor.u64("perf_event_attr.sample_regs_user")?;
        }
        Ok((attr, size))
    }

    pub(crate) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    pub(crate) fn flag(&self, bit: u64) -> bool {
        self.flags & bit != 0
    }

    /// What its samples mean; tracepoints are told by name.
    pub(crate) fn meaning(&self, name: &str) -> Meaning {
        match (self.kind, self.config) {
            // PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_SW_TASK_CLOCK
            (SOFTWARE, 0 | 1) => Meaning::Clock,
            (SOFTWARE, 3) => Meaning::Switch,
            (SOFTWARE, 9) => Meaning::Dummy,
            (SOFTWARE | BREAKPOINT, _) => Meaning::Other,
            (TRACEPOINT, _) if name.ends_with("sched_switch") => Meaning::SchedSwitch,
            (TRACEPOINT, _) if name.ends_with("sched_waking") || name.ends_with("sched_wakeup") => {
                Meaning::SchedWaking
            }
            (TRACEPOINT, _) => Meaning::Other,
            // Cycles, instructions, bus and reference cycles; misses of caches and branches are another question.
            (HARDWARE, config) if matches!(config & 0xff, 0 | 1 | 6 | 9) => Meaning::Counter,
            (HARDWARE, _) => Meaning::Other,
            _ if name.contains("cycles") || name.contains("instructions") => Meaning::Counter,
            _ => Meaning::Other,
        }
    }

    /// A name for an event that has none.
    pub(crate) fn default_name(&self) -> String {
        match (self.kind, self.config) {
            (SOFTWARE, 0) => "cpu-clock".to_owned(),
            (SOFTWARE, 1) => "task-clock".to_owned(),
            (SOFTWARE, 3) => "context-switches".to_owned(),
            (SOFTWARE, 9) => "dummy".to_owned(),
            (HARDWARE, config) if config & 0xff == 0 => "cycles".to_owned(),
            (HARDWARE, config) if config & 0xff == 1 => "instructions".to_owned(),
            (kind, config) => format!("event {kind}:{config:#x}"),
        }
    }
}
