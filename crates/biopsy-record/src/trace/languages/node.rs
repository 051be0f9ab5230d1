//! The JavaScript of one process: which functions the frames of a stack are.

use std::io;
use std::sync::Arc;

use biopsy_model::Avma;
use biopsy_model::stack::Frame;
use biopsy_runtimes::Limits;
use biopsy_runtimes::node::{SampledNode, ScriptFrame};
use biopsy_stacks::unwind::{FoundBy, WalkedFrame};
use rustc_hash::FxHashMap;

use super::named::{Memory, Named, Timeline};

/// Functions move when memory is collected: for so long one is believed to be where it was.
const MOVES_AFTER: u64 = 100_000_000;
/// What functions share moves rarely, and is asked so often whether it is still the same.
const CHECK_AFTER: u64 = 1_000_000_000;
/// Functions and texts that are kept.
const KEPT: usize = 1 << 16;

/// Compiled code that is of no function.
const REGULAR_EXPRESSION: &str = "(regular expression)";
const COMPILED: &str = "(code made by V8)";

/// What functions of one text share.
#[derive(Debug, Default)]
struct Shared {
    mark: Option<[u64; 2]>,
    checked: u64,
    /// By byte code and place in it; `None` for glue without a name.
    calls: FxHashMap<(u64, u64), Option<Frame>>,
}

/// A V8 that is sampled.
#[derive(Debug)]
pub(crate) struct Node {
    pid: u32,
    node: Arc<SampledNode>,
    memory: Memory,
    functions: FxHashMap<u64, Option<u64>>,
    functions_since: u64,
    shared: FxHashMap<u64, Shared>,
    /// By function and place in its compiled code.
    inlined: FxHashMap<(Option<u64>, u64), Vec<Frame>>,
    inlined_since: u64,
    named: Named,
    limits: Limits,
}

impl Node {
    pub(crate) fn new(pid: u32, node: Arc<SampledNode>) -> Self {
        Self {
            pid,
            node,
            memory: Memory::new(pid),
            functions: FxHashMap::default(),
            functions_since: 0,
            shared: FxHashMap::default(),
            inlined: FxHashMap::default(),
            inlined_since: 0,
            named: Named::new(pid, "[javascript]"),
            limits: Limits::default(),
        }
    }

    /// Appends native frames and calls, innermost first.
    pub(super) fn mixed(
        &mut self,
        walked: &[WalkedFrame],
        word: &dyn Fn(u64) -> Option<u64>,
        now: u64,
        timeline: &mut Timeline<'_>,
        frames: &mut Vec<Frame>,
    ) -> io::Result<()> {
        for (number, frame) in walked.iter().enumerate() {
            let native = timeline.processes.user_frame(self.pid, frame.lookup);
            // Code of V8 has no unwind information, and all of it but the smallest helpers a frame of its own.
            let caller = walked.get(number + 1);
            let by_frame_pointer = caller.is_some_and(|caller| caller.found == FoundBy::FramePointer);
            let is_script = by_frame_pointer || timeline.processes.is_anonymous(native.module);
            let own = caller.is_none_or(|caller| caller.fp != frame.fp);
            let place = frame.fp.filter(|_| is_script && own).and_then(|fp| self.node.frame(fp, word));
            let mut call = match place {
                Some(place) => self.call(place, now, timeline)?,
                None => None,
            };
            if call.is_none() && timeline.processes.is_anonymous(native.module) {
                let matches = frame.fp.is_some_and(|fp| self.node.is_regular_expression(fp, word));
                let words = if matches { REGULAR_EXPRESSION } else { COMPILED };
                call = Some(self.named.words(words, timeline)?);
            }
            // Of the innermost one V8 does not keep where in its code what was put into it is.
            if let Some(place) = place.filter(|_| number > 0 && call.is_some()) {
                frames.extend(self.inlined(place, frame.lookup, now, timeline)?);
            }
            frames.push(call.unwrap_or(native));
        }
        Ok(())
    }

    fn call(
        &mut self,
        frame: ScriptFrame,
        now: u64,
        timeline: &mut Timeline<'_>,
    ) -> io::Result<Option<Frame>> {
        let Some(shared) = self.shared_of(frame.function, now) else { return Ok(None) };
        self.check(shared, now);
        let key = (frame.byte_code, frame.offset);
        if let Some(known) = self.shared.get(&shared).and_then(|shared| shared.calls.get(&key)) {
            return Ok(*known);
        }
        let image = self.memory.image(now);
        let read = image.and_then(|image| self.node.call(image, &self.limits, shared, frame));
        let found = match read.filter(|call| !call.function.is_empty()) {
            Some(call) => Some(self.named.frame(&call, timeline)?),
            None => None,
        };
        if let Some(shared) = self.shared.get_mut(&shared) {
            if shared.calls.len() >= KEPT {
                shared.calls.clear();
            }
            shared.calls.insert(key, found);
        }
        Ok(found)
    }

    /// Calls of functions that the compiler put into this one, innermost first.
    fn inlined(
        &mut self,
        place: ScriptFrame,
        address: Avma,
        now: u64,
        timeline: &mut Timeline<'_>,
    ) -> io::Result<Vec<Frame>> {
        if now >= self.inlined_since + CHECK_AFTER || self.inlined.len() >= KEPT {
            self.inlined.clear();
            self.inlined_since = now;
        }
        let key = (self.shared_of(place.function, now), address.0);
        if let Some(known) = self.inlined.get(&key) {
            return Ok(known.clone());
        }
        let image = self.memory.image(now);
        let read = image.map(|image| self.node.inlined(image, &self.limits, place, address));
        let mut found = Vec::new();
        for call in read.unwrap_or_default() {
            found.push(self.named.frame(&call, timeline)?);
        }
        self.inlined.insert(key, found.clone());
        Ok(found)
    }

    fn shared_of(&mut self, function: u64, now: u64) -> Option<u64> {
        if now >= self.functions_since + MOVES_AFTER || self.functions.len() >= KEPT {
            self.functions.clear();
            self.functions_since = now;
        }
        if let Some(known) = self.functions.get(&function) {
            return *known;
        }
        let shared = self.memory.image(now).and_then(|image| self.node.shared(image, function));
        self.functions.insert(function, shared);
        shared
    }

    /// Forgets what is known of a text where another one is by now.
    fn check(&mut self, shared: u64, now: u64) {
        if self.shared.get(&shared).is_some_and(|known| now < known.checked + CHECK_AFTER) {
            return;
        }
        let mark = self.memory.image(now).and_then(|image| self.node.mark_of(image, shared));
        if self.shared.len() >= KEPT {
            self.shared.clear();
        }
        let known = self.shared.entry(shared).or_default();
        known.checked = now;
        if known.mark != mark {
            known.mark = mark;
            known.calls.clear();
        }
    }
}
