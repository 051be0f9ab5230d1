//! Events to bytes.

use biopsy_bytes::{put_varint, put_zigzag};
use biopsy_model::Tid;
use biopsy_model::loss::{Loss, Warning};
use biopsy_model::module::Module;
use biopsy_model::symbol::FrameSymbols;
use biopsy_model::timeline::{
    Allocation, AllocationCount, AllocationWatch, Sample, StateSlice, TimelineEvent, TraceSettings, Wait,
    WaitSample,
};

use super::chunk::Definitions;
use super::context::Context;
use super::tags::{self, LENGTH_ESCAPE, MAX_FUNCTIONS, MAX_SYMBOL_TEXT, MAX_TEXT, TAG_ESCAPE, TAG_SHIFT};

/// Collects the events of one chunk. Its buffers are reused from chunk to chunk.
#[derive(Default, Debug)]
pub(super) struct Encoder {
    /// The chunk so far.
    pub(super) raw: Vec<u8>,
    /// Events in it.
    pub(super) events: u32,
    /// Definitions in the whole timeline so far.
    defined: Definitions,
    /// The same before the chunk began.
    pub(super) defined_before: Definitions,
    context: Context,
    body: Vec<u8>,
}

impl Encoder {
    /// Begins the next chunk.
    pub(super) fn clear(&mut self) {
        self.raw.clear();
        self.events = 0;
        self.defined_before = self.defined;
        self.context.clear();
    }

    /// Appends one event.
    pub(super) fn push(&mut self, event: &TimelineEvent) {
        self.body.clear();
        let tag = match event {
            TimelineEvent::Sample(sample) => self.sample(sample),
            TimelineEvent::Wait(wait) => self.wait(wait),
            TimelineEvent::WaitSample(look) => self.wait_sample(look),
            TimelineEvent::States(slice) => self.states(slice),
            TimelineEvent::Allocation(allocation) => self.allocation(allocation),
            TimelineEvent::Release(release) => {
                put_varint(&mut self.body, release.time.0);
                put_varint(&mut self.body, release.pid.0.into());
                put_varint(&mut self.body, release.address.0);
                tags::RELEASE
            }
            TimelineEvent::AllocationWatch(watch) => self.allocation_watch(watch),
            TimelineEvent::AllocationCount(count) => self.allocation_count(count),
            TimelineEvent::Frame(frame) => {
                self.defined.frames = self.defined.frames.saturating_add(1);
                self.body.push(tags::encode_space(frame.space));
                self.optional(frame.module.map(|module| module.0.into()));
                put_varint(&mut self.body, frame.address.0);
                tags::FRAME
            }
            TimelineEvent::Stack(node) => {
                // The caller is usually among the last defined: a distance is shorter than the handle.
                let caller = node.caller.map(|caller| u64::from(self.defined.stacks.wrapping_sub(caller.0)));
                self.defined.stacks = self.defined.stacks.saturating_add(1);
                self.optional(caller);
                put_varint(&mut self.body, node.frame.0.into());
                tags::STACK
            }
            TimelineEvent::Module(module) => self.module(module),
            TimelineEvent::Symbols(symbols) => self.symbols(symbols),
            TimelineEvent::Settings(settings) => self.settings(settings),
            TimelineEvent::ThreadStart { time, thread, born, by } => {
                self.time(time.0);
                put_varint(&mut self.body, thread.tid.0.into());
                put_varint(&mut self.body, thread.pid.0.into());
                self.body.push(u8::from(*born));
                self.optional(by.map(|tid| tid.0.into()));
                self.text(&thread.name, MAX_TEXT);
                tags::THREAD_START
            }
            TimelineEvent::ThreadName { time, tid, name } => {
                self.time(time.0);
                put_varint(&mut self.body, tid.0.into());
                self.text(name, MAX_TEXT);
                tags::THREAD_NAME
            }
            TimelineEvent::ThreadExit { time, tid, pid } => {
                self.time(time.0);
                put_varint(&mut self.body, tid.0.into());
                put_varint(&mut self.body, pid.0.into());
                tags::THREAD_EXIT
            }
            TimelineEvent::ProcessStart { time, pid, parent } => {
                self.time(time.0);
                put_varint(&mut self.body, pid.0.into());
                put_varint(&mut self.body, parent.0.into());
                tags::PROCESS_START
            }
            TimelineEvent::Exec { time, pid, name } => {
                self.time(time.0);
                put_varint(&mut self.body, pid.0.into());
                self.text(name, MAX_TEXT);
                tags::EXEC
            }
            TimelineEvent::ProcessExit { time, pid } => {
                self.time(time.0);
                put_varint(&mut self.body, pid.0.into());
                tags::PROCESS_EXIT
            }
            TimelineEvent::Loss(loss) => self.loss(loss),
            TimelineEvent::Mark { time, label } => {
                self.time(time.0);
                self.text(label, MAX_TEXT);
                tags::MARK
            }
            TimelineEvent::Warning(warning) => self.warning(warning),
        };
        self.append(tag);
        self.events = self.events.saturating_add(1);
    }

