//! What the scheduler itself keeps of each thread, read when it is wanted: times, counts, state, registers. Nothing runs in between.
//!
//! It says less than the programs at switches (not when a wait began, nor who ended it), and costs the target nothing, however often it switches.

use std::io;

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{MapLookupElem, SeqWrite},
    Op,
    Reg::{R0, R1, R2, R3, R6, R7, R8, R10},
    Width::{W8, W32, W64},
};
use biopsy_sys::bpf::btf::Btf;
use biopsy_sys::bpf::{Program, ProgramKind, TaskIterator};

use super::error::KernelError;
use super::layout::{ThreadTimes, pt_regs, thread_state, word};
use super::maps::{MAYBE_SLOTS, Maps};
use super::switches::TaskLayout;

/// A record, in words.
mod record {
    pub(super) const TID: i16 = 0;
    pub(super) const TGID: i16 = 4;
    pub(super) const STATE: i16 = 8;
    pub(super) const ON_CPU: i16 = 12;
    pub(super) const START: i16 = 16;
    pub(super) const RUNNING: i16 = 24;
    pub(super) const READY: i16 = 32;
    /// How often it has got a CPU.
    pub(super) const ARRIVALS: i16 = 40;
    pub(super) const VOLUNTARY: i16 = 48;
    pub(super) const INVOLUNTARY: i16 = 56;
    pub(super) const SYSCALL: i16 = 64;
    pub(super) const IP: i16 = 72;
    pub(super) const SP: i16 = 80;
    pub(super) const BP: i16 = 88;
    pub(super) const SIZE: i16 = 96;
}

/// On the program's stack.
const RECORD: i16 = -record::SIZE;
const KEY: i16 = RECORD - 8;
const REGISTERS: i16 = KEY - pt_regs::SIZE;

/// The context: what says where output goes, and the thread, none behind the last one.
const CONTEXT_META: i16 = 0;
const CONTEXT_TASK: i16 = 8;

/// Where the scheduler keeps it.
struct Fields {
    exit_state: i16,
    on_cpu: i16,
    start: i16,
    running: i16,
    ready: i16,
    arrivals: i16,
    voluntary: i16,
    involuntary: i16,
}

impl Fields {
    fn find(btf: &Btf) -> Result<Self, KernelError> {
        let at = |name: &'static str, inner: Option<(&str, &'static str)>| {
            let outer = btf.member_offset("task_struct", name).ok_or(KernelError::MissingType(name))?;
            let (inner, name) = match inner {
                Some((of, member)) => (btf.member_offset(of, member), member),
                None => (Some(0), name),
            };
            inner
                .and_then(|inner| i16::try_from(outer.checked_add(inner)?).ok())
                .ok_or(KernelError::MissingType(name))
        };
        Ok(Self {
            exit_state: at("exit_state", None)?,
            on_cpu: at("on_cpu", None)?,
            start: at("start_time", None)?,
            running: at("se", Some(("sched_entity", "sum_exec_runtime")))?,
            ready: at("sched_info", Some(("sched_info", "run_delay")))?,
            arrivals: at("sched_info", Some(("sched_info", "pcount")))?,
            voluntary: at("nvcsw", None)?,
            involuntary: at("nivcsw", None)?,
        })
    }
}

/// Reads them.
#[derive(Debug)]
pub(super) struct Accounts {
    iterator: TaskIterator,
    bytes: Vec<u8>,
}

impl Accounts {
    /// Loads the program. `task`: with the place of the registers.
    pub(super) fn load(maps: &Maps, btf: &Btf, task: TaskLayout) -> Result<Self, KernelError> {
        let btf_id = btf.function("bpf_iter_task").ok_or(KernelError::MissingType("bpf_iter_task"))?;
        let program = program(maps, task, &Fields::find(btf)?);
        let program = Program::load(ProgramKind::TaskIterator { btf_id }, "biopsy_accounts", &program)?;
        let attach = |source| KernelError::Attach { tracepoint: "bpf_iter_task", source };
        let iterator = TaskIterator::new(&program).map_err(attach)?;
        Ok(Self { iterator, bytes: Vec::new() })
    }

