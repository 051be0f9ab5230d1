//! Events to the timeline in memory: checks handles, joins thread lives, sorts.

use std::collections::HashMap;

use biopsy_model::loss::Warning;
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackHandle};
use biopsy_model::timeline::{ThreadLife, Timeline, TimelineEvent};
use biopsy_model::{LookupAddress, MonoNanos, Pid, Tid};

use super::chunk::LOST_FRAME;
use crate::warn::{plural, warning};

/// Builds a [`Timeline`] of events in file order.
#[derive(Default, Debug)]
pub(super) struct Assembler {
    timeline: Timeline,
    warnings: Vec<Warning>,
    /// Index in `timeline.threads` of the last life of a tid.
    lives: HashMap<Tid, usize>,
    /// Stacks whose frame is not there: they get an unknown one at the end.
    without_frame: Vec<usize>,
    bad_handles: u64,
}

impl Assembler {
    pub(super) fn push(&mut self, event: TimelineEvent) {
        self.span(&event);
        match event {
            TimelineEvent::Module(module) => self.timeline.modules.push(module),
            TimelineEvent::Frame(frame) => self.frame(frame),
            TimelineEvent::Stack(node) => {
                let own = self.timeline.stacks.len();
                let mut node = node;
                if node.caller.is_some_and(|caller| caller.0 as usize >= own) {
                    node.caller = None;
                    self.bad_handles += 1;
                }
                if node.frame.0 as usize >= self.timeline.frames.len() {
                    self.bad_handles += u64::from(node.frame != LOST_FRAME);
                    self.without_frame.push(own);
                }
                self.timeline.stacks.push(node);
            }
            TimelineEvent::Symbols(symbols) => {
                match self.timeline.symbols.get_mut(symbols.frame.0 as usize) {
                    Some(slot) if !symbols.functions.is_empty() => *slot = Some(symbols),
                    Some(_) => {}
                    None => self.bad_handles += 1,
                }
            }
            TimelineEvent::Settings(settings) => self.timeline.settings = settings,
            TimelineEvent::ThreadStart { time, thread, born, by } => {
                self.thread_start(time, thread, born, by)
            }
            TimelineEvent::ThreadName { time, tid, name } => {
                let index = self.life(tid, Pid(0), time);
                if let Some(life) = self.timeline.threads.get_mut(index) {
                    life.info.name = name;
                }
            }
            TimelineEvent::ThreadExit { time, tid, pid } => {
                let index = self.life(tid, pid, time);
                if let Some(life) = self.timeline.threads.get_mut(index) {
                    life.exit = Some(time);
                }
            }
            TimelineEvent::Exec { pid, ref name, .. } => {
                // The thread that is left has the name of its program from then on.
                let life =
                    self.lives.get(&Tid(pid.0)).and_then(|&index| self.timeline.threads.get_mut(index));
                if let Some(life) = life {
                    life.info.name.clone_from(name);
                }
                self.timeline.process_events.push(event);
            }
            TimelineEvent::ProcessStart { .. } | TimelineEvent::ProcessExit { .. } => {
                self.timeline.process_events.push(event);
            }
            TimelineEvent::Sample(mut sample) => {
                sample.stack = self.checked(sample.stack);
                self.timeline.samples.push(sample);
            }
            TimelineEvent::Wait(mut wait) => {
                wait.stack = self.checked(wait.stack);
                self.timeline.waits.push(wait);
            }
            TimelineEvent::WaitSample(mut look) => {
                look.stack = self.checked(look.stack);
                self.timeline.wait_samples.push(look);
            }
            TimelineEvent::States(slice) => self.timeline.states.push(slice),
            TimelineEvent::Allocation(mut allocation) => {
                allocation.stack = self.checked(allocation.stack);
                self.timeline.allocations.push(allocation);
            }
            TimelineEvent::Release(release) => self.timeline.releases.push(release),
            TimelineEvent::AllocationWatch(watch) => self.timeline.allocation_watches.push(watch),
            TimelineEvent::AllocationCount(mut count) => {
                let said = count.stack;
                count.stack = self.checked(said);
                // Without its stack it would stand for the whole process.
                if count.stack == said {
                    self.timeline.allocation_counts.push(count);
                }
            }
            TimelineEvent::Loss(loss) => self.timeline.losses.push(loss),
            TimelineEvent::Mark { time, label } => self.timeline.marks.push((time, label)),
            TimelineEvent::Warning(warning) => self.warnings.push(warning),
        }
    }