    /// Appends tag, length and body.
    fn append(&mut self, tag: u64) {
        put_event_start(&mut self.raw, tag, self.body.len() as u64);
        self.raw.extend_from_slice(&self.body);
    }

    fn sample(&mut self, sample: &Sample) -> u64 {
        self.time(sample.time.0);
        let new_weight = sample.weight.0 != self.context.sample_weight;
        let flags =
            u64::from(sample.cpu) << 4 | u64::from(tags::encode_end(sample.end)) << 1 | u64::from(new_weight);
        put_varint(&mut self.body, flags);
        self.thread(sample.tid);
        self.optional(sample.stack.map(|stack| stack.0.into()));
        if new_weight {
            put_varint(&mut self.body, sample.weight.0);
            self.context.sample_weight = sample.weight.0;
        }
        tags::SAMPLE
    }

    fn wait(&mut self, wait: &Wait) -> u64 {
        self.time(wait.end.0);
        let waker = match wait.waker {
            None => 0,
            Some(Tid(0)) => 1,
            Some(_) => 2,
        };
        self.body.push(
            tags::encode_state(wait.state)
                | u8::from(wait.ready.is_some()) << 3
                | waker << 4
                | u8::from(wait.syscall.is_some()) << 6
                | u8::from(wait.stack.is_some()) << 7,
        );
        let number = self.thread(wait.tid);
        put_varint(&mut self.body, wait.end.0.wrapping_sub(wait.start.0));
        if let Some(ready) = wait.ready {
            put_varint(&mut self.body, wait.end.0.wrapping_sub(ready.0));
        }
        if let Some(tid) = wait.waker.filter(|tid| tid.0 != 0) {
            self.thread(tid);
        }
        if let Some(thread) = self.context.thread(number) {
            if let Some(syscall) = wait.syscall {
                put_varint(&mut self.body, (syscall ^ thread.syscall).into());
                thread.syscall = syscall;
            }
            if let Some(stack) = wait.stack {
                put_varint(&mut self.body, (stack.0 ^ thread.stack).into());
                thread.stack = stack.0;
            }
        }
        tags::WAIT
    }

    fn wait_sample(&mut self, look: &WaitSample) -> u64 {
        self.time(look.time.0);
        let new_weight = look.weight.0 != self.context.look_weight;
        self.body.push(
            tags::encode_state(look.state)
                | tags::encode_end(look.end) << 3
                | u8::from(look.syscall.is_some()) << 6
                | u8::from(new_weight) << 7,
        );
        self.thread(look.tid);
        self.optional(look.stack.map(|stack| stack.0.into()));
        if let Some(syscall) = look.syscall {
            put_varint(&mut self.body, syscall.into());
        }
        if new_weight {
            put_varint(&mut self.body, look.weight.0);
            self.context.look_weight = look.weight.0;
        }
        tags::WAIT_SAMPLE
    }

