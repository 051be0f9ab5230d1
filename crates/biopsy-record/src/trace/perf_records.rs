//! Records of the kernel's perf rings, in the words of the recorder.

use biopsy_sys::perf::{EventConfig, Record};
use linux_perf_event_reader::{
    ContextSwitchRecord, Endianness, EventRecord, PerfEventAttr, RawData, RawEventRecord, RecordParseInfo,
    RecordType,
};

/// One record.
#[derive(Debug)]
pub(crate) enum PerfRecord {
    /// A sample, where the kernel writes them to the ring by itself.
    Sample(PerfSample),
    /// Executable memory was mapped (or became executable).
    Map { pid: u32, time: u64, start: u64, len: u64, offset: u64, path: Vec<u8> },
    /// A thread has a new name; `exec`: because its process executes another program.
    Name { pid: u32, tid: u32, time: u64, name: Vec<u8>, exec: bool },
    /// A thread was created; its process too, if `pid != parent_pid`.
    Fork { pid: u32, parent_pid: u32, tid: u32, parent_tid: u32, time: u64 },
    /// A thread ended.
    Exit { pid: u32, tid: u32, time: u64 },
    /// A thread left its CPU.
    SwitchOut { tid: u32, time: u64, preempted: bool },
    /// A thread got a CPU.
    SwitchIn { pid: u32, tid: u32, time: u64 },
    /// Records did not fit the ring.
    Lost { count: u64, time: u64 },
    /// The kernel slowed the sampling down.
    Throttled { time: u64 },
}

/// A sample as perf writes it.
#[derive(Debug)]
pub(crate) struct PerfSample {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    pub(crate) time: u64,
    /// IP, SP, BP; `None` for a thread without user registers.
    pub(crate) registers: Option<(u64, u64, u64)>,
    /// Kernel addresses, innermost first.
    pub(crate) kernel: Vec<u64>,
    /// User addresses by frame pointers, innermost first.
    pub(crate) user_chain: Vec<u64>,
    /// Bytes from SP on.
    pub(crate) stack: Vec<u8>,
}

impl PerfRecord {
    /// When it happened: rings of different CPUs are read one after the other, so their records have to be sorted.
    pub(crate) fn time(&self) -> u64 {
        match self {
            PerfRecord::Sample(sample) => sample.time,
            PerfRecord::Map { time, .. }
            | PerfRecord::Name { time, .. }
            | PerfRecord::Fork { time, .. }
            | PerfRecord::Exit { time, .. }
            | PerfRecord::SwitchOut { time, .. }
            | PerfRecord::SwitchIn { time, .. }
            | PerfRecord::Lost { time, .. }
            | PerfRecord::Throttled { time } => *time,
        }
    }
}

/// Knows how the events of a ring write their records.
#[derive(Debug)]
pub(crate) struct PerfParser {
    samples: RecordParseInfo,
    side_band: RecordParseInfo,
}

/// `PERF_RECORD_MISC_SWITCH_OUT` and `..._PREEMPT`.
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Markers in call chains (`enum perf_callchain_context`).
const CONTEXT_KERNEL: u64 = (-128_i64).cast_unsigned();
const CONTEXT_USER: u64 = (-512_i64).cast_unsigned();
const CONTEXT_MAX: u64 = (-4095_i64).cast_unsigned();

impl PerfParser {
    /// For a ring that is shared by these two events.
    pub(crate) fn new(samples: &EventConfig, side_band: &EventConfig) -> Option<Self> {
        Some(Self { samples: parse_info(samples)?, side_band: parse_info(side_band)? })
    }

    /// Parses one record. `None`: of a kind that is not used, or malformed.
    pub(crate) fn parse(&self, record: &Record<'_>) -> Option<PerfRecord> {
        let kind = RecordType(record.kind);
        let info = if kind == RecordType::SAMPLE { self.samples } else { self.side_band };
        let raw = RawEventRecord::new(kind, record.misc, RawData::from(record.body), info);
        let common = raw.common_data().ok();
        let time = common.as_ref().and_then(|common| common.timestamp).unwrap_or(0);
        Some(match raw.parse().ok()? {
            EventRecord::Sample(sample) => PerfRecord::Sample(parse_sample(sample)?),
            EventRecord::Mmap2(map) if map.protection & 4 != 0 => PerfRecord::Map {
                pid: id(map.pid)?,
                time,
                start: map.address,
                len: map.length,
                offset: map.page_offset,
                path: map.path.as_slice().into_owned(),
            },
            EventRecord::Comm(comm) => PerfRecord::Name {
                pid: id(comm.pid)?,
                tid: id(comm.tid)?,
                time,
                name: comm.name.as_slice().into_owned(),
                exec: comm.is_execve,
            },
            EventRecord::Fork(fork) => PerfRecord::Fork {
                pid: id(fork.pid)?,
                parent_pid: id(fork.ppid)?,
                tid: id(fork.tid)?,
                parent_tid: id(fork.ptid)?,
                time: fork.timestamp,
            },
            EventRecord::Exit(exit) => {
                PerfRecord::Exit { pid: id(exit.pid)?, tid: id(exit.tid)?, time: exit.timestamp }
            }
            EventRecord::ContextSwitch(switch) => {
                let common = common?;
                let tid = id(common.tid?)?;
                match switch {
                    ContextSwitchRecord::Out { .. } => PerfRecord::SwitchOut {
                        tid,
                        time,
                        preempted: record.misc & (MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT)
                            == MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT,
                    },
                    ContextSwitchRecord::In { .. } => {
                        PerfRecord::SwitchIn { pid: id(common.pid?)?, tid, time }
                    }
                }
            }
            EventRecord::Lost(lost) => PerfRecord::Lost { count: lost.count, time },
            EventRecord::Throttle(throttle) => PerfRecord::Throttled { time: throttle.timestamp },
            _ => return None,
        })
    }
}

fn parse_info(config: &EventConfig) -> Option<RecordParseInfo> {
    let bytes = config.attr_bytes();
    let (attr, _) = PerfEventAttr::parse::<_, byteorder::NativeEndian>(bytes.as_slice()).ok()?;
    Some(RecordParseInfo::new(&attr, Endianness::NATIVE))
}

fn parse_sample(sample: linux_perf_event_reader::SampleRecord<'_>) -> Option<PerfSample> {
    const BP: u64 = 6;
    const SP: u64 = 7;
    const IP: u64 = 8;
    let (mut kernel, mut user_chain) = (Vec::new(), Vec::new());
    if let Some(chain) = &sample.callchain {
        let mut in_kernel = false;
        for address in (0..chain.len()).filter_map(|index| chain.get(index)) {
            match address {
                CONTEXT_KERNEL => in_kernel = true,
                CONTEXT_USER => in_kernel = false,
                marker if marker >= CONTEXT_MAX => {}
                address if in_kernel => kernel.push(address),
                address => user_chain.push(address),
            }
        }
    }
    let registers =
        sample.user_regs.as_ref().and_then(|regs| Some((regs.get(IP)?, regs.get(SP)?, regs.get(BP)?)));
    let (stack, stack_len) = sample.user_stack.unwrap_or((RawData::empty(), 0));
    Some(PerfSample {
        pid: id(sample.pid?)?,
        tid: id(sample.tid?)?,
        cpu: sample.cpu?,
        time: sample.timestamp?,
        registers,
        kernel,
        user_chain,
        stack: stack.get(0..usize::try_from(stack_len).ok()?.min(stack.len()))?.as_slice().into_owned(),
    })
}

/// Ids of -1 belong to tasks that are already gone.
fn id(number: i32) -> Option<u32> {
    u32::try_from(number).ok()
}
