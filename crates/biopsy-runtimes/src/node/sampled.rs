//! What a recorder of samples needs of V8: which function of JavaScript a frame on a copied stack is.
//!
//! Objects move: the function that a frame has may be somewhere else a moment later. What a function shares with all others that
//! were made of the same text lives long, and is what is kept.

use biopsy_elf::MappedElf;
use biopsy_image::Image;
use biopsy_model::Avma;

use super::frames::TAG;
use super::objects::{Function, Objects, small};
use super::symbols::{self, Layout, PROGRAM_HEADERS, Symbols};
use crate::{Limits, Memory, Module, StrandFrame};

/// Bytes of memory that are kept while one thing is read.
const CACHED: usize = 256 << 10;

/// A V8 of a live process.
#[derive(Clone, Debug)]
pub struct SampledNode {
    /// `20`.
    pub version: String,
    layout: Layout,
}

/// What a look at a process found.
#[derive(Debug)]
pub enum FoundNode {
    /// No V8 that says what it is.
    None,
    /// One that is not read, and why.
    NotRead(String),
    /// One that is read.
    Read(Box<SampledNode>),
}

/// What a frame of JavaScript has on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScriptFrame {
    /// The function.
    pub function: u64,
    /// Its byte code, and where in it; of frames of the interpreter.
    pub byte_code: u64,
    /// As above.
    pub offset: u64,
}

/// Looks for V8 in a process that runs.
#[must_use]
pub fn find(image: &dyn Image) -> FoundNode {
    let memory = Memory::new(image, None, CACHED);
    for module in Module::all(image) {
        let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
        let Ok(elf) = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS) else { continue };
        let dynamic = elf.dynamic().unwrap_or_default();
        let symbols = Symbols { memory: &memory, elf: &elf, dynamic: &dynamic };
        if !symbols::is_v8(&symbols) {
            continue;
        }
        let Some(v8) = symbols::version(&symbols) else { return FoundNode::None };
        let [major, minor, ..] = v8;
        let Some(node) = symbols::node_of(v8) else {
            let why =
                format!("the frames of V8 {major}.{minor} are not known (those of Node 18, 20 and 22 are)");
            return FoundNode::NotRead(why);
        };
        return match Layout::of(&symbols) {
            Ok(layout) => FoundNode::Read(Box::new(SampledNode { version: node.to_owned(), layout })),
            Err(missing) => FoundNode::NotRead(format!("the executable does not export {missing}")),
        };
    }
    FoundNode::None
}

impl SampledNode {
    /// What the frame at a frame pointer has; `None`: it is none of a function. `word` reads the stack.
    #[must_use]
    pub fn frame(&self, fp: u64, word: &dyn Fn(u64) -> Option<u64>) -> Option<ScriptFrame> {
        let slot = |offset: u64| word(fp.checked_sub(offset)?);
        // The context: a pointer to an object. Other frames have their type there.
        slot(8).filter(|context| context & 3 == 1)?;
        let function = slot(16).filter(|function| function & 3 == 1)?;
        Some(ScriptFrame { function, byte_code: slot(32).unwrap_or(0), offset: slot(40).unwrap_or(0) })
    }

    /// Whether the frame at a frame pointer is one of a compiled regular expression.
    #[must_use]
    pub fn is_regular_expression(&self, fp: u64, word: &dyn Fn(u64) -> Option<u64>) -> bool {
        let marker = fp.checked_sub(8).and_then(word).filter(|marker| marker & 1 == 0);
        marker.is_some_and(|marker| self.layout.frames.regular_expression == Some(marker >> 1))
    }

    /// What a function shares with all others of the same text; `None`: it is no function any more.
    #[must_use]
    pub fn shared(&self, image: &dyn Image, function: u64) -> Option<u64> {
        let memory = Memory::new(image, None, CACHED);
        let word = |object: u64, offset: u64| memory.u64((object - 1).checked_add(offset)?);
        let shared = word(function, self.layout.function_shared).filter(|shared| shared & 3 == 1)?;
        let map = word(shared, 0).filter(|map| map & 3 == 1)?;
        let kind = memory.u16((map - 1).checked_add(self.layout.map_type)?)?;
        (kind == self.layout.types.shared).then_some(shared)
    }

    /// Words by which it is seen that it is still the same.
    #[must_use]
    pub fn mark_of(&self, image: &dyn Image, shared: u64) -> Option<[u64; 2]> {
        let memory = Memory::new(image, None, CACHED);
        let word = |offset: u64| memory.u64((shared - 1).checked_add(offset)?);
        Some([word(self.layout.shared_name)?, word(self.layout.shared_script)?])
    }

    /// The call of a function by what it shares; empty names are of glue that V8 does not show either.
    #[must_use]
    pub fn call(
        &self,
        image: &dyn Image,
        limits: &Limits,
        shared: u64,
        frame: ScriptFrame,
    ) -> Option<StrandFrame> {
        let memory = Memory::new(image, None, CACHED);
        let objects = Objects::new(&memory, limits, self.layout.clone());
        let function = objects.shared_function(shared)?;
        let line = line(&objects, &function, frame);
        Some(named(&function, line))
    }

    /// Calls of functions that were put into the one of a frame, innermost first: at the call around `address` in its compiled code.
    #[must_use]
    pub fn inlined(
        &self,
        image: &dyn Image,
        limits: &Limits,
        frame: ScriptFrame,
        address: Avma,
    ) -> Vec<StrandFrame> {
        let memory = Memory::new(image, None, CACHED);
        let objects = Objects::new(&memory, limits, self.layout.clone());
        let calls = objects.inlined_at(frame.function, address.0);
        let calls = calls.into_iter().filter_map(|call| {
            let function = objects.shared_function(call.shared)?;
            let line = function.script.zip(call.position);
            let line = line.and_then(|(script, position)| objects.line(script, position));
            Some(named(&function, line)).filter(|call| !call.function.is_empty())
        });
        calls.collect()
    }
}

fn named(function: &Function, line: Option<u32>) -> StrandFrame {
    let is_anonymous = function.name.is_empty() && function.script.is_some();
    StrandFrame {
        function: if is_anonymous { "(anonymous)".into() } else { function.name.clone() },
        file: function.script_name.clone(),
        line,
        ..StrandFrame::default()
    }
}

fn line(objects: &Objects<'_>, function: &Function, frame: ScriptFrame) -> Option<u32> {
    let is_byte_code =
        frame.byte_code & 3 == 1 && objects.kind(frame.byte_code) == Some(objects.layout.types.bytecode);
    let offset =
        small(frame.offset).and_then(|offset| u64::try_from(offset).ok()).filter(|_| is_byte_code)?;
    let offset = offset.checked_add(TAG)?.checked_sub(objects.layout.bytecode_data)?;
    let position = objects.position(frame.byte_code, u32::try_from(offset).ok()?)?;
    objects.line(function.script?, position)
}
