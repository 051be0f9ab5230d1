//! Stacks of all threads of an image: a frozen process, a core, a minidump.
//!
//! ```text
//! mappings, modules ─► modules::Code ─► ProcessUnwinder ─► frames ─► names::Places ─► names
//!                          ▲                  ▲
//!        files of this machine          registers, memory
//!        with the same build id;
//!        else the image's memory
//! ```
//!
//! Unwind information and names come from the file at the path that the process knew, when it is the same file (build
//! id, or equal headers where there is no build id), and else from what the image has of it in memory. What has neither
//! is walked by frame pointers and shown as module + offset. Nothing is guessed by scanning the stack.

mod known_code;
mod memory;
mod modules;
mod names;
mod options;
mod stacks;
mod variables;

use std::sync::Arc;

use biopsy_image::{GeneralRegisters, Image, MemoryExt, Thread};
use biopsy_model::Avma;
use biopsy_model::stack::StackEnd;

pub use known_code::{FrameRegisters, KnownCode};
pub use modules::{CodeModule, LocalFile};
pub use stacks::{Compiled, Frame, ImageStacks, Place, PlaceHandle, ThreadStack};

pub use crate::symbols::Names;
pub use options::{CompiledFunction, CompiledNames, Options, ResumePoints};
pub use variables::{ModuleVariables, variables};

use crate::elf::{ElfCache, Limits};
use crate::symbols::Wanted;
use crate::unwind::{FoundBy, StackMemory, Surroundings, UserRegisters};
use memory::ImageMemory;
use modules::Code;
use names::Places;

/// Bytes of a stack that are read at once; most stacks are smaller.
const STACK: usize = 16 << 10;

/// Times that all stacks are walked again with files that were fetched: each time they lead into other modules.
const FETCHES: usize = 16;

/// Times that the walk of one thread goes on behind a part that cannot be walked.
const RESUMES: usize = 1_000;

/// Walks the stacks of all threads and finds names.
#[must_use]
pub fn walk(image: &dyn Image, options: &Options<'_>) -> ImageStacks {
    let cache = Arc::new(ElfCache::without_links(Limits::default()));
    let mut options = options.clone();
    let mut walked = Walked::of(image, &options, &cache);
    for _ in 0..FETCHES {
        if !walked.fetch_programs(&mut options) {
            break;
        }
        walked = Walked::of(image, &options, &cache);
    }
    let Walked { mut code, places, threads, registers } = walked;
    let mut problems = Vec::new();
    if image.threads().len() > threads.len() {
        problems.push(format!(
            "stacks of the first {} of {} threads only",
            threads.len(),
            image.threads().len()
        ));
    }
    if code.too_many {
        problems.push(format!("code of the first {} modules only", code.modules.len()));
    }
    let abort_message = code.abort_message();
    let (places, missing) = places.resolve(&mut code, &options, cache);
    problems.extend(missing);
    let known = KnownCode::new(code.unwinder.into_modules(), registers);
    ImageStacks { threads, places, modules: code.modules, abort_message, problems, code: known }
}

/// The stacks of all threads, without names.
struct Walked {
    code: Code,
    places: Places,
    threads: Vec<ThreadStack>,
    registers: known_code::RegistersOf,
}

impl Walked {
    fn of(image: &dyn Image, options: &Options<'_>, cache: &ElfCache) -> Self {
        let mut code = Code::gather(image, options, cache);
        let mut places = Places::default();
        let mut left = options.frames;
        let mut threads = Vec::new();
        let mut registers = known_code::RegistersOf::default();
        for thread in image.threads().iter().take(options.threads) {
            let limit = options.frames_per_thread.min(left);
            let stack = walk_thread(image, thread, &mut code, &mut places, options, limit, &mut registers);
            left = left.saturating_sub(stack.frames.len());
            threads.push(stack);
        }
        Self { code, places, threads, registers }
    }