    pub(super) fn finish(mut self) -> (Timeline, Vec<Warning>) {
        let timeline = &mut self.timeline;
        if !self.without_frame.is_empty() {
            // One frame at an unknown place stands for all that are not there.
            let unknown = FrameHandle(u32::try_from(timeline.frames.len()).unwrap_or(u32::MAX));
            timeline.frames.push(Frame { space: FrameSpace::User, module: None, address: LookupAddress(0) });
            timeline.symbols.push(None);
            for &index in &self.without_frame {
                if let Some(node) = timeline.stacks.get_mut(index) {
                    node.frame = unknown;
                }
            }
        }
        if self.bad_handles > 0 {
            self.warnings.push(warning(
                "recording.bad-handles",
                format!(
                    "{} of the timeline to things that are not in it, left out",
                    plural(self.bad_handles, "reference")
                ),
                None,
            ));
        }
        // Stable sorts: what happened at the same time keeps the order it was written in. The recorder writes
        // nearly in order, which these sorts are fast for.
        timeline.samples.sort_by_key(|sample| sample.time);
        timeline.waits.sort_by_key(|wait| wait.end);
        timeline.wait_samples.sort_by_key(|look| look.time);
        timeline.states.sort_by_key(|slice| (slice.from, slice.to));
        timeline.allocations.sort_by_key(|allocation| allocation.time);
        timeline.releases.sort_by_key(|release| release.time);
        timeline.allocation_watches.sort_by_key(|watch| watch.from);
        timeline.allocation_counts.sort_by_key(|count| count.time);
        timeline.threads.sort_by_key(|life| life.start);
        timeline.losses.sort_by_key(|loss| loss.from);
        timeline.marks.sort_by_key(|mark| mark.0);
        timeline.process_events.sort_by_key(|event| time_of(event).map(|(_, last)| last));
        (self.timeline, self.warnings)
    }

    fn frame(&mut self, mut frame: Frame) {
        if frame.module.is_some_and(|module| module.0 as usize >= self.timeline.modules.len()) {
            frame.module = None;
            self.bad_handles += 1;
        }
        self.timeline.frames.push(frame);
        self.timeline.symbols.push(None);
    }

    fn checked(&mut self, stack: Option<StackHandle>) -> Option<StackHandle> {
        let there = stack.filter(|stack| (stack.0 as usize) < self.timeline.stacks.len());
        self.bad_handles += u64::from(there != stack);
        there
    }

    fn thread_start(&mut self, time: MonoNanos, info: ThreadInfo, born: bool, by: Option<Tid>) {
        if let Some(life) = self.lives.get(&info.tid).and_then(|&index| self.timeline.threads.get_mut(index))
        {
            // The same thread seen twice (in the list at the start, and by its own events) is one life. After an
            // exit, or when it is born later than it was seen, the tid was used again.
            if life.exit.is_none() && (!born || time <= life.start) {
                life.info = info;
                if born {
                    (life.born, life.by, life.start) = (true, by, time);
                }
                return;
            }
        }
        self.lives.insert(info.tid, self.timeline.threads.len());
        self.timeline.threads.push(ThreadLife { info, start: time, born, by, exit: None });
    }

    /// The present life of a tid; one that was never introduced begins here.
    fn life(&mut self, tid: Tid, pid: Pid, time: MonoNanos) -> usize {
        let known = self.lives.get(&tid).copied();
        known.unwrap_or_else(|| {
            let info = ThreadInfo { tid, pid, name: String::new() };
            self.thread_start(time, info, false, None);
            self.timeline.threads.len() - 1
        })
    }

    fn span(&mut self, event: &TimelineEvent) {
        let Some((first, last)) = time_of(event) else { return };
        self.timeline.span = Some(match self.timeline.span {
            None => (first, last),
            Some((from, to)) => (from.min(first), to.max(last)),
        });
    }
}

/// First and last time of an event. Times of zero stand for "not known" in some recorders' records; nothing that
/// is recorded happened in the first nanosecond of a machine.
pub(super) fn time_of(event: &TimelineEvent) -> Option<(MonoNanos, MonoNanos)> {
    let (first, last) = match event {
        TimelineEvent::Sample(sample) => (sample.time, sample.time),
        TimelineEvent::Wait(wait) => (wait.start, wait.end),
        TimelineEvent::WaitSample(look) => (look.time, look.time),
        TimelineEvent::States(slice) => (slice.from, slice.to),
        TimelineEvent::Allocation(allocation) => (allocation.time, allocation.time),
        TimelineEvent::Release(release) => (release.time, release.time),
        TimelineEvent::AllocationWatch(watch) => (watch.from, watch.to),
        TimelineEvent::AllocationCount(count) => (count.time, count.time),
        TimelineEvent::Loss(loss) => (loss.from, loss.to),
        TimelineEvent::ThreadStart { time, .. }
        | TimelineEvent::ThreadName { time, .. }
        | TimelineEvent::ThreadExit { time, .. }
        | TimelineEvent::ProcessStart { time, .. }
        | TimelineEvent::Exec { time, .. }
        | TimelineEvent::ProcessExit { time, .. }
        | TimelineEvent::Mark { time, .. } => (*time, *time),
        TimelineEvent::Module(_)
        | TimelineEvent::Frame(_)
        | TimelineEvent::Stack(_)
        | TimelineEvent::Symbols(_)
        | TimelineEvent::Settings(_)
        | TimelineEvent::Warning(_) => return None,
    };
    let first = if first.0 == 0 { last } else { first };
    (last.0 != 0).then_some((first.min(last), first.max(last)))
}