    fn states(&mut self, slice: &StateSlice) -> u64 {
        self.time(slice.to.0);
        self.thread(slice.tid);
        let length = slice.to.0.wrapping_sub(slice.from.0);
        put_varint(&mut self.body, length);
        put_varint(&mut self.body, slice.running.0);
        put_varint(&mut self.body, slice.ready.0);
        // The three parts nearly add up to the length, so the last is stored as what is missing.
        let missing = length.wrapping_sub(slice.running.0).wrapping_sub(slice.ready.0);
        put_zigzag(&mut self.body, missing.wrapping_sub(slice.waiting.0).cast_signed());
        put_varint(&mut self.body, slice.voluntary.into());
        put_varint(&mut self.body, slice.involuntary.into());
        put_varint(&mut self.body, slice.wakeups.into());
        tags::STATES
    }

    /// Times of these are whole: readers before them skip them, and must find the distances of the others as they were.
    fn allocation(&mut self, allocation: &Allocation) -> u64 {
        put_varint(&mut self.body, allocation.time.0);
        put_varint(&mut self.body, allocation.pid.0.into());
        put_varint(&mut self.body, allocation.tid.0.into());
        self.body.push(tags::encode_end(allocation.end));
        self.optional(allocation.stack.map(|stack| stack.0.into()));
        put_varint(&mut self.body, allocation.address.0);
        put_varint(&mut self.body, allocation.size);
        put_varint(&mut self.body, allocation.weight);
        tags::ALLOCATION
    }

    fn allocation_watch(&mut self, watch: &AllocationWatch) -> u64 {
        put_varint(&mut self.body, watch.to.0);
        put_varint(&mut self.body, watch.to.0.wrapping_sub(watch.from.0));
        put_varint(&mut self.body, watch.released_to.0.wrapping_sub(watch.to.0));
        put_varint(&mut self.body, watch.calls);
        put_varint(&mut self.body, watch.bytes);
        put_varint(&mut self.body, watch.interval);
        tags::ALLOCATION_WATCH
    }

    fn allocation_count(&mut self, count: &AllocationCount) -> u64 {
        put_varint(&mut self.body, count.time.0);
        put_varint(&mut self.body, count.pid.0.into());
        self.optional(count.stack.map(|stack| stack.0.into()));
        put_varint(&mut self.body, count.calls);
        put_varint(&mut self.body, count.bytes);
        put_varint(&mut self.body, count.released);
        put_varint(&mut self.body, count.released_bytes);
        put_varint(&mut self.body, count.temporary);
        put_varint(&mut self.body, count.peak);
        tags::ALLOCATION_COUNT
    }

    fn module(&mut self, module: &Module) -> u64 {
        self.defined.modules = self.defined.modules.saturating_add(1);
        self.time(module.since.0);
        put_varint(&mut self.body, module.pid.0.into());
        self.body.push(tags::encode_module_kind(module.kind));
        self.body.push(u8::from(module.deleted) | u8::from(module.build_id.is_some()) << 1);
        put_varint(&mut self.body, module.start.0);
        put_varint(&mut self.body, module.end.0.wrapping_sub(module.start.0));
        put_varint(&mut self.body, module.offset.0);
        self.text(&module.path, MAX_TEXT);
        if let Some(build_id) = &module.build_id {
            self.bytes(build_id, MAX_TEXT);
        }
        tags::MODULE
    }

    fn symbols(&mut self, symbols: &FrameSymbols) -> u64 {
        put_varint(&mut self.body, symbols.frame.0.into());
        self.body.push(tags::encode_source(symbols.source));
        // Of too many inlined functions the innermost are kept, and the last, which is the real one.
        let kept = symbols.functions.len().min(MAX_FUNCTIONS);
        put_varint(&mut self.body, kept as u64);
        let head = symbols.functions.iter().take(kept.saturating_sub(1));
        for function in head.chain(symbols.functions.last()) {
            self.text(&function.name, MAX_SYMBOL_TEXT);
            self.body.push(u8::from(function.file.is_some()));
            if let Some(file) = &function.file {
                self.text(file, MAX_SYMBOL_TEXT);
            }
            self.optional(function.line.map(u64::from));
        }
        tags::SYMBOLS
    }