    /// Gets the files of modules from elsewhere whose frames were met and whose unwind information is neither in the image nor here, as in
    /// cores of the kernel, which leave out the text of files. Whether there was one: then stacks go on where they ended.
    fn fetch_programs(&self, options: &mut Options<'_>) -> bool {
        let Some(elsewhere) = options.symbols.elsewhere.clone() else { return false };
        let before = options.programs.len();
        for number in self.places.modules() {
            let Some((module, file)) = self.code.modules.get(number).zip(self.code.files.get(number)) else {
                continue;
            };
            let lacks_file =
                matches!(module.file, LocalFile::NotLooked | LocalFile::Missing | LocalFile::Different);
            let lacks_rules = file.as_ref().is_none_or(|file| file.unwind_table().is_empty());
            let Some(id) = module.build_id.as_ref().filter(|_| lacks_file && lacks_rules) else { continue };
            // Who was asked before knows it.
            if let Some(path) = elsewhere.get(id, Wanted::Program, &module.path) {
                options.programs.insert(id.clone(), path);
            }
        }
        options.programs.len() > before
    }
}

fn walk_thread(
    image: &dyn Image,
    thread: &Thread,
    code: &mut Code,
    places: &mut Places,
    options: &Options<'_>,
    limit: usize,
    known: &mut known_code::RegistersOf,
) -> ThreadStack {
    let nothing = |end, cut| ThreadStack {
        tid: thread.tid,
        frames: Vec::new(),
        end,
        cut,
        code: Vec::new(),
        code_before: None,
    };
    let Some(registers) = &thread.registers else { return nothing(StackEnd::Skipped, false) };
    if limit == 0 {
        return nothing(StackEnd::Skipped, true);
    }
    let user = user_registers(registers);
    let copy = image.read_up_to(registers.rsp, STACK).unwrap_or_default();
    let stack = StackMemory { base: registers.rsp, bytes: &copy };
    let mut walked = Vec::new();
    let memory = ImageMemory(image);
    let process = Surroundings { memory: &memory, compiled: options.frames_of_compiled, max_frames: limit };
    let mut unwound = code.unwinder.unwind_over(&user, stack, &process, &mut walked);
    let mut interrupted = false;
    for _ in 0..RESUMES {
        let Some((resumes, last)) = options.resumes.zip(walked.last().copied()) else { break };
        if unwound.end == StackEnd::Root || walked.len() >= limit {
            break;
        }
        let at = (!interrupted).then(|| resumes.at(thread.tid, last.ip.0)).flatten();
        interrupted = at.is_some_and(|at| at.sp != last.sp.0);
        if interrupted {
            walked.pop();
        }
        let above = || resumes.above(thread.tid, last.sp.0).filter(|next| next.sp > last.sp.0);
        let Some(next) = at.filter(|_| interrupted).or_else(above) else { break };
        let copy = image.read_up_to(next.sp, STACK).unwrap_or_default();
        let stack = StackMemory { base: next.sp, bytes: &copy };
        let process = Surroundings {
            memory: &memory,
            compiled: options.frames_of_compiled,
            max_frames: limit - walked.len(),
        };
        let mut more = Vec::new();
        unwound = code.unwinder.unwind_over(&next, stack, &process, &mut more);
        if let Some(first) = more.first_mut() {
            if !interrupted {
                // A return address.
                first.lookup = Avma(first.ip.0.wrapping_sub(1));
            }
            first.found = FoundBy::ExplicitFrame;
        }
        walked.extend(more);
    }
    known.keep(thread.tid, &walked);
    let frames = walked.iter().enumerate().map(|(position, frame)| {
        let trampoline = walked.get(position + 1).is_some_and(|next| next.found == FoundBy::SignalFrame);
        // A trampoline's own address is exact: the handler returns to its first instruction.
        let lookup = if trampoline { frame.ip } else { frame.lookup };
        let place = places.intern(code, lookup, trampoline);
        Frame { place, ip: frame.ip, sp: frame.sp, found: frame.found }
    });
    let frames: Vec<Frame> = frames.collect();
    let cut = frames.len() >= limit && unwound.end == StackEnd::Truncated;
    let around = registers.rip.checked_sub(2).map(|start| code.bytes(image, start, 18)).unwrap_or_default();
    let code_before = around.first_chunk().copied();
    let code = match around.get(2..) {
        Some(next) => next.to_vec(),
        // The first instruction of a mapping.
        None => code.bytes(image, registers.rip, 16),
    };
    ThreadStack { tid: thread.tid, frames, end: unwound.end, cut, code, code_before }
}

fn user_registers(registers: &GeneralRegisters) -> UserRegisters {
    let GeneralRegisters { rip, rsp, rbp, rbx, r12, r13, r14, r15, .. } = *registers;
    UserRegisters { ip: rip, sp: rsp, fp: rbp, saved: Some([rbx, r12, r13, r14, r15]) }
}
