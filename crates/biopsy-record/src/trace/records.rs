//! What becomes of each record: stacks are unwound, threads and processes noted, and all of it written.

use std::io;

use biopsy_model::loss::LossKind;
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::{Allocation, Release, Sample, TimelineEvent, Wait};
use biopsy_model::{Avma, MonoNanos, Nanos, Pid, Tid};
use biopsy_runtimes::python::RawStack;
use biopsy_stacks::unwind::{StackMemory, UserRegisters};
use rustc_hash::FxHashMap;

use super::allocations::{Allocations, Counted};
use super::frames::{Beside, Frames};
use super::kernel::KernelRecord;
use super::long_waits::LongWaits;
use super::maps::MapsEntry;
use super::off_cpu::OffCpuSampler;
use super::perf_records::{PerfRecord, PerfSample};
use super::sink::Sink;
use super::thread_times::SwitchTimes;

/// What handling a record needs, apart from where the records come from.
pub(super) struct State {
    pub(super) frames: Frames,
    pub(super) sink: Sink,
    pub(super) follow_children: bool,
    pub(super) period: Nanos,
    pub(super) skipped: u64,
    /// Threads whose entries the kernel part may forget.
    pub(super) ended: Vec<u32>,
    /// By CPU: frames of a language that belong to the sample that follows, with its thread.
    pub(super) language: FxHashMap<u32, (u32, RawStack)>,
    /// While switches are watched in turns.
    pub(super) long_waits: Option<LongWaits>,
    pub(super) error: Option<io::Error>,
}

impl State {
    /// Remembers the first failure to write; the loop ends with it.
    pub(super) fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    pub(super) fn push(&mut self, event: &TimelineEvent) {
        let result = self.sink.push(event);
        self.keep(result);
    }

    /// `allocations`: the watch over them, where there is one. `behind`: there is no time to unwind samples.
    pub(super) fn kernel_record(
        &mut self,
        record: &KernelRecord<'_>,
        off_cpu: &OffCpuSampler,
        allocations: Option<&Allocations>,
        behind: bool,
    ) {
        match *record {
            KernelRecord::Language { cpu, tid, ref stack } => {
                self.language.insert(cpu, (tid, stack.clone()));
            }
            KernelRecord::Sample { cpu, tid, tgid, time, ip, sp, bp, kernel, stack, frame_pointers } => {
                let kernel = words(kernel);
                let language =
                    self.language.remove(&cpu).filter(|(of, _)| *of == tid).map(|(_, stack)| stack);
                if !self.frames.processes.contains(tgid) {
                    return;
                }
                let registers = UserRegisters::new(ip, sp, bp);
                let State { frames, sink, .. } = self;
                let result = if behind {
                    self.skipped += 1;
                    frames.kernel_only(tgid, &kernel, StackEnd::Skipped, sink)
                } else if frame_pointers {
                    let chain: Vec<Avma> = words(stack).into_iter().map(Avma).collect();
                    frames.chain(tgid, tid, &chain, &kernel, sink)
                } else {
                    let stack = StackMemory { base: sp, bytes: stack };
                    let beside = Beside { kernel: &kernel, language: language.as_ref() };
                    frames.user_stack(tgid, tid, &registers, stack, beside, sink)
                };
                self.sample(tid, cpu, time, result);
            }
            KernelRecord::Allocation {
                tid,
                tgid,
                time,
                ip,
                sp,
                bp,
                address,
                size,
                stack,
                frame_pointers,
            } => {
                if !self.frames.processes.contains(tgid) {
                    return;
                }
                let State { frames, sink, .. } = self;
                let is_other = |offset| allocations.is_some_and(|all| !all.begins_at(Pid(tgid), offset));
                frames.returned_to(tgid, Avma(ip), is_other);
                let found = if frame_pointers {
                    let chain: Vec<Avma> = words(stack).into_iter().map(Avma).collect();
                    frames.chain(tgid, tid, &chain, &[], sink)
                } else {
                    let (stack, registers) =
                        (StackMemory { base: sp, bytes: stack }, UserRegisters::new(ip, sp, bp));
                    frames.user_stack(tgid, tid, &registers, stack, Beside::default(), sink)
                };
                let weight = allocations.map_or(size, |allocations| allocations.weight(size));
                let (time, pid, tid, address) = (MonoNanos(time), Pid(tgid), Tid(tid), Avma(address));
                let event = found.map(|(stack, end)| {
                    TimelineEvent::Allocation(Allocation {
                        time,
                        pid,
                        tid,
                        stack,
                        end,
                        address,
                        size,
                        weight,
                    })
                });
                match event {
                    Ok(event) => self.push(&event),
                    Err(error) => self.keep(Err(error)),
                }
            }
            KernelRecord::Release { tgid, time, address } => {
                let (time, pid, address) = (MonoNanos(time), Pid(tgid), Avma(address));
                self.push(&TimelineEvent::Release(Release { time, pid, address }));
            }
            KernelRecord::Wait { tid, start, end, wakened, state, syscall, sequence } => {
                // In turns, looks know waits by another sequence than the programs.
                let stack = match &mut self.long_waits {
                    Some(long) => {
                        long.forget(tid);
                        off_cpu.stack_within(tid, start, end)
                    }
                    None => off_cpu.stack_of(tid, sequence),
                };
                self.push(&TimelineEvent::Wait(Wait {
                    tid: Tid(tid),
                    start: MonoNanos(start),
                    end: MonoNanos(end),
                    ready: wakened.map(|wakened| MonoNanos(wakened.at)),
                    waker: wakened.map(|wakened| Tid(wakened.by)),
                    state,
                    syscall,
                    stack,
                }));
            }
        }
    }

