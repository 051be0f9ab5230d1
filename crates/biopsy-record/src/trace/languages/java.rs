//! The Java of one process: how its frames unwind, and its calls by name.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_model::stack::Frame;
use biopsy_model::{Avma, Pid};
use biopsy_runtimes::Limits;
use biopsy_runtimes::jvm::{JavaRule, SampledJava};
use biopsy_stacks::unwind::{CompiledCode, CompiledRule, FoundBy, FrameRule, LOST, UNCHANGED, WalkedFrame};
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

use super::named::{Memory, Named, Timeline};

/// Places of code and methods that are kept. Code that is freed may have other code in its place: what was met first keeps its name
/// until then.
const KEPT: usize = 1 << 16;
/// In place of a frame of the interpreter whose method cannot be read: it is being entered or left.
const INTERPRETER: &str = "(interpreter)";
/// In place of code that the virtual machine made for itself.
const STUB: &str = "(stub of the virtual machine)";
/// `rsp` and `rbp` in DWARF.
const STACK_POINTER: u8 = 7;

/// A virtual machine that is sampled.
#[derive(Debug)]
pub(crate) struct Java {
    pid: u32,
    java: Arc<SampledJava>,
    memory: Memory,
    /// Compiled code by address, and whether a thread stood there.
    compiled: FxHashMap<(u64, bool), Arc<[Frame]>>,
    methods: FxHashMap<(u64, u64), Frame>,
    named: Named,
    limits: Limits,
}

impl Java {
    pub(crate) fn new(pid: u32, java: Arc<SampledJava>) -> Self {
        Self {
            pid,
            java,
            memory: Memory::new(pid),
            compiled: FxHashMap::default(),
            methods: FxHashMap::default(),
            named: Named::new(pid, "[java]"),
            limits: Limits::default(),
        }
    }

    /// How its frames unwind.
    pub(crate) fn rules(&self) -> Option<Box<dyn CompiledCode>> {
        let image = LiveImage::open(Pid(self.pid)).ok()?;
        let (java, limits) = (Arc::clone(&self.java), Limits::default());
        Some(Box::new(JavaRules { java, image, limits, known: Mutex::default() }))
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
        for frame in walked {
            let native = timeline.processes.user_frame(self.pid, frame.lookup);
            if self.java.interpreter.contains(&frame.lookup.0) {
                frames.push(self.interpreted(frame, word, now, timeline)?);
            } else if timeline.processes.is_anonymous(native.module) {
                frames.extend_from_slice(&self.compiled(frame, now, timeline)?);
            } else {
                frames.push(native);
            }
        }
        Ok(())
    }

    fn interpreted(
        &mut self,
        frame: &WalkedFrame,
        word: &dyn Fn(u64) -> Option<u64>,
        now: u64,
        timeline: &mut Timeline<'_>,
    ) -> io::Result<Frame> {
        let place = frame.fp.and_then(|fp| self.java.interpreted(fp, word));
        let Some((method, byte_code)) = place else { return self.named.words(INTERPRETER, timeline) };
        if let Some(known) = self.methods.get(&(method, byte_code)) {
            return Ok(*known);
        }
        let image = self.memory.image(now);
        let read = image.and_then(|image| self.java.method(image, &self.limits, method, byte_code));
        let Some(call) = read else { return self.named.words(INTERPRETER, timeline) };
        let found = self.named.frame(&call, timeline)?;
        if self.methods.len() >= KEPT {
            self.methods.clear();
        }
        self.methods.insert((method, byte_code), found);
        Ok(found)
    }

    fn compiled(
        &mut self,
        frame: &WalkedFrame,
        now: u64,
        timeline: &mut Timeline<'_>,
    ) -> io::Result<Arc<[Frame]>> {
        let exact = frame.found == FoundBy::Registers;
        let key = (frame.ip.0, exact);
        if let Some(known) = self.compiled.get(&key) {
            return Ok(Arc::clone(known));
        }
        let image = self.memory.image(now);
        let calls = image.map(|image| self.java.calls(image, &self.limits, frame.ip.0, exact));
        let mut found = Vec::new();
        for call in calls.unwrap_or_default() {
            found.push(self.named.frame(&call, timeline)?);
        }
        if found.is_empty() {
            found.push(self.named.words(STUB, timeline)?);
        }
        let found: Arc<[Frame]> = found.into();
        if self.compiled.len() >= KEPT {
            self.compiled.clear();
        }
        self.compiled.insert(key, Arc::clone(&found));
        Ok(found)
    }
}

/// How frames of Java unwind: asked while samples are unwound, and read from memory once for each place.
#[derive(Debug)]
struct JavaRules {
    java: Arc<SampledJava>,
    image: LiveImage,
    limits: Limits,
    known: Mutex<FxHashMap<(u64, bool), Option<CompiledRule>>>,
}

impl CompiledCode for JavaRules {
    fn rule(&self, address: Avma, exact: bool) -> Option<CompiledRule> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = known.get(&(address.0, exact)) {
            return *rule;
        }
        let rule = self.java.rule(&self.image, &self.limits, address.0, exact).map(compiled_rule);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert((address.0, exact), rule);
        rule
    }
}

/// Java keeps no register for its caller but the frame pointer.
fn compiled_rule(rule: JavaRule) -> CompiledRule {
    let frame = |bytes: u64, saved| {
        let cfa_offset = i32::try_from(bytes).unwrap_or(i32::MAX);
        CompiledRule::Frame(FrameRule { cfa_register: STACK_POINTER, cfa_offset, saved })
    };
    match rule {
        JavaRule::Bytes(bytes) => frame(bytes, [LOST, -2, LOST, LOST, LOST, LOST]),
        JavaRule::Pushed => frame(16, [LOST, -2, LOST, LOST, LOST, LOST]),
        JavaRule::Bare => frame(8, [LOST, UNCHANGED, LOST, LOST, LOST, LOST]),
        JavaRule::Interpreted => CompiledRule::Linked,
        JavaRule::Stub => CompiledRule::Stub,
        JavaRule::FramePointer => CompiledRule::Unknown,
    }
}
