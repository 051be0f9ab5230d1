//! Off-CPU samples: at regular times, where does each one wait?
//!
//! A wait that has been looked at is not looked at again; it only gains weight. So a server with 5,000 sleeping threads
//! costs as little as one with 5, and one that switches 100,000 times a second costs a bounded number of samples. The
//! target pays nothing: its memory is read from outside, and a sequence number tells whether the thread slept on
//! meanwhile.

use std::io;

use biopsy_model::stack::{StackEnd, StackHandle};
use biopsy_model::timeline::{TimelineEvent, WaitSample};
use biopsy_model::{Avma, MonoNanos, Nanos, Pid, Tid};
use biopsy_stacks::unwind::{StackMemory, UserRegisters};
use rustc_hash::FxHashMap;

use super::frames::{Beside, Frames};
use super::kernel::{ThreadTimes, thread_state};
use super::sink::Sink;

/// New stacks read in one round at most: 1,000 a second at 50 rounds. The rest is chosen next time; those that are
/// looked at stand for the others too.
const STACKS_PER_ROUND: usize = 20;
/// Stack bytes read while the base of the stack is not known.
const UNKNOWN_STACK: u64 = 16 << 10;
/// Deepest part of a stack that is read.
const STACK_MAX: u64 = 256 << 10;
/// A look that goes on is written down this often.
const FLUSH_NANOS: u64 = 10_000_000_000;

/// What the last look at a thread found.
#[derive(Clone, Copy, Debug)]
struct WaitSeen {
    sequence: u64,
    stack: Option<StackHandle>,
    end: StackEnd,
    /// Waiting time not yet written.
    weight: u64,
    last: u64,
    written: u64,
    times: ThreadTimes,
}

/// Whom it has seen waiting where.
#[derive(Debug, Default)]
pub(crate) struct OffCpuSampler {
    by_thread: FxHashMap<u32, WaitSeen>,
    /// Threads that wait somewhere new, this round.
    fresh: Vec<(u32, ThreadTimes)>,
    round: u64,
    last_round: u64,
    memory: Vec<u8>,
    refused: bool,
}

/// Reads a thread's times again, to see whether it still waits where it did.
pub(crate) trait StillWaiting {
    /// The thread's times now.
    fn now(&self, tid: u32) -> Option<ThreadTimes>;
}

impl OffCpuSampler {
    /// Begins a round.
    pub(crate) fn begin(&mut self, now: u64) {
        self.fresh.clear();
        self.round = now.saturating_sub(self.last_round);
        if self.last_round == 0 {
            self.round = 0;
        }
        self.last_round = now;
    }

    /// Notes a thread's state; writes the finished look at it.
    pub(crate) fn note(
        &mut self,
        tid: u32,
        times: &ThreadTimes,
        now: u64,
        sink: &mut Sink,
    ) -> io::Result<()> {
        let waits = times.state == thread_state::WAITING && !times.is_dead();
        if let Some(look) = self.by_thread.get_mut(&tid) {
            if waits && look.sequence == times.sequence {
                look.weight += self.round;
                look.last = now;
                if look.last - look.written >= FLUSH_NANOS {
                    write(tid, look, sink)?;
                }
                return Ok(());
            }
            write(tid, look, sink)?;
            self.by_thread.remove(&tid);
        }
        if waits {
            self.fresh.push((tid, *times));
        }
        Ok(())
    }

    /// More is known of a process now: its threads that wait are looked at again.
    pub(crate) fn look_again(&mut self, pid: u32, sink: &mut Sink) -> io::Result<()> {
        for (tid, look) in self.by_thread.iter_mut().filter(|(_, look)| look.times.tgid == pid) {
            write(*tid, look, sink)?;
        }
        self.by_thread.retain(|_, look| look.times.tgid != pid);
        Ok(())
    }