    fn settings(&mut self, settings: &TraceSettings) -> u64 {
        put_varint(&mut self.body, settings.frequency_hz.into());
        put_varint(&mut self.body, settings.wait_threshold.0);
        put_varint(&mut self.body, settings.wait_sample_period.0);
        let flags = u64::from(settings.has_states)
            | u64::from(settings.has_wakeups) << 1
            | u64::from(settings.has_kernel_stacks) << 2
            | u64::from(settings.follows_children) << 3;
        put_varint(&mut self.body, flags);
        self.text(settings.sampling_event.as_str(), MAX_TEXT);
        self.text(settings.method.as_str(), MAX_TEXT);
        tags::SETTINGS
    }

    fn loss(&mut self, loss: &Loss) -> u64 {
        self.time(loss.to.0);
        self.body.push(tags::encode_loss(loss.kind));
        put_varint(&mut self.body, loss.to.0.wrapping_sub(loss.from.0));
        put_varint(&mut self.body, loss.count);
        self.optional(loss.pid.map(|pid| pid.0.into()));
        self.optional(loss.tid.map(|tid| tid.0.into()));
        tags::LOSS
    }

    fn warning(&mut self, warning: &Warning) -> u64 {
        self.body.push(u8::from(warning.time.is_some()) | u8::from(warning.hint.is_some()) << 1);
        if let Some(time) = warning.time {
            self.time(time.0);
        }
        self.text(&warning.code, MAX_TEXT);
        self.text(&warning.message, MAX_TEXT);
        if let Some(hint) = &warning.hint {
            self.text(hint, MAX_TEXT);
        }
        tags::WARNING
    }

    fn time(&mut self, time: u64) {
        let delta = self.context.time_delta(time);
        put_zigzag(&mut self.body, delta);
    }

    /// Writes the number of a thread in this chunk, and returns it. A thread that is new in it is defined first, in front of the event
    /// that is being built.
    fn thread(&mut self, tid: Tid) -> u64 {
        let (number, new) = self.context.number_of(tid);
        if new {
            let mut definition = Vec::with_capacity(5);
            put_varint(&mut definition, tid.0.into());
            put_event_start(&mut self.raw, tags::THREAD, definition.len() as u64);
            self.raw.extend_from_slice(&definition);
        }
        put_varint(&mut self.body, number.into());
        number.into()
    }

    fn optional(&mut self, value: Option<u64>) {
        put_varint(&mut self.body, value.map_or(0, |value| value.saturating_add(1)));
    }

    fn text(&mut self, text: &str, limit: usize) {
        let mut cut = limit.min(text.len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        self.bytes(text.get(..cut).unwrap_or_default().as_bytes(), limit);
    }

    fn bytes(&mut self, bytes: &[u8], limit: usize) {
        let kept = bytes.get(..limit).unwrap_or(bytes);
        put_varint(&mut self.body, kept.len() as u64);
        self.body.extend_from_slice(kept);
    }
}

/// Tag and length of an event.
fn put_event_start(out: &mut Vec<u8>, tag: u64, length: u64) {
    let (short_tag, short_length) = (tag.min(TAG_ESCAPE), length.min(LENGTH_ESCAPE));
    out.push(u8::try_from(short_tag << TAG_SHIFT | short_length).unwrap_or(u8::MAX));
    if short_tag == TAG_ESCAPE {
        put_varint(out, tag - TAG_ESCAPE);
    }
    if short_length == LENGTH_ESCAPE {
        put_varint(out, length);
    }
}