    /// All threads of the targets at `now`.
    pub(super) fn read(&mut self, now: u64, mut sink: impl FnMut(u32, ThreadTimes)) -> io::Result<()> {
        self.iterator.read(&mut self.bytes)?;
        for (tid, times) in
            self.bytes.chunks_exact(record::SIZE.unsigned_abs().into()).filter_map(|bytes| parse(bytes, now))
        {
            sink(tid, times);
        }
        Ok(())
    }
}

/// What it says at `now`. All that is not running or ready is waiting.
fn parse(bytes: &[u8], now: u64) -> Option<(u32, ThreadTimes)> {
    const TASK_DEAD: u64 = 0x80;
    let field = |offset: i16| word(bytes, usize::try_from(offset).ok()?);
    let half = |offset: i16| Some(field(offset & !7)? >> (8 * (offset & 7)) & 0xffff_ffff);
    let (running, ready) = (field(record::RUNNING)?, field(record::READY)?);
    let alive = now.saturating_sub(field(record::START)?);
    let out_state = half(record::STATE)?;
    if out_state & TASK_DEAD != 0 {
        return None;
    }
    let state = match (half(record::ON_CPU)?, out_state) {
        (0, 0) => thread_state::READY,
        (0, _) => thread_state::WAITING,
        _ => thread_state::RUNNING,
    };
    let times = ThreadTimes {
        since: now,
        state,
        running,
        ready,
        waiting: alive.saturating_sub(running).saturating_sub(ready),
        sequence: field(record::ARRIVALS)?,
        voluntary: field(record::VOLUNTARY)?,
        involuntary: field(record::INVOLUNTARY)?,
        wakeups: 0,
        out_time: 0,
        out_state,
        syscall: field(record::SYSCALL)? & 0xffff_ffff,
        ip: field(record::IP)?,
        sp: field(record::SP)?,
        bp: field(record::BP)?,
        tgid: u32::try_from(half(record::TGID)?).ok()?,
    };
    Some((u32::try_from(half(record::TID)?).ok()?, times))
}

/// Assembles the program. R6: context, R7: the thread.
fn program(maps: &Maps, task: TaskLayout, fields: &Fields) -> Vec<u64> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.mov(R6, R1);
    asm.load(W64, R7, R6, CONTEXT_TASK);
    asm.jump_if_imm(R7, Cond::Equal, 0, done);
    // Most threads of a machine are of others: a byte of memory says so.
    asm.load(W32, R8, R7, task.tgid);
    asm.mov(R1, R8);
    asm.op_imm(Op::And, R1, MAYBE_SLOTS - 1);
    asm.map_value(R2, maps.maybe.map(), 0);
    asm.op(Op::Add, R2, R1);
    asm.load(W8, R1, R2, 0);
    asm.jump_if_imm(R1, Cond::Equal, 0, done);
    asm.store(W64, R10, KEY, R8);
    asm.map(R1, &maps.targets);
    asm.address(R2, R10, KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    // One that has ended, and of which nobody has taken notice yet, has no stack any more.
    asm.load(W32, R1, R7, fields.exit_state);
    asm.jump_if_imm(R1, Cond::NotEqual, 0, done);

    asm.store(W32, R10, RECORD + record::TGID, R8);
    for (width, from, to) in [
        (W32, task.pid, record::TID),
        (W32, task.state, record::STATE),
        (W32, fields.on_cpu, record::ON_CPU),
        (W64, fields.start, record::START),
        (W64, fields.running, record::RUNNING),
        (W64, fields.ready, record::READY),
        (W64, fields.arrivals, record::ARRIVALS),
        (W64, fields.voluntary, record::VOLUNTARY),
        (W64, fields.involuntary, record::INVOLUNTARY),
    ] {
        asm.load(width, R1, R7, from);
        asm.store(width, R10, RECORD + to, R1);
    }
    task.user_registers.find(&mut asm, REGISTERS, Some(R7));
    for (from, to) in [
        (pt_regs::ORIG_AX, record::SYSCALL),
        (pt_regs::IP, record::IP),
        (pt_regs::SP, record::SP),
        (pt_regs::BP, record::BP),
    ] {
        asm.load(W64, R1, R0, from);
        asm.store(W64, R10, RECORD + to, R1);
    }

    asm.load(W64, R1, R6, CONTEXT_META);
    asm.load(W64, R1, R1, 0);
    asm.address(R2, R10, RECORD);
    asm.mov_imm(R3, record::SIZE.into());
    asm.call(SeqWrite);
    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}