    /// OffCpuSampler at the threads that wait somewhere new.
    pub(crate) fn look(
        &mut self,
        now: u64,
        source: &impl StillWaiting,
        frames: &mut Frames,
        sink: &mut Sink,
    ) -> io::Result<()> {
        if self.refused || self.fresh.is_empty() {
            return Ok(());
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        // With more candidates than the budget allows, those chosen stand for all: each weighs more.
        let chosen = fresh.len().min(STACKS_PER_ROUND);
        let weight = self.round * fresh.len() as u64 / chosen as u64;
        if fresh.len() > chosen {
            shuffle(&mut fresh, now);
        }
        for (tid, before) in fresh.drain(..).take(chosen) {
            // Between the survey and now it may have moved on: what counts is where it waits at this moment.
            let Some(times) = source.now(tid).filter(|times| times.state == thread_state::WAITING) else {
                continue;
            };
            match self.read_stack(tid, &times, source, frames, sink) {
                Ok(Some((stack, end))) => {
                    let look = WaitSeen {
                        sequence: times.sequence,
                        stack,
                        end,
                        weight,
                        last: now,
                        written: now,
                        times,
                    };
                    self.by_thread.insert(tid, look);
                    sink.progress.wait_stacks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                // It ran meanwhile: a wait too short to be seen.
                Ok(None) => {}
                Err(LookError::Refused(error)) => {
                    self.refused = true;
                    let message = format!(
                        "stacks of waiting threads are not recorded: reading memory of process {} was refused: {error}",
                        before.tgid
                    );
                    let hint = Some("run as root, or grant CAP_SYS_PTRACE".to_owned());
                    sink.warn("trace.wait-stacks-refused", message, hint)?;
                    break;
                }
                Err(LookError::Sink(error)) => return Err(error),
            }
        }
        self.fresh = fresh;
        Ok(())
    }

    fn read_stack(
        &mut self,
        tid: u32,
        times: &ThreadTimes,
        source: &impl StillWaiting,
        frames: &mut Frames,
        sink: &mut Sink,
    ) -> Result<Option<(Option<StackHandle>, StackEnd)>, LookError> {
        let known = frames.stack_base(tid).and_then(|base| base.checked_sub(times.sp));
        let known = known.filter(|&len| len <= STACK_MAX);
        let stack = self.read_part(tid, times, known.unwrap_or(UNKNOWN_STACK), source, frames, sink)?;
        match stack {
            // Threads of .NET have used some more at their root. Once that is known, this is not needed again.
            Some((_, StackEnd::Truncated)) if known.is_none() => {
                let longer = self.read_part(tid, times, STACK_MAX, source, frames, sink)?;
                Ok(longer.or(stack))
            }
            stack => Ok(stack),
        }
    }

    /// Reads so many bytes of the stack and unwinds them; `None`: the thread has run meanwhile.
    fn read_part(
        &mut self,
        tid: u32,
        times: &ThreadTimes,
        len: u64,
        source: &impl StillWaiting,
        frames: &mut Frames,
        sink: &mut Sink,
    ) -> Result<Option<(Option<StackHandle>, StackEnd)>, LookError> {
        self.memory.resize(usize::try_from(len).unwrap_or(0), 0);
        let got = match biopsy_sys::memory::read(Pid(times.tgid), Avma(times.sp), &mut self.memory) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(LookError::Refused(error));
            }
            // Gone, or a stack pointer that points nowhere.
            Err(_) => return Ok(None),
        };
        let language = frames.language_now(times.tgid, tid);
        if source
            .now(tid)
            .is_none_or(|after| (after.sequence, after.sp, after.ip) != (times.sequence, times.sp, times.ip))
        {
            return Ok(None);
        }
        let registers = UserRegisters::new(times.ip, times.sp, times.bp);
        let stack = StackMemory { base: times.sp, bytes: &self.memory[..got] };
        let beside = Beside { kernel: &[], language: language.as_ref() };
        frames.user_stack(times.tgid, tid, &registers, stack, beside, sink).map(Some).map_err(LookError::Sink)
    }

    /// The stack of the wait that had this sequence number, if it was looked at.
    pub(crate) fn stack_of(&self, tid: u32, sequence: u64) -> Option<StackHandle> {
        self.by_thread.get(&tid).filter(|look| look.sequence == sequence)?.stack
    }

    /// The stack of a wait between two moments, if a look fell into it.
    pub(crate) fn stack_within(&self, tid: u32, start: u64, end: u64) -> Option<StackHandle> {
        self.by_thread.get(&tid).filter(|look| (start..=end).contains(&look.last))?.stack
    }

    /// Threads are seen by other means from here on: looks that go on begin anew.
    pub(crate) fn begin_anew(&mut self, sink: &mut Sink) -> io::Result<()> {
        let result = self.finish(sink);
        self.by_thread.clear();
        result
    }

    /// Writes everything that is open.
    pub(crate) fn finish(&mut self, sink: &mut Sink) -> io::Result<()> {
        for (tid, look) in &mut self.by_thread {
            write(*tid, look, sink)?;
        }
        Ok(())
    }

    pub(crate) fn forget(&mut self, tid: u32, sink: &mut Sink) -> io::Result<()> {
        match self.by_thread.remove(&tid) {
            Some(mut look) => write(tid, &mut look, sink),
            None => Ok(()),
        }
    }
}

enum LookError {
    Refused(io::Error),
    Sink(io::Error),
}

fn write(tid: u32, look: &mut WaitSeen, sink: &mut Sink) -> io::Result<()> {
    if look.weight == 0 {
        return Ok(());
    }
    let weight = Nanos(std::mem::take(&mut look.weight));
    look.written = look.last;
    sink.push(&TimelineEvent::WaitSample(WaitSample {
        time: MonoNanos(look.last),
        tid: Tid(tid),
        stack: look.stack,
        end: look.end,
        weight,
        syscall: look.times.syscall_number(),
        state: look.times.wait_state(),
    }))
}

/// Fisher-Yates with a small generator: the choice must not follow the order of the table.
fn shuffle(items: &mut [(u32, ThreadTimes)], seed: u64) {
    let mut state = seed | 1;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (last as u64 + 1)).unwrap_or(0);
        items.swap(last, other);
    }
}
