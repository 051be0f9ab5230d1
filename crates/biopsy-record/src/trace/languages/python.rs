//! The Python of one process: its calls by name, and the frames of threads that sleep.

use std::io;
use std::sync::Arc;

use biopsy_model::Tid;
use biopsy_model::stack::Frame;
use biopsy_runtimes::Limits;
use biopsy_runtimes::python::{Call, RawStack, SampledPython};
use rustc_hash::FxHashMap;

use super::super::processes::task_ids;
use super::mix::{Piece, Unmixed, mix};
use super::named::{Memory, Named, Timeline};

/// A code object is asked so often whether it is still the same: the memory of one that is gone is used again.
const CHECK_AFTER: u64 = 1_000_000_000;
/// Threads that are not known are looked for so often.
const THREADS_AFTER: u64 = 100_000_000;
/// Code objects that are kept.
const KEPT: usize = 1 << 16;
/// Frames of a thread that sleeps: as many as the sampling program sends.
const MOST: usize = 256;
/// In place of callers that were left out.
const LEFT_OUT: &str = "(more calls, left out)";
/// In place of a call whose code object could not be read.
const NOT_READ: &str = "(function not read)";

/// A code object that was met.
#[derive(Debug, Default)]
struct Code {
    mark: Option<[u64; 3]>,
    checked: u64,
    /// By instruction.
    calls: FxHashMap<i64, Frame>,
}

/// An interpreter that is sampled.
#[derive(Debug)]
pub(crate) struct Python {
    pid: u32,
    python: Arc<SampledPython>,
    memory: Memory,
    codes: FxHashMap<u64, Code>,
    named: Named,
    threads: FxHashMap<u32, u64>,
    threads_read: u64,
    limits: Limits,
}

impl Python {
    pub(crate) fn new(pid: u32, python: Arc<SampledPython>) -> Self {
        Self {
            pid,
            python,
            memory: Memory::new(pid),
            codes: FxHashMap::default(),
            named: Named::new(pid, "[python]"),
            threads: FxHashMap::default(),
            threads_read: 0,
            limits: Limits::default(),
        }
    }

    /// The same in a process that began as a copy of this one.
    pub(crate) fn of_child(&self, pid: u32) -> Self {
        Self::new(pid, Arc::clone(&self.python))
    }

    pub(crate) fn python(&self) -> &SampledPython {
        &self.python
    }

    /// The frames of a thread that sleeps: the caller makes sure that it sleeps on meanwhile.
    pub(super) fn stack_now(&mut self, tid: u32, now: u64) -> Option<RawStack> {
        if !self.threads.contains_key(&tid) {
            if now < self.threads_read + THREADS_AFTER {
                return None;
            }
            self.read_threads(now);
        }
        let state = *self.threads.get(&tid)?;
        let stack = self.python.stack_of(self.memory.image(now)?, state, MOST);
        (!stack.frames.is_empty()).then_some(stack)
    }

    /// A thread has ended.
    pub(super) fn forget_thread(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    fn read_threads(&mut self, now: u64) {
        self.threads_read = now;
        let tids = task_ids(self.pid).unwrap_or_default();
        let numbers = inner_numbers(self.pid, &tids);
        let Some(image) = self.memory.image(now) else { return };
        let found = self.python.threads(image, &self.limits, &|own| numbers.get(&own).copied().map(Tid));
        self.threads = found.into_iter().map(|(tid, state)| (tid.0, state)).collect();
    }

    /// Appends native frames and calls, innermost first.
    pub(super) fn mixed(
        &mut self,
        stack: Unmixed<'_>,
        raw: &RawStack,
        now: u64,
        timeline: &mut Timeline<'_>,
        frames: &mut Vec<Frame>,
    ) -> io::Result<()> {
        let Unmixed { walked, end, word, .. } = stack;
        let runs = self.python.runs(raw, word);
        let evaluates = self.python.evaluates.clone();
        let last = runs.len().checked_sub(1).filter(|_| raw.cut);
        for piece in mix(walked, end, &runs, |frame| evaluates.contains(&frame.lookup.0)) {
            match piece {
                Piece::Native(number) => {
                    let native = walked.get(number);
                    frames.extend(native.map(|frame| timeline.processes.user_frame(self.pid, frame.lookup)));
                }
                Piece::Run(number) => {
                    for call in runs.get(number).map_or(&[][..], |run| &run.calls) {
                        frames.push(self.frame(*call, now, timeline)?);
                    }
                    if last == Some(number) {
                        frames.push(self.named.words(LEFT_OUT, timeline)?);
                    }
                }
            }
        }
        Ok(())
    }

    fn frame(&mut self, call: Call, now: u64, timeline: &mut Timeline<'_>) -> io::Result<Frame> {
        self.check(call.code, now);
        let known = self.codes.get(&call.code).and_then(|code| code.calls.get(&call.offset));
        if let Some(known) = known {
            return Ok(*known);
        }
        let read = self.memory.image(now).and_then(|image| self.python.function(image, &self.limits, call));
        let frame = match read {
            Some(call) => self.named.frame(&call, timeline)?,
            None => self.named.words(NOT_READ, timeline)?,
        };
        if let Some(code) = self.codes.get_mut(&call.code) {
            code.calls.insert(call.offset, frame);
        }
        Ok(frame)
    }

    /// Forgets what is known of a code object where another one is by now.
    fn check(&mut self, code: u64, now: u64) {
        if self.codes.get(&code).is_some_and(|known| now < known.checked + CHECK_AFTER) {
            return;
        }
        let mark = self.memory.image(now).and_then(|image| self.python.mark_of(image, code));
        if self.codes.len() >= KEPT {
            self.codes.clear();
        }
        let known = self.codes.entry(code).or_default();
        known.checked = now;
        // What cannot be read any more was right as long as it could be.
        if mark.is_some() && known.mark != mark {
            known.mark = mark;
            known.calls.clear();
        }
    }
}

/// Threads by the numbers that they have for themselves: others where the process is in a pid namespace of its own
/// (`NSpid` in proc_pid_status(5)).
fn inner_numbers(pid: u32, tids: &[u32]) -> FxHashMap<u32, u32> {
    let inner = |tid: u32| -> Option<u32> {
        let status = biopsy_files::read_kernels(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let same = inner(pid).is_none_or(|own| own == pid);
    tids.iter().filter_map(|tid| Some((if same { *tid } else { inner(*tid)? }, *tid))).collect()
}
