//! Events of one timeline in another one: their handles are moved behind those that are there.

use biopsy_model::MonoNanos;
use biopsy_model::module::ModuleHandle;
use biopsy_model::stack::{FrameHandle, StackHandle};
use biopsy_model::timeline::TimelineEvent;

use super::assemble::time_of;

/// How many modules, frames and stacks the other one has already.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Shift {
    /// Modules.
    pub modules: u32,
    /// Frames.
    pub frames: u32,
    /// Stacks.
    pub stacks: u32,
}

impl Shift {
    /// Moves the handles of an event. A frame that was lost stays lost.
    pub fn event(self, event: &mut TimelineEvent) {
        let stack = |stack: &mut Option<StackHandle>| {
            *stack = stack.map(|stack| StackHandle(stack.0.saturating_add(self.stacks)));
        };
        let frame = |frame: &mut FrameHandle| frame.0 = frame.0.saturating_add(self.frames);
        match event {
            TimelineEvent::Frame(of) => {
                of.module = of.module.map(|module| ModuleHandle(module.0.saturating_add(self.modules)));
            }
            TimelineEvent::Stack(node) => {
                stack(&mut node.caller);
                frame(&mut node.frame);
            }
            TimelineEvent::Symbols(symbols) => frame(&mut symbols.frame),
            TimelineEvent::Sample(sample) => stack(&mut sample.stack),
            TimelineEvent::Wait(wait) => stack(&mut wait.stack),
            TimelineEvent::WaitSample(look) => stack(&mut look.stack),
            TimelineEvent::Allocation(allocation) => stack(&mut allocation.stack),
            TimelineEvent::AllocationCount(count) => stack(&mut count.stack),
            TimelineEvent::Module(_)
            | TimelineEvent::States(_)
            | TimelineEvent::Release(_)
            | TimelineEvent::AllocationWatch(_)
            | TimelineEvent::Settings(_)
            | TimelineEvent::ThreadStart { .. }
            | TimelineEvent::ThreadName { .. }
            | TimelineEvent::ThreadExit { .. }
            | TimelineEvent::ProcessStart { .. }
            | TimelineEvent::Exec { .. }
            | TimelineEvent::ProcessExit { .. }
            | TimelineEvent::Loss(_)
            | TimelineEvent::Mark { .. }
            | TimelineEvent::Warning(_) => {}
        }
    }

    /// Counts a definition, so that what comes next is moved behind it.
    pub fn count(&mut self, event: &TimelineEvent) {
        match event {
            TimelineEvent::Module(_) => self.modules = self.modules.saturating_add(1),
            TimelineEvent::Frame(_) => self.frames = self.frames.saturating_add(1),
            TimelineEvent::Stack(_) => self.stacks = self.stacks.saturating_add(1),
            _ => {}
        }
    }
}

/// What kind of event it is for those who keep a part of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Others refer to it, or it is about all of them.
    Definition,
    /// When a thread or process was there.
    Life,
    /// It happened at this moment; what lasted, when it ended.
    Moment(MonoNanos),
}

/// Which part an event belongs to.
pub(super) fn part_of(event: &TimelineEvent) -> Part {
    match event {
        TimelineEvent::Module(_)
        | TimelineEvent::Frame(_)
        | TimelineEvent::Stack(_)
        | TimelineEvent::Symbols(_)
        | TimelineEvent::Settings(_)
        | TimelineEvent::Warning(_) => Part::Definition,
        TimelineEvent::ThreadStart { .. }
        | TimelineEvent::ThreadName { .. }
        | TimelineEvent::ThreadExit { .. }
        | TimelineEvent::ProcessStart { .. }
        | TimelineEvent::Exec { .. }
        | TimelineEvent::ProcessExit { .. } => Part::Life,
        TimelineEvent::Sample(_)
        | TimelineEvent::Wait(_)
        | TimelineEvent::WaitSample(_)
        | TimelineEvent::States(_)
        | TimelineEvent::Allocation(_)
        | TimelineEvent::Release(_)
        | TimelineEvent::AllocationCount(_)
        | TimelineEvent::AllocationWatch(_)
        | TimelineEvent::Loss(_)
        | TimelineEvent::Mark { .. } => Part::Moment(time_of(event).map_or(MonoNanos(0), |(_, last)| last)),
    }
}