    fn sample(
        &mut self,
        tid: u32,
        cpu: u32,
        time: u64,
        stack: io::Result<(Option<biopsy_model::stack::StackHandle>, StackEnd)>,
    ) {
        match stack {
            Ok((stack, end)) => {
                let (time, tid) = (MonoNanos(time), Tid(tid));
                self.push(&TimelineEvent::Sample(Sample { time, tid, cpu, stack, end, weight: self.period }));
            }
            Err(error) => self.keep(Err(error)),
        }
    }

    /// The last moment at which it is known what lies where in a process that has ended, or executed another program.
    pub(super) fn before_the_end(&mut self, record: &PerfRecord, counted: &mut Counted) {
        counted.see(record);
        let is_exec = match *record {
            PerfRecord::Name { pid, exec: true, .. } if counted.is_of(pid) => {
                if !counted.executes_another() {
                    return;
                }
                true
            }
            PerfRecord::Exit { pid, tid, .. }
                if counted.is_of(pid) && self.frames.processes.is_last(pid, tid) =>
            {
                false
            }
            _ => return,
        };
        let result = counted
            .read(true, &mut self.frames, &mut self.sink)
            .and_then(|()| counted.end(is_exec, &mut self.sink));
        self.keep(result);
    }

    pub(super) fn perf_record(
        &mut self,
        record: PerfRecord,
        switches: &mut SwitchTimes,
        off_cpu: &OffCpuSampler,
    ) {
        let State { frames, sink, .. } = self;
        let processes = &mut frames.processes;
        let interner = &mut frames.interner;
        let result = match record {
            PerfRecord::Map { pid, time, start, len, offset, path } if processes.contains(pid) => {
                let entry = MapsEntry::new(start, start.saturating_add(len), offset, &path);
                processes.mapped(pid, &entry, time, interner, sink)
            }
            PerfRecord::Name { pid, tid, time, name, exec } if processes.contains(pid) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                let time = MonoNanos(time);
                if exec {
                    processes.exec(pid);
                    sink.push(&TimelineEvent::Exec { time, pid: Pid(pid), name })
                } else {
                    sink.push(&TimelineEvent::ThreadName { time, tid: Tid(tid), name })
                }
            }
            PerfRecord::Fork { pid, parent_pid, tid, parent_tid, time } if processes.contains(parent_pid) => {
                if pid == parent_pid {
                    processes.thread_started(pid, tid, Some(parent_tid), time, sink)
                } else if self.follow_children {
                    processes
                        .fork(pid, parent_pid, time, sink)
                        .and_then(|()| processes.thread_started(pid, tid, Some(parent_tid), time, sink))
                } else {
                    Ok(())
                }
            }
            PerfRecord::Exit { pid, tid, time } if processes.contains(pid) => {
                self.ended.push(tid);
                processes.thread_ended(pid, tid, time, sink).map(drop)
            }
            PerfRecord::Lost { count, time } => sink.lost(LossKind::SideBand, time, time, count),
            PerfRecord::Throttled { time } => sink.lost(LossKind::Throttled, time, time, 0),
            PerfRecord::SwitchOut { tid, time, preempted } => {
                if let Some(pid) = processes.process_of(tid) {
                    switches.switched_out(tid, pid, time, preempted);
                }
                Ok(())
            }
            PerfRecord::SwitchIn { pid, tid, time } if processes.contains(pid) => {
                self.switched_in(pid, tid, time, switches, off_cpu);
                Ok(())
            }
            PerfRecord::Sample(sample) if processes.contains(sample.pid) => {
                self.perf_sample(&sample);
                Ok(())
            }
            _ => Ok(()),
        };
        self.keep(result);
    }

    fn switched_in(
        &mut self,
        pid: u32,
        tid: u32,
        time: u64,
        switches: &mut SwitchTimes,
        off_cpu: &OffCpuSampler,
    ) {
        let Some(wait) = switches.switched_in(tid, pid, time) else { return };
        self.push(&TimelineEvent::Wait(Wait {
            tid: Tid(tid),
            start: MonoNanos(wait.start),
            end: MonoNanos(wait.end),
            ready: None,
            waker: None,
            state: wait.state,
            syscall: None,
            stack: off_cpu.stack_of(tid, wait.sequence),
        }));
    }

    fn perf_sample(&mut self, sample: &PerfSample) {
        let State { frames, sink, .. } = self;
        let result = match sample.registers {
            Some((ip, sp, bp)) if !sample.stack.is_empty() => {
                let stack = StackMemory { base: sp, bytes: &sample.stack };
                let registers = UserRegisters::new(ip, sp, bp);
                let beside = Beside { kernel: &sample.kernel, language: None };
                frames.user_stack(sample.pid, sample.tid, &registers, stack, beside, sink)
            }
            _ if !sample.user_chain.is_empty() => {
                let chain: Vec<Avma> = sample.user_chain.iter().map(|&address| Avma(address)).collect();
                frames.chain(sample.pid, sample.tid, &chain, &sample.kernel, sink)
            }
            _ => frames.kernel_only(sample.pid, &sample.kernel, StackEnd::KernelOnly, sink),
        };
        self.sample(sample.tid, sample.cpu, sample.time, result);
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("chunks of 8"))).collect()
}
